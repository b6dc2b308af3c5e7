import de.bwaldvogel.mongo.MongoCollection;
import de.bwaldvogel.mongo.MongoDatabase;
import de.bwaldvogel.mongo.MongoServer;
import de.bwaldvogel.mongo.MongoVersion;
import de.bwaldvogel.mongo.backend.CollectionOptions;
import de.bwaldvogel.mongo.backend.CursorRegistry;
import de.bwaldvogel.mongo.backend.Index;
import de.bwaldvogel.mongo.backend.IndexKey;
import de.bwaldvogel.mongo.backend.KeyValue;
import de.bwaldvogel.mongo.backend.h2.H2Backend;
import de.bwaldvogel.mongo.backend.h2.H2Database;
import de.bwaldvogel.mongo.bson.Document;
import de.bwaldvogel.mongo.wire.message.MongoMessage;
import java.net.InetSocketAddress;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicLong;
import org.h2.mvstore.MVMap;
import org.h2.mvstore.MVStore;

/**
 * The MongoDB server of the tests where no real one is at hand: mongo-java-server on a file. Arguments: file, port (0 =
 * any). Prints its port. It says that it is 4.4, has what was acknowledged in the file (a kill loses nothing), keeps BSON
 * (StoredTypes.java) and uses indexes (IndexedCollection.java, IdIndex.java). It has vector search where a test switches it on
 * (VectorSearch.java).
 */
public class WeftTestMongo {
    private static final Set<String> WRITES = Set.of("insert", "update", "delete", "findAndModify", "createIndexes", "dropDatabase", "drop");
    private static final Document COUNT = new Document("$group", new Document("_id", 1).append("n", new Document("$sum", 1)));
    private static final int CACHE_MB = 64;
    /** Of the file, which keeps whole pages: a change writes one again. */
    private static final int PAGE_BYTES = 4 * 1024;
    /** The classes of the library use it before their subclasses have their fields. */
    private static MVStore store;

    public static void main(String[] args) {
        store = new MVStore.Builder().fileName(args[0]).cacheSize(CACHE_MB).pageSplitSize(PAGE_BYTES).open();
        Backend backend = new Backend();
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
        private final AtomicLong written = new AtomicLong();
        private long committed;

        Backend() { super(store); }

        @Override protected MongoDatabase openOrCreateDatabase(String name) { return new Database(name, getCursorRegistry()); }

        @Override public Document handleMessage(MongoMessage message) {
            Document command = message.getDocument();
            Document found = search.answer(message.getDatabaseName(), command);
            if (found == null) found = count(message.getDatabaseName(), command);
            if (found != null) return found;
            IndexedCollection.FIRST_MATCH.set(firstMatch(command));
            Document answer = super.handleMessage(message);
            IndexedCollection.FIRST_MATCH.remove();
            boolean nothing = Integer.valueOf(0).equals(answer.get("n"));
            if (!nothing && WRITES.contains(command.keySet().iterator().next())) commitUpTo(written.incrementAndGet());
            return answer;
        }

        /** The answer to countDocuments of a driver, which an index may know; null for another command. */
        private Document count(String name, Document command) {
            Document match = firstMatch(command);
            List<?> stages = match == null ? List.of() : List.copyOf((Collection<?>) command.get("pipeline"));
            if (stages.isEmpty() || !stages.get(stages.size() - 1).equals(COUNT)) return null;
            int skip = 0;
            int limit = 0;
            for (Object one : stages.subList(1, stages.size() - 1)) {
                Document stage = (Document) one;
                if (stage.containsKey("$skip") && limit == 0) skip = ((Number) stage.get("$skip")).intValue();
                else if (stage.containsKey("$limit")) limit = ((Number) stage.get("$limit")).intValue();
                else return null;
            }
            String collection = (String) command.get("aggregate");
            MongoCollection<?> found = resolveDatabase(name).resolveCollection(collection, false);
            int n = found == null ? 0 : found.count(match, skip, limit);
            List<Document> batch = n == 0 ? List.of() : List.of(new Document("_id", 1).append("n", n));
            return new Document("cursor", new Document("id", 0L).append("ns", name + "." + collection).append("firstBatch", batch)).append("ok", 1.0);
        }

        private static Document firstMatch(Document command) {
            if (!(command.get("pipeline") instanceof Collection)) return null;
            Collection<?> pipeline = (Collection<?>) command.get("pipeline");
            return pipeline.isEmpty() ? null : (Document) ((Document) pipeline.iterator().next()).get("$match");
        }

        private synchronized void commitUpTo(long mine) {
            if (committed >= mine) return;
            long all = written.get();
            store.commit();
            committed = all;
        }
    }

    private static class Database extends H2Database {
        Database(String name, CursorRegistry cursors) { super(name, store, cursors); }

        @Override protected MongoCollection<Object> openOrCreateCollection(String name, CollectionOptions options) {
            String full = getFullCollectionNamespace(name);
            return new IndexedCollection(this, name, options, dataOf(full), store.openMap("meta." + full), cursorRegistry, () -> descriptions(full));
        }

        @Override protected Index<Object> openOrCreateUniqueIndex(String collection, String name, List<IndexKey> keys, boolean sparse) {
            if (keys.size() == 1 && keys.get(0).getKey().equals("_id")) return new IdIndex(name, keys, dataOf(getFullCollectionNamespace(collection)));
            // Opened here with its type; the superclass gets the map that is open.
            store.openMap(getFullCollectionNamespace(collection) + "._index_" + name, new MVMap.Builder<KeyValue, Object>().keyType(StoredTypes.KEY));
            return super.openOrCreateUniqueIndex(collection, name, keys, sparse);
        }

        /** The superclass opens it in the same way, but with another type of values if it is not open yet. */
        private static MVMap<Object, Document> dataOf(String collection) {
            return store.openMap("databases." + collection, new MVMap.Builder<Object, Document>().valueType(StoredTypes.DOCUMENT));
        }

        private List<Document> descriptions(String collection) {
            return getOrCreateIndexesCollection().handleQueryAsStream(new Document())
                .filter(one -> collection.equals(one.get("ns")) && !((Map<?, ?>) one.get("key")).keySet().equals(Set.of("_id")))
                .toList();
        }
    }
}
