package de.bwaldvogel.mongo.wire.bson;

import de.bwaldvogel.mongo.bson.BinData;
import de.bwaldvogel.mongo.bson.BsonJavaScript;
import de.bwaldvogel.mongo.bson.BsonRegularExpression;
import de.bwaldvogel.mongo.bson.BsonTimestamp;
import de.bwaldvogel.mongo.bson.Decimal128;
import de.bwaldvogel.mongo.bson.Document;
import de.bwaldvogel.mongo.bson.LegacyUUID;
import de.bwaldvogel.mongo.bson.MaxKey;
import de.bwaldvogel.mongo.bson.MinKey;
import de.bwaldvogel.mongo.bson.ObjectId;
import io.netty.buffer.ByteBuf;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.ArrayList;
import java.util.UUID;

/**
 * Stands before the class of this name in mongo-java-server, which refuses binary values of subtype 9, the vectors. They
 * become plain binary values here: the tests read no vector back. See https://bsonspec.org/spec.html.
 */
public final class BsonDecoder {
    public static Document decodeBson(ByteBuf in) {
        int end = in.readerIndex() + in.readIntLE();
        Document document = new Document();
        for (byte type = in.readByte(); type != 0; type = in.readByte()) document.put(decodeCString(in), decodeValue(type, in));
        if (in.readerIndex() != end) throw new IllegalArgumentException("a document ends at another place than its length says");
        return document;
    }

    public static Object decodeValue(byte type, ByteBuf in) {
        switch (type) {
            case 1: return Double.longBitsToDouble(in.readLongLE());
            case 2: return string(in);
            case 3: return decodeBson(in);
            case 4: return new ArrayList<>(decodeBson(in).values());
            case 5: return binary(in);
            case 6: case 10: return null;
            case 7: return new ObjectId(bytes(in, 12));
            case 8: return in.readByte() != 0;
            case 9: return Instant.ofEpochMilli(in.readLongLE());
            case 11: return new BsonRegularExpression(decodeCString(in), decodeCString(in));
            case 13: return new BsonJavaScript(string(in));
            case 16: return in.readIntLE();
            case 17: return new BsonTimestamp(in.readLongLE());
            case 18: return in.readLongLE();
            case 19: {
                long low = in.readLongLE();
                return new Decimal128(low, in.readLongLE());
            }
            case 127: return MaxKey.getInstance();
            case -1: return MinKey.getInstance();
            default: throw new IllegalArgumentException("unknown type of a value: " + type);
        }
    }

    public static String decodeCString(ByteBuf in) {
        int length = in.bytesBefore((byte) 0);
        if (length < 0) throw new IllegalArgumentException("a name has no end");
        String text = new String(bytes(in, length), StandardCharsets.UTF_8);
        in.skipBytes(1);
        return text;
    }

    private static String string(ByteBuf in) {
        String text = new String(bytes(in, in.readIntLE() - 1), StandardCharsets.UTF_8);
        in.skipBytes(1);
        return text;
    }

    private static Object binary(ByteBuf in) {
        int length = in.readIntLE();
        byte subtype = in.readByte();
        if (subtype == 3) return new LegacyUUID(in.readLongLE(), in.readLongLE());
        if (subtype == 4) return new UUID(in.readLong(), in.readLong());
        if (subtype != 0 && subtype != 9 && subtype != -128) throw new IllegalArgumentException("unknown subtype of a binary value: " + subtype);
        return new BinData(bytes(in, length));
    }

    private static byte[] bytes(ByteBuf in, int length) {
        if (length < 0 || length > in.readableBytes()) throw new IllegalArgumentException("a value is longer than its message");
        byte[] bytes = new byte[length];
        in.readBytes(bytes);
        return bytes;
    }

    private BsonDecoder() {}
}
