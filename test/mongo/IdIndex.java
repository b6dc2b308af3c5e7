import de.bwaldvogel.mongo.MongoCollection;
import de.bwaldvogel.mongo.backend.AbstractUniqueIndex;
import de.bwaldvogel.mongo.backend.IndexKey;
import de.bwaldvogel.mongo.backend.KeyValue;
import de.bwaldvogel.mongo.bson.Document;
import java.util.List;
import java.util.Map;
import org.h2.mvstore.MVMap;

/** The index on `_id`: the documents are stored by their ids, so it needs no entries. The library would keep a second map. */
class IdIndex extends AbstractUniqueIndex<Object> {
    private final MVMap<Object, Document> data;

    IdIndex(String name, List<IndexKey> keys, MVMap<Object, Document> data) {
        super(name, keys, false);
        this.data = data;
    }

    @Override protected Object getPosition(KeyValue key) {
        Object id = key.get(0);
        // The library compares numbers as Double, but stores a document by its id as it is.
        if (id instanceof Number) throw new UnsupportedOperationException("an id of this server is no number");
        return data.containsKey(id) ? id : null;
    }

    @Override protected Object removeDocument(KeyValue key) { return getPosition(key); }
    /** Called when the document is stored already. */
    @Override public synchronized void add(Document document, Object position, MongoCollection<Object> collection) {}
    @Override protected boolean putKeyPosition(KeyValue key, Object position) { return true; }

    @Override protected Iterable<Map.Entry<KeyValue, Object>> getIterable() {
        return () -> data.keySet().stream().map(id -> Map.entry(new KeyValue(id), id)).iterator();
    }

    @Override public long getCount() { return data.sizeAsLong(); }
    @Override public boolean isEmpty() { return data.isEmpty(); }
    @Override public long getDataSize() { return getCount(); }
}
