import de.bwaldvogel.mongo.MongoBackend;
import de.bwaldvogel.mongo.MongoCollection;
import de.bwaldvogel.mongo.bson.BinData;
import de.bwaldvogel.mongo.bson.Document;
import de.bwaldvogel.mongo.exception.MongoServerError;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/**
 * The commands of a MongoDB that has vector search, for the databases in which a test switches it on: exact instead of
 * approximate, otherwise as https://www.mongodb.com/docs/atlas/atlas-vector-search/vector-search-stage/ says. As there, an
 * index may not be ready yet, and a search finds what the index has seen of the collection, less what was removed since.
 *
 * `{weftSearch: 1, queryable?, follows?, lists?, makes?}` switches it on. `queryable`: whether indexes are ready; `follows`:
 * whether they see what is written from now on; `lists`, `makes`: the error code with which the commands about indexes are
 * refused, as by servers without vector search.
 */
class VectorSearch {
    private static final Set<String> SIMILARITIES = Set.of("cosine", "euclidean", "dotProduct");
    private static final int MOST = 10_000;

    private static class State {
        volatile boolean queryable = true;
        volatile Integer lists;
        volatile Integer makes;
        /** By collection and name. */
        final Map<String, Map<String, Document>> indexes = new ConcurrentHashMap<>();
        /** What the indexes have seen, by collection; null: all that there is. */
        volatile Map<String, List<Document>> seen;
    }

    private final MongoBackend backend;
    private final Map<String, State> states = new ConcurrentHashMap<>();

    VectorSearch(MongoBackend backend) { this.backend = backend; }

    /** Null for a command that is not one of these, or that the database does not have. */
    Document answer(String database, Document command) {
        String name = command.keySet().iterator().next();
        if (name.equals("weftSearch")) return switchOn(database, command);
        State state = states.get(database);
        if (state == null) return null;
        String collection = String.valueOf(command.get(name));
        if (name.equals("createSearchIndexes")) return create(state, database, collection, documents(command.get("indexes")));
        if (!name.equals("aggregate")) return null;
        List<Document> pipeline = documents(command.get("pipeline"));
        String stage = pipeline.isEmpty() ? "" : pipeline.get(0).keySet().iterator().next();
        boolean lists = stage.equals("$listSearchIndexes");
        if (!lists && !stage.equals("$vectorSearch")) return null;
        Document concern = (Document) command.get("readConcern");
        if (concern != null && concern.get("level") != null && !concern.get("level").equals("local"))
            throw new MongoServerError(72, "InvalidOptions", "Aggregation stage " + stage + " cannot run with a readConcern other than 'local'. Current readConcern: " + concern.get("level"));
        Document asked = (Document) pipeline.get(0).get(stage);
        List<Document> found = lists ? list(state, collection, asked) : search(state, database, collection, asked);
        if (pipeline.size() > 1) found = project(found, (Document) pipeline.get(1).get("$project"));
        else found.forEach(document -> document.remove(SCORE));
        Document cursor = new Document("id", 0L).append("ns", database + "." + collection).append("firstBatch", found);
        return new Document("cursor", cursor).append("ok", 1.0);
    }

    private Document switchOn(String database, Document command) {
        State state = states.computeIfAbsent(database, key -> new State());
        if (command.get("lists") != null) state.lists = ((Number) command.get("lists")).intValue();
        if (command.get("makes") != null) state.makes = ((Number) command.get("makes")).intValue();
        if (command.get("queryable") != null) state.queryable = (Boolean) command.get("queryable");
        if (Boolean.TRUE.equals(command.get("follows"))) state.seen = null;
        if (Boolean.FALSE.equals(command.get("follows"))) {
            Map<String, List<Document>> seen = new ConcurrentHashMap<>();
            for (String collection : state.indexes.keySet()) seen.put(collection, all(database, collection));
            state.seen = seen;
        }
        return new Document("ok", 1.0);
    }

    private Document create(State state, String database, String collection, List<Document> wanted) {
        refuse(state.makes);
        if (collectionOf(database, collection) == null) throw new MongoServerError(26, "NamespaceNotFound", "Collection '" + database + "." + collection + "' does not exist.");
        Map<String, Document> indexes = state.indexes.computeIfAbsent(collection, key -> new ConcurrentHashMap<>());
        List<Document> created = new ArrayList<>();
        for (Document one : wanted) {
            String name = (String) one.get("name");
            if (!"vectorSearch".equals(one.get("type"))) throw new MongoServerError(2, "BadValue", "only indexes of type vectorSearch are here");
            for (Document field : documents(((Document) one.get("definition")).get("fields"))) {
                if (!(field.get("path") instanceof String)) throw new MongoServerError(2, "BadValue", "\"path\" is required");
                if (field.get("type").equals("filter")) continue;
                int size = ((Number) field.get("numDimensions")).intValue();
                if (!field.get("type").equals("vector") || size < 1 || size > 8192 || !SIMILARITIES.contains(field.get("similarity")))
                    throw new MongoServerError(2, "BadValue", "a field of the index is not one");
            }
            if (indexes.putIfAbsent(name, one.cloneDeeply()) != null) throw new MongoServerError(68, "IndexAlreadyExists", "Duplicate Index");
            created.add(new Document("id", Integer.toHexString(System.identityHashCode(one))).append("name", name));
        }
        return new Document("indexesCreated", created).append("ok", 1.0);
    }

    private static List<Document> list(State state, String collection, Document asked) {
        refuse(state.lists);
        List<Document> found = new ArrayList<>();
        state.indexes.getOrDefault(collection, Map.of()).forEach((name, index) -> {
            if (asked.get("name") != null && !asked.get("name").equals(name)) return;
            found.add(new Document("id", name).append("name", name).append("type", index.get("type"))
                .append("status", state.queryable ? "READY" : "BUILDING").append("queryable", state.queryable)
                .append("latestDefinition", index.get("definition")));
        });
        return found;
    }

    private static void refuse(Integer code) {
        if (code != null) throw new MongoServerError(code, "Location" + code, "a test has refused this");
    }

    private List<Document> search(State state, String database, String collection, Document asked) {
        Document index = state.indexes.getOrDefault(collection, Map.of()).get(asked.get("index"));
        // As a real server does.
        if (index == null) return new ArrayList<>();
        if (!state.queryable) throw new MongoServerError(8, "UnknownError", "cannot query vector index " + asked.get("index") + " while in state INITIAL_SYNC");
        int limit = ((Number) asked.get("limit")).intValue();
        int candidates = ((Number) asked.get("numCandidates")).intValue();
        if (limit < 1 || candidates > MOST || limit > candidates) throw new MongoServerError(8, "UnknownError", "\"limit\" and \"numCandidates\" must be at most 10000, and limit at most numCandidates");
        String path = (String) asked.get("path");
        List<Document> fields = documents(((Document) index.get("definition")).get("fields"));
        int size = fields.stream().filter(field -> field.get("path").equals(path) && field.get("type").equals("vector"))
            .mapToInt(field -> ((Number) field.get("numDimensions")).intValue()).findFirst()
            .orElseThrow(() -> new MongoServerError(8, "UnknownError", path + " is not indexed as vector"));
        float[] query = vector(asked.get("queryVector"));
        if (query == null || query.length != size) throw new MongoServerError(8, "UnknownError", "vector field is indexed with " + size + " dimensions but queried with another number");
        if (length(query) == 0) throw new MongoServerError(8, "UnknownError", "queryVector must not be a zero vector for cosine similarity");
        Document filter = asked.get("filter") == null ? new Document() : (Document) asked.get("filter");
        for (String name : filter.keySet())
            if (fields.stream().noneMatch(field -> field.get("path").equals(name) && field.get("type").equals("filter")))
                throw new MongoServerError(8, "UnknownError", "Path '" + name + "' needs to be indexed as filter");
        List<Document> scored = new ArrayList<>();
        Map<Object, Document> present = new LinkedHashMap<>();
        for (Document document : all(database, collection)) present.put(document.get("_id"), document);
        for (Document document : state.seen == null ? present.values() : state.seen.getOrDefault(collection, List.of())) {
            float[] own = vector(document.get(path));
            if (own == null || own.length != size || length(own) == 0 || !matches(document, filter)) continue;
            scored.add(new Document("_id", document.get("_id")).append(SCORE, (1 + product(own, query) / length(own) / length(query)) / 2));
        }
        scored.sort(Comparator.comparingDouble(one -> -(Double) one.get(SCORE)));
        List<Document> found = new ArrayList<>();
        for (Document one : scored.subList(0, Math.min(limit, scored.size()))) {
            Document document = present.get(one.get("_id"));
            if (document != null) found.add(document.clone().append(SCORE, one.get(SCORE)));
        }
        return found;
    }

    private static final String SCORE = "$vectorSearchScore";

    /** Members of documents, and the score where `$meta` asks for it. */
    private static List<Document> project(List<Document> found, Document fields) {
        List<Document> out = new ArrayList<>();
        for (Document document : found) {
            Document one = new Document();
            if (!fields.containsKey("_id")) one.append("_id", document.get("_id"));
            fields.forEach((name, value) -> {
                boolean scores = value instanceof Document && "vectorSearchScore".equals(((Document) value).get("$meta"));
                if (scores) one.append(name, document.get(SCORE));
                else if (value instanceof Number && ((Number) value).intValue() == 1 && document.containsKey(name)) one.append(name, document.get(name));
            });
            out.add(one);
        }
        return out;
    }

    /** Equality, which for an array is that of one of its members. */
    private static boolean matches(Document document, Document filter) {
        for (Map.Entry<String, Object> one : filter.entrySet()) {
            Object wanted = one.getValue();
            if (wanted instanceof Document) {
                if (!((Document) wanted).keySet().equals(Set.of("$eq"))) throw new MongoServerError(8, "UnknownError", "only $eq is here");
                wanted = ((Document) wanted).get("$eq");
            }
            Object own = document.get(one.getKey());
            if (!(own instanceof Collection ? ((Collection<?>) own).contains(wanted) : wanted.equals(own))) return false;
        }
        return true;
    }

    /** Of a binary vector of 32-bit floats (https://github.com/mongodb/specifications, bson-binary-vector) or of an array of numbers. */
    private static float[] vector(Object value) {
        if (value instanceof Collection) {
            float[] numbers = new float[((Collection<?>) value).size()];
            int at = 0;
            for (Object number : (Collection<?>) value) numbers[at++] = ((Number) number).floatValue();
            return numbers;
        }
        if (!(value instanceof BinData)) return null;
        byte[] bytes = ((BinData) value).getData();
        if (bytes.length < 2 || bytes[0] != 0x27 || bytes[1] != 0) return null;
        float[] numbers = new float[(bytes.length - 2) / 4];
        ByteBuffer.wrap(bytes, 2, bytes.length - 2).order(ByteOrder.LITTLE_ENDIAN).asFloatBuffer().get(numbers);
        return numbers;
    }

    private static double product(float[] a, float[] b) {
        double sum = 0;
        for (int i = 0; i < a.length; i++) sum += (double) a[i] * b[i];
        return sum;
    }

    private static double length(float[] a) { return Math.sqrt(product(a, a)); }

    private MongoCollection<?> collectionOf(String database, String collection) {
        return backend.resolveDatabase(database).resolveCollection(collection, false);
    }

    private List<Document> all(String database, String collection) {
        List<Document> documents = new ArrayList<>();
        MongoCollection<?> found = collectionOf(database, collection);
        if (found != null) for (Document document : found.queryAll()) documents.add(document);
        return documents;
    }

    @SuppressWarnings("unchecked")
    private static List<Document> documents(Object value) { return new ArrayList<>((Collection<Document>) value); }
}
