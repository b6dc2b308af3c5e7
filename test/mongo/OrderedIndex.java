import de.bwaldvogel.mongo.bson.Document;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.NavigableSet;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Stream;

/**
 * An index as it is declared with createIndexes: the positions of the documents that its partial filter selects, in the
 * order of its keys. A document whose key is a list has an entry for each element; an empty list counts as null.
 */
class OrderedIndex {
    /** What a query demands of its fields, beside what only a look at the document can tell. */
    static class Demands {
        /** By field: the conditions, as they are in the query. */
        final Map<String, List<Object>> of = new HashMap<>();
        /** Whether these are all. */
        boolean complete = true;

        Demands(Document query) { add(query); }

        private void add(Document query) {
            query.forEach((field, asked) -> {
                if (field.equals("$and")) for (Object one : (Collection<?>) asked) add((Document) one);
                else if (field.startsWith("$")) complete = false;
                else of.computeIfAbsent(field, key -> new ArrayList<>()).add(asked);
            });
        }

        /** The values that the field may have; null when they are not listed. */
        Collection<?> valuesOf(String field) {
            for (Object asked : of.getOrDefault(field, List.of())) {
                if (isValue(asked)) return List.of(asked);
                if (!isOperators(asked)) continue;
                Object equal = ((Document) asked).get("$eq");
                if (isValue(equal)) return List.of(equal);
                Object list = ((Document) asked).get("$in");
                if (list instanceof Collection && ((Collection<?>) list).stream().allMatch(Demands::isValue)) return new LinkedHashSet<>((Collection<?>) list);
            }
            return null;
        }

        Object bound(String field, String... names) {
            for (Object asked : of.getOrDefault(field, List.of()))
                if (isOperators(asked)) for (String name : names) if (isValue(((Document) asked).get(name))) return ((Document) asked).get(name);
            return null;
        }

        static boolean isValue(Object value) { return value instanceof String || value instanceof Number || value instanceof Boolean; }
        static boolean isOperators(Object asked) {
            return asked instanceof Document && !((Document) asked).isEmpty() && ((Document) asked).keySet().iterator().next().startsWith("$");
        }
    }

    /** How a query would use the index. */
    class Plan {
        final Demands demands;
        /** Values of the first keys, as the query lists them; each is one part of the index. */
        final List<Object[]> prefixes;
        final int equal;
        final Object from;
        final Object to;
        /** The index gives the documents in the order that is asked for: 1 forward, −1 backward, 0 not. */
        final int way;
        final int score;

        Plan(Demands demands, Document order, boolean limited) {
            this.demands = demands;
            List<Object[]> made = List.<Object[]>of(new Object[0]);
            int count = 0;
            for (; count < fields.length; count++) {
                Collection<?> values = demands.valuesOf(fields[count]);
                if (values == null || made.size() * values.size() > 1_000) break;
                List<Object[]> longer = new ArrayList<>();
                for (Object[] one : made) for (Object value : values) longer.add(with(one, value));
                made = longer;
            }
            prefixes = made;
            equal = count;
            String next = count < fields.length ? fields[count] : null;
            from = next == null ? null : demands.bound(next, "$gt", "$gte");
            to = next == null ? null : demands.bound(next, "$lt", "$lte");
            way = made.size() == 1 && !lists ? wayOf(order) : 0;
            score = 10 * equal + (from != null && to != null ? 6 : from != null || to != null ? 3 : 0) + (partial.isEmpty() ? 0 : 4) + (way != 0 && limited ? 5 : 0);
        }

        private int wayOf(Document order) {
            if (order == null || order.isEmpty()) return 0;
            int at = equal;
            int way = 0;
            for (Map.Entry<String, Object> one : order.entrySet()) {
                Collection<?> values = demands.valuesOf(one.getKey());
                if (values != null && values.size() == 1) continue;
                if (at >= fields.length || !one.getKey().equals(fields[at])) return 0;
                int asked = ((Number) one.getValue()).intValue() * directions[at++];
                if (way != 0 && way != asked) return 0;
                way = asked;
            }
            return way;
        }

        boolean isUseful() { return equal > 0 || from != null || to != null || way != 0 || !partial.isEmpty(); }

        /** The entries tell all that the query demands. */
        boolean covers() {
            if (!demands.complete || lists) return false;
            Set<String> known = new HashSet<>();
            partial.forEach((field, condition) -> {
                if (demands.of.get(field).get(0).equals(condition)) known.add(field);
            });
            for (int i = 0; i < equal; i++) known.add(fields[i]);
            // The bounds of a part include both of their values.
            if (from != null && to == null && demands.bound(fields[equal], "$gt") == null) known.add(fields[equal]);
            return demands.of.entrySet().stream().allMatch(one -> {
                Object asked = one.getValue().get(0);
                boolean isSimple = one.getValue().size() == 1 && (!Demands.isOperators(asked) || ((Document) asked).size() == 1);
                return isSimple && known.contains(one.getKey());
            });
        }

        Stream<Object> positions() {
            Stream<Object> found = prefixes.stream().flatMap(prefix -> {
                NavigableSet<Entry> part = part(prefix);
                return (way < 0 ? part.descendingSet() : part).stream().map(entry -> entry.position);
            });
            return lists || prefixes.size() > 1 ? found.distinct() : found;
        }

        private NavigableSet<Entry> part(Object[] prefix) {
            boolean turned = equal < fields.length && directions[equal] < 0;
            Object first = turned ? to : from;
            Object last = turned ? from : to;
            Entry low = new Entry(first == null ? prefix : with(prefix, first), null, -1);
            Entry high = new Entry(last == null ? prefix : with(prefix, last), null, 1);
            return comparator.compare(low, high) > 0 ? new TreeSet<>(comparator) : entries.subSet(low, true, high, true);
        }
    }

    private static Object[] with(Object[] values, Object more) {
        Object[] longer = java.util.Arrays.copyOf(values, values.length + 1);
        longer[values.length] = more;
        return longer;
    }

    /** `side`: of a bound, before (−1) or after (1) all that begin with its values; 0: an entry. */
    private record Entry(Object[] values, Object position, int side) {}

    private final String[] fields;
    private final int[] directions;
    private final Document partial;
    private final Comparator<Entry> comparator = this::compare;
    private final TreeSet<Entry> entries = new TreeSet<>(comparator);
    /** A key of a document was a list. */
    private boolean lists;

    OrderedIndex(Document description) {
        Document key = (Document) description.get("key");
        fields = key.keySet().toArray(new String[0]);
        directions = key.values().stream().mapToInt(one -> ((Number) one).intValue()).toArray();
        partial = description.get("partialFilterExpression") instanceof Document ? (Document) description.get("partialFilterExpression") : new Document();
    }

    private int compare(Entry a, Entry b) {
        int common = Math.min(a.values.length, b.values.length);
        for (int i = 0; i < common; i++) {
            int order = StoredTypes.compare(a.values[i], b.values[i]);
            if (order != 0) return order * directions[i];
        }
        if (a.side != 0 || b.side != 0) return a.side - b.side;
        return StoredTypes.compare(a.position, b.position);
    }

    /** Null when the query may want documents that are not in the index. */
    Plan plan(Demands demands, Document order, boolean limited) {
        for (Map.Entry<String, Object> one : partial.entrySet()) if (!implies(demands, one.getKey(), one.getValue())) return null;
        Plan plan = new Plan(demands, order, limited);
        return plan.isUseful() ? plan : null;
    }

    private static boolean implies(Demands demands, String field, Object condition) {
        Collection<?> values = demands.valuesOf(field);
        if (!Demands.isOperators(condition)) return values != null && values.stream().allMatch(value -> StoredTypes.compare(value, condition) == 0);
        if (values != null) return values.stream().allMatch(value -> meets(value, (Document) condition));
        Object above = demands.bound(field, "$gt");
        if (above != null) return ((Document) condition).values().stream().allMatch(bound -> isSame(above, bound) && StoredTypes.compare(above, bound) >= 0);
        Object from = demands.bound(field, "$gte");
        return from != null && meets(from, (Document) condition);
    }

    /** Of one type, so that one may be less than the other; nothing is of the type of null. */
    static boolean isSame(Object a, Object b) { return a instanceof Number ? b instanceof Number : a != null && a.getClass() == b.getClass(); }

    private static boolean meets(Object value, Document condition) {
        for (Map.Entry<String, Object> one : condition.entrySet()) {
            if (!isSame(value == null ? "" : value, one.getValue())) return false;
            int order = StoredTypes.compare(value, one.getValue());
            if (one.getKey().equals("$gt") ? order <= 0 : one.getKey().equals("$gte") ? order < 0 : true) return false;
        }
        return value != null;
    }

    private boolean selects(Document document) {
        for (Map.Entry<String, Object> one : partial.entrySet()) {
            Object value = document.get(one.getKey());
            if (Demands.isOperators(one.getValue()) ? !meets(value, (Document) one.getValue()) : value == null || StoredTypes.compare(value, one.getValue()) != 0) return false;
        }
        return true;
    }

    void add(Document document, Object position) { change(document, position, true); }
    void remove(Document document, Object position) { change(document, position, false); }

    void update(Document before, Document after, Object position) {
        if (Stream.of(fields).allMatch(field -> isUnchanged(field, before, after)) && partial.keySet().stream().allMatch(field -> isUnchanged(field, before, after))) return;
        remove(before, position);
        add(after, position);
    }

    private static boolean isUnchanged(String field, Document before, Document after) {
        return java.util.Objects.equals(before.get(field), after.get(field));
    }

    private void change(Document document, Object position, boolean isNew) {
        if (!selects(document)) return;
        List<Object[]> made = List.<Object[]>of(new Object[0]);
        for (String field : fields) {
            Object value = document.get(field);
            if (value instanceof Collection) lists = true;
            boolean isOne = !(value instanceof Collection) || ((Collection<?>) value).isEmpty();
            Collection<?> all = isOne ? java.util.Collections.singletonList(value instanceof Collection ? null : value) : (Collection<?>) value;
            List<Object[]> longer = new ArrayList<>();
            for (Object[] one : made) for (Object element : all) longer.add(with(one, element));
            made = longer;
        }
        for (Object[] values : made) {
            Entry entry = new Entry(values, position, 0);
            if (isNew) entries.add(entry);
            else entries.remove(entry);
        }
    }
}
