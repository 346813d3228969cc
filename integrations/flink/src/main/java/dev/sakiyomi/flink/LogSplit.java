package dev.sakiyomi.flink;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import org.apache.flink.api.connector.source.SourceSplit;
import org.apache.flink.core.io.SimpleVersionedSerializer;

/**
 * A file with the position in it.
 *
 * @param id the name of the source; empty for no split
 * @param offset bytes that have been read
 * @param maxNs the latest event time
 * @param watermarkNs the last watermark
 * @param order for each field of a record its number among those of the description, or -1; null before a header
 */
record LogSplit(String id, long offset, long maxNs, long watermarkNs, int[] order) implements SourceSplit {
    static final LogSplit NONE = new LogSplit("", 0, 0, 0, null);

    boolean isNone() {
        return id.isEmpty();
    }

    @Override
    public String splitId() {
        return id;
    }

    static final class Serializer implements SimpleVersionedSerializer<LogSplit> {
        @Override
        public int getVersion() {
            return 1;
        }

        @Override
        public byte[] serialize(LogSplit split) throws IOException {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            DataOutputStream out = new DataOutputStream(bytes);
            out.writeUTF(split.id);
            out.writeLong(split.offset);
            out.writeLong(split.maxNs);
            out.writeLong(split.watermarkNs);
            out.writeInt(split.order == null ? -1 : split.order.length);
            for (int at = 0; split.order != null && at < split.order.length; at++) {
                out.writeInt(split.order[at]);
            }
            return bytes.toByteArray();
        }

        @Override
        public LogSplit deserialize(int version, byte[] bytes) throws IOException {
            DataInputStream in = new DataInputStream(new ByteArrayInputStream(bytes));
            String id = in.readUTF();
            long offset = in.readLong();
            long maxNs = in.readLong();
            long watermarkNs = in.readLong();
            int length = in.readInt();
            int[] order = length < 0 ? null : new int[length];
            for (int at = 0; at < length; at++) {
                order[at] = in.readInt();
            }
            return new LogSplit(id, offset, maxNs, watermarkNs, order);
        }
    }
}
