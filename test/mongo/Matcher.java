import de.bwaldvogel.mongo.bson.Document;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;

/** The filter of a query, read once. The library reads it again for each document. */
class Matcher {
    private Matcher() {}

    /** Null: it asks for something that only the library can tell. */
    static Predicate<Document> of(Document query) {
        List<Predicate<Document>> all = new ArrayList<>();
        for (Map.Entry<String, Object> one : query.entrySet()) {
            String field = one.getKey();
            Predicate<Document> made;
            if (field.equals("$and") || field.equals("$or")) made = several((Collection<?>) one.getValue(), field.equals("$and"));
            else made = field.startsWith("$") || field.contains(".") ? null : onField(field, one.getValue());
            if (made == null) return null;
            all.add(made);
        }
        return joined(all, true);
    }

    private static Predicate<Document> several(Collection<?> queries, boolean isAnd) {
        List<Predicate<Document>> all = new ArrayList<>();
        for (Object query : queries) {
            Predicate<Document> made = of((Document) query);
            if (made == null) return null;
            all.add(made);
        }
        return joined(all, isAnd);
    }

    private static <T> Predicate<T> joined(List<Predicate<T>> all, boolean isAnd) {
        if (all.size() == 1) return all.get(0);
        return value -> {
            for (Predicate<T> one : all) if (one.test(value) != isAnd) return !isAnd;
            return isAnd;
        };
    }

    private static Predicate<Document> onField(String field, Object asked) {
        if (!OrderedIndex.Demands.isOperators(asked)) {
            Predicate<Object> equal = comparison("$eq", asked);
            return equal == null ? null : document -> any(document.get(field), equal);
        }
        List<Predicate<Document>> all = new ArrayList<>();
        for (Map.Entry<String, Object> one : ((Document) asked).entrySet()) {
            boolean isOfElements = one.getKey().equals("$elemMatch");
            Predicate<Object> made = isOfElements ? ofElements(one.getValue()) : comparison(one.getKey(), one.getValue());
            if (made == null) return null;
            if (isOfElements) all.add(document -> document.get(field) instanceof Collection && any(document.get(field), made));
            else all.add(document -> any(document.get(field), made));
        }
        return joined(all, true);
    }

    private static Predicate<Object> ofElements(Object asked) {
        if (!OrderedIndex.Demands.isOperators(asked)) return null;
        List<Predicate<Object>> all = new ArrayList<>();
        for (Map.Entry<String, Object> one : ((Document) asked).entrySet()) {
            Predicate<Object> made = comparison(one.getKey(), one.getValue());
            if (made == null) return null;
            all.add(made);
        }
        return joined(all, true);
    }

    /** A list meets what one of its elements meets. */
    private static boolean any(Object value, Predicate<Object> condition) {
        if (!(value instanceof Collection)) return condition.test(value);
        for (Object element : (Collection<?>) value) if (condition.test(element)) return true;
        return false;
    }

    private static Predicate<Object> comparison(String operator, Object operand) {
        if (operator.equals("$in") && operand instanceof Collection) {
            List<Predicate<Object>> all = new ArrayList<>();
            for (Object one : (Collection<?>) operand) {
                Predicate<Object> made = comparison("$eq", one);
                if (made == null) return null;
                all.add(made);
            }
            return joined(all, false);
        }
        // An absent field counts as null.
        if (operand == null && operator.equals("$eq")) return value -> value == null;
        if (!OrderedIndex.Demands.isValue(operand)) return null;
        switch (operator) {
            case "$eq": return value -> OrderedIndex.isSame(value, operand) && StoredTypes.compare(value, operand) == 0;
            case "$gt": return value -> OrderedIndex.isSame(value, operand) && StoredTypes.compare(value, operand) > 0;
            case "$gte": return value -> OrderedIndex.isSame(value, operand) && StoredTypes.compare(value, operand) >= 0;
            case "$lt": return value -> OrderedIndex.isSame(value, operand) && StoredTypes.compare(value, operand) < 0;
            case "$lte": return value -> OrderedIndex.isSame(value, operand) && StoredTypes.compare(value, operand) <= 0;
            default: return null;
        }
    }
}
