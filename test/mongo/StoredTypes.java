import de.bwaldvogel.mongo.backend.KeyValue;
import de.bwaldvogel.mongo.backend.Missing;
import de.bwaldvogel.mongo.backend.ValueComparator;
import de.bwaldvogel.mongo.bson.BinData;
import de.bwaldvogel.mongo.bson.Document;
import de.bwaldvogel.mongo.wire.bson.BsonDecoder;
import de.bwaldvogel.mongo.wire.bson.BsonEncoder;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.h2.mvstore.WriteBuffer;
import org.h2.mvstore.type.BasicDataType;

/**
 * Documents and keys of unique indexes in the file as BSON. The store would serialize them as Java objects, and keys again
 * for each comparison: that took more than half of the time of the server.
 */
class StoredTypes {
    static final BasicDataType<Document> DOCUMENT = new BasicDataType<>() {
        @Override public Document[] createStorage(int size) { return new Document[size]; }
        @Override public int getMemory(Document document) { return memory(document); }
        @Override public void write(WriteBuffer out, Document document) {
            ByteBuf bytes = Unpooled.buffer();
            BsonEncoder.encodeDocument(document, bytes);
            put(out, bytes);
        }
        @Override public Document read(ByteBuffer in) { return BsonDecoder.decodeBson(take(in)); }
    };

    static final BasicDataType<KeyValue> KEY = new BasicDataType<>() {
        @Override public KeyValue[] createStorage(int size) { return new KeyValue[size]; }
        @Override public int getMemory(KeyValue key) {
            int sum = 48;
            for (Object value : key) sum += memory(value);
            return sum;
        }
        @Override public int compare(KeyValue a, KeyValue b) {
            for (int i = 0; i < Math.min(a.size(), b.size()); i++) {
                int order = StoredTypes.compare(a.get(i), b.get(i));
                if (order != 0) return order;
            }
            return a.size() - b.size();
        }
        @Override public void write(WriteBuffer out, KeyValue key) {
            ByteBuf bytes = Unpooled.buffer();
            bytes.writeByte(key.size());
            for (Object value : key) {
                byte type = value instanceof Missing ? 0 : BsonEncoder.determineType(value);
                bytes.writeByte(type);
                if (type != 0) BsonEncoder.encodeValue(type, value, bytes);
            }
            put(out, bytes);
        }
        @Override public KeyValue read(ByteBuffer in) {
            ByteBuf bytes = take(in);
            List<Object> values = new ArrayList<>();
            for (int left = bytes.readByte(); left > 0; left--) {
                byte type = bytes.readByte();
                values.add(type == 0 ? Missing.getInstance() : BsonDecoder.decodeValue(type, bytes));
            }
            return new KeyValue(values);
        }
    };

    /** In the order of BSON; absent values come first. */
    static int compare(Object a, Object b) {
        if (a instanceof String && b instanceof String) return ((String) a).compareTo((String) b);
        if (isWhole(a) && isWhole(b)) return Long.compare(((Number) a).longValue(), ((Number) b).longValue());
        return ValueComparator.asc().compare(a, b);
    }

    private static boolean isWhole(Object value) { return value instanceof Integer || value instanceof Long; }

    private static void put(WriteBuffer out, ByteBuf bytes) {
        out.putVarInt(bytes.readableBytes());
        out.put(bytes.array(), bytes.readerIndex(), bytes.readableBytes());
    }

    private static ByteBuf take(ByteBuffer in) {
        byte[] bytes = new byte[org.h2.mvstore.DataUtils.readVarInt(in)];
        in.get(bytes);
        return Unpooled.wrappedBuffer(bytes);
    }

    /** About the bytes on the heap. */
    private static int memory(Object value) {
        if (value instanceof String) return 40 + ((String) value).length();
        if (value instanceof BinData) return 48 + ((BinData) value).getData().length;
        int sum = 24;
        if (value instanceof Map) for (Object one : ((Map<?, ?>) value).values()) sum += 48 + memory(one);
        if (value instanceof Iterable && !(value instanceof Map)) for (Object one : (Iterable<?>) value) sum += 8 + memory(one);
        return sum;
    }
}
