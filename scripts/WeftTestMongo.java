import de.bwaldvogel.mongo.MongoDatabase;
import de.bwaldvogel.mongo.MongoServer;
import de.bwaldvogel.mongo.MongoVersion;
import de.bwaldvogel.mongo.backend.CollectionOptions;
import de.bwaldvogel.mongo.backend.CursorRegistry;
import de.bwaldvogel.mongo.backend.QueryResult;
import de.bwaldvogel.mongo.MongoCollection;
import de.bwaldvogel.mongo.backend.h2.H2Backend;
import de.bwaldvogel.mongo.backend.h2.H2Collection;
import de.bwaldvogel.mongo.backend.h2.H2Database;
import de.bwaldvogel.mongo.bson.Document;
import de.bwaldvogel.mongo.wire.message.MongoMessage;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Set;
import java.util.concurrent.atomic.AtomicLong;
import org.h2.mvstore.MVMap;
import org.h2.mvstore.MVStore;

/**
 * The MongoDB server of the tests where no real one is at hand: mongo-java-server on a file. Arguments: file, port (0 =
 * any). Prints its port. It says that it is 4.4, has what was acknowledged in the file (a kill loses nothing), and
 * looks ids up where the library would read the whole collection.
 */
public class WeftTestMongo {
    private static final Set<String> WRITES = Set.of("insert", "update", "delete", "findAndModify", "createIndexes", "dropDatabase", "drop");

    public static void main(String[] args) {
        Backend backend = new Backend(MVStore.open(args[0]));
        backend.version(new MongoVersion() {
            @Override public List<Integer> getVersionArray() { return List.of(4, 4, 0); }
            @Override public int getWireVersion() { return 9; }
        });
        MongoServer server = new MongoServer(backend);
        // A thread per connection: those that wait for the disk together share one commit.
        server.bind(new InetSocketAddress("127.0.0.1", Integer.parseInt(args[1])), 1, 64);
        Runtime.getRuntime().addShutdownHook(new Thread(server::shutdownNow));
        System.out.println(server.getLocalAddress().getPort());
        System.out.flush();
    }

    private static class Backend extends H2Backend {
        Backend(MVStore store) { super(store); }

        @Override protected MongoDatabase openOrCreateDatabase(String name) {
            return new Database(name, getMvStore(), getCursorRegistry());
        }

        @Override public Document handleMessage(MongoMessage message) {
            Document answer = super.handleMessage(message);
            boolean nothing = Integer.valueOf(0).equals(answer.get("n"));
            if (!nothing && WRITES.contains(message.getDocument().keySet().iterator().next())) commitUpTo(written.incrementAndGet());
            return answer;
        }

        private final AtomicLong written = new AtomicLong();
        private long committed;

        private synchronized void commitUpTo(long mine) {
            if (committed >= mine) return;
            long all = written.get();
            getMvStore().commit();
            committed = all;
        }
    }

    private static class Database extends H2Database {
        private final MVStore store;

        Database(String name, MVStore store, CursorRegistry cursors) {
            super(name, store, cursors);
            this.store = store;
        }

        @Override protected MongoCollection<Object> openOrCreateCollection(String name, CollectionOptions options) {
            // The superclass opens collections before its subclass has its fields: then it asks for the maps itself.
            if (store == null) return super.openOrCreateCollection(name, options);
            String full = getFullCollectionNamespace(name);
            return new Lookup(this, name, options, store.openMap(DATABASES + full), store.openMap("meta." + full), cursorRegistry);
        }

        private static final String DATABASES = "databases.";
    }

    private static class Lookup extends H2Collection {
        Lookup(MongoDatabase database, String name, CollectionOptions options, MVMap<Object, Document> data, MVMap<String, Object> meta, CursorRegistry cursors) {
            super(database, name, options, data, meta, cursors);
        }

        @Override protected QueryResult queryDocuments(Document query, Document order, int skip, int limit, int batch, Document fields) {
            Collection<?> ids = idsOf(query.get("_id"));
            if (ids == null) return super.queryDocuments(query, order, skip, limit, batch, fields);
            List<Object> found = new ArrayList<>();
            for (Object id : ids) if (getDocument(id) != null) found.add(id);
            return matchDocuments(query, found, order, skip, limit, batch, fields);
        }

        private static Collection<?> idsOf(Object id) {
            if (id instanceof String) return List.of(id);
            if (id instanceof Document && ((Document) id).keySet().equals(Set.of("$in"))) return Set.copyOf((Collection<?>) ((Document) id).get("$in"));
            return null;
        }
    }
}
