import de.bwaldvogel.mongo.MongoDatabase;
import de.bwaldvogel.mongo.backend.CollectionOptions;
import de.bwaldvogel.mongo.backend.CursorRegistry;
import de.bwaldvogel.mongo.backend.Index;
import de.bwaldvogel.mongo.backend.QueryResult;
import de.bwaldvogel.mongo.backend.h2.H2Collection;
import de.bwaldvogel.mongo.bson.Document;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.Set;
import java.util.function.Predicate;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.h2.mvstore.MVMap;

/** Finds documents by their ids, and by the indexes that were declared, which the library ignores. */
class IndexedCollection extends H2Collection {
    /** The first stage of a pipeline that the thread begins to execute; the library would give it every document. */
    static final ThreadLocal<Document> FIRST_MATCH = new ThreadLocal<>();

    private static final Document ANY = new Document();

    private final Supplier<List<Document>> descriptions;
    /** Made at their first use; null: an index was declared since. */
    private List<OrderedIndex> indexes;

    IndexedCollection(
        MongoDatabase database, String name, CollectionOptions options, MVMap<Object, Document> data, MVMap<String, Object> meta,
        CursorRegistry cursors, Supplier<List<Document>> descriptions
    ) {
        super(database, name, options, data, meta, cursors);
        this.descriptions = descriptions;
    }

    @Override protected QueryResult queryDocuments(Document query, Document order, int skip, int limit, int batch, Document fields) {
        Collection<?> ids = query.isEmpty() ? null : idsOf(query.get("_id"));
        if (ids != null) {
            List<Object> found = new ArrayList<>();
            for (Object id : ids) if (getDocument(id) != null) found.add(id);
            return matchDocuments(query, found, order, skip, limit, batch, fields);
        }
        OrderedIndex.Plan plan = planOf(query, order, limit > 0);
        if (plan == null) return super.queryDocuments(query, order, skip, limit, batch, fields);
        Stream<Document> found = plan.positions().map(this::getDocument);
        return matchDocumentsFromStream(query, found, skip, limit, batch, plan.way == 0 ? deriveComparator(order) : null, fields);
    }

    /** Copies: the library changes the documents that it updates, while others are written to the file or to a client. */
    @Override protected QueryResult matchDocumentsFromStream(
        Document query, Stream<Document> all, int skip, int limit, int batch, Comparator<Document> order, Document fields
    ) {
        Predicate<Document> known = Matcher.of(query);
        Predicate<Document> matches = known != null ? known : document -> documentMatchesQuery(document, query);
        Stream<Document> found = all.filter(matches).map(Document::clone);
        return super.matchDocumentsFromStream(ANY, found, skip, limit, batch, order, fields);
    }

    @Override public synchronized int count(Document query, int skip, int limit) {
        OrderedIndex.Plan plan = query == null || query.isEmpty() || query.containsKey("_id") ? null : planOf(query, null, false);
        if (plan == null || !plan.covers()) return super.count(query, skip, limit);
        Stream<Object> found = plan.positions().skip(skip);
        return (int) (limit > 0 ? found.limit(limit) : found).count();
    }

    @Override public Stream<Document> queryAllAsStream() {
        Document first = FIRST_MATCH.get();
        // Other stages may read other collections.
        FIRST_MATCH.remove();
        return first == null ? super.queryAllAsStream() : handleQueryAsStream(first);
    }

    @Override protected boolean tracksDataSize() { return false; }

    @Override public void addIndex(Index<Object> index) {
        super.addIndex(index);
        indexes = null;
    }

    @Override protected Object addDocumentInternal(Document document) {
        Object position = super.addDocumentInternal(document);
        if (indexes != null) for (OrderedIndex index : indexes) index.add(document, position);
        return position;
    }

    @Override protected void removeDocument(Object position) {
        Document document = getDocument(position);
        if (indexes != null) for (OrderedIndex index : indexes) index.remove(document, position);
        super.removeDocument(position);
    }

    @Override protected void handleUpdate(Object position, Document before, Document after) {
        super.handleUpdate(position, before, after);
        if (indexes != null) for (OrderedIndex index : indexes) index.update(before, after, position);
    }

    /** The best use of an index, the first by name among equals; null: every document is read. */
    private OrderedIndex.Plan planOf(Document query, Document order, boolean limited) {
        if (query.isEmpty() && (order == null || order.isEmpty() || !limited)) return null;
        if (indexes == null) {
            List<OrderedIndex> made = descriptions.get().stream().sorted(Comparator.comparing((Document one) -> (String) one.get("name"))).map(OrderedIndex::new).toList();
            streamAllDocumentsWithPosition().forEach(one -> made.forEach(index -> index.add(one.getDocument(), one.getPosition())));
            indexes = made;
        }
        OrderedIndex.Demands demands = new OrderedIndex.Demands(query);
        OrderedIndex.Plan best = null;
        for (OrderedIndex index : indexes) {
            OrderedIndex.Plan plan = index.plan(demands, order, limited);
            if (plan != null && (best == null || plan.score > best.score)) best = plan;
        }
        return best;
    }

    /** The texts that an id is asked to be one of; null when it is asked for something else. */
    private static Collection<?> idsOf(Object asked) {
        if (asked instanceof String) return List.of(asked);
        if (asked instanceof Document && ((Document) asked).keySet().equals(Set.of("$in"))) return Set.copyOf((Collection<?>) ((Document) asked).get("$in"));
        return null;
    }
}
