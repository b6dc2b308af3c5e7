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
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.atomic.AtomicLong;
import org.h2.mvstore.MVMap;
import org.h2.mvstore.MVStore;

/**
 * The MongoDB server of the tests where no real one is at hand: mongo-java-server on a file. Arguments: file, port (0 =
 * any). Prints its port. It says that it is 4.4, has what was acknowledged in the file (a kill loses nothing), and
 * looks ids up where the library would read the whole collection. It has vector search where a test switches it on
 * (VectorSearch.java).
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
        private final VectorSearch search = new VectorSearch(this);

        Backend(MVStore store) { super(store); }

        @Override protected MongoDatabase openOrCreateDatabase(String name) {
            return new Database(name, getMvStore(), getCursorRegistry());
        }

        @Override public Document handleMessage(MongoMessage message) {
            Document found = search.answer(message.getDatabaseName(), message.getDocument());
            if (found != null) return found;
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

    /** Looks up by id, by the thread that documents belong to and by the checkpoint that writes are of. */
    private static class Lookup extends H2Collection {
        private static final List<String> FIELDS = List.of("_id", "thread_id", "of");
        private Map<String, Map<Object, Set<Object>>> lists;

        Lookup(MongoDatabase database, String name, CollectionOptions options, MVMap<Object, Document> data, MVMap<String, Object> meta, CursorRegistry cursors) {
            super(database, name, options, data, meta, cursors);
        }

        @Override protected QueryResult queryDocuments(Document query, Document order, int skip, int limit, int batch, Document fields) {
            for (String field : FIELDS) {
                Collection<?> values = valuesOf(query.get(field));
                if (values == null) continue;
                List<Object> found = new ArrayList<>();
                for (Object value : values) found.addAll(positions(field, value));
                return matchDocuments(query, found, order, skip, limit, batch, fields);
            }
            return super.queryDocuments(query, order, skip, limit, batch, fields);
        }

        @Override protected Object addDocumentInternal(Document document) {
            Object position = super.addDocumentInternal(document);
            if (lists != null) lists.forEach((field, list) -> put(list, document.get(field), position));
            return position;
        }

        @Override protected void removeDocument(Object position) {
            Document document = getDocument(position);
            if (lists != null) lists.forEach((field, list) -> list.getOrDefault(document.get(field), new HashSet<>()).remove(position));
            super.removeDocument(position);
        }

        @Override protected void handleUpdate(Object position, Document before, Document after) {
            super.handleUpdate(position, before, after);
            if (lists != null) lists.forEach((field, list) -> {
                if (Objects.equals(before.get(field), after.get(field))) return;
                list.getOrDefault(before.get(field), new HashSet<>()).remove(position);
                put(list, after.get(field), position);
            });
        }

        private Collection<Object> positions(String field, Object value) {
            if (field.equals("_id")) return getDocument(value) == null ? List.of() : List.of(value);
            if (lists == null) {
                lists = new HashMap<>();
                for (String name : FIELDS) if (!name.equals("_id")) lists.put(name, new HashMap<>());
                streamAllDocumentsWithPosition().forEach(one -> lists.forEach((name, list) -> put(list, one.getDocument().get(name), one.getPosition())));
            }
            return List.copyOf(lists.get(field).getOrDefault(value, Set.of()));
        }

        private static void put(Map<Object, Set<Object>> list, Object value, Object position) {
            if (value instanceof String) list.computeIfAbsent(value, key -> new LinkedHashSet<>()).add(position);
        }

        /** The texts that a field is asked to be one of; null when it is asked for something else. */
        private static Collection<?> valuesOf(Object asked) {
            if (asked instanceof String) return List.of(asked);
            if (asked instanceof Document && ((Document) asked).keySet().equals(Set.of("$in"))) return Set.copyOf((Collection<?>) ((Document) asked).get("$in"));
            return null;
        }
    }
}
