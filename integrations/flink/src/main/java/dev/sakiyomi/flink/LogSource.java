package dev.sakiyomi.flink;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.util.List;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.types.Row;

/**
 * A file of records that is read from an offset (FLIP-27), to its end or while it grows. It is one split, whose state has
 * the offset and the clock of the event times, so that a checkpoint goes on where it was.
 */
final class LogSource implements Source<Row, LogSplit, LogSplit> {
    private final Job.Node node;

    LogSource(Job.Node node) {
        this.node = node;
    }

    @Override
    public Boundedness getBoundedness() {
        return node.json().get("tail").asBoolean() ? Boundedness.CONTINUOUS_UNBOUNDED : Boundedness.BOUNDED;
    }

    @Override
    public SourceReader<Row, LogSplit> createReader(SourceReaderContext context) {
        return new LogReader(node, context);
    }

    @Override
    public SplitEnumerator<LogSplit, LogSplit> createEnumerator(SplitEnumeratorContext<LogSplit> context) {
        JsonNode json = node.json();
        JsonNode header = json.get("header_order");
        int[] order = null;
        if (!header.isNull()) {
            order = new int[header.size()];
            for (int at = 0; at < order.length; at++) {
                order[at] = header.get(at).isNull() ? -1 : header.get(at).asInt();
            }
        }
        LogSplit split = new LogSplit(
                node.uid,
                json.get("offset").asLong(),
                json.get("max_ns").asLong(),
                json.get("watermark_ns").asLong(),
                order);
        return new Enumerator(context, split);
    }

    @Override
    public SplitEnumerator<LogSplit, LogSplit> restoreEnumerator(
            SplitEnumeratorContext<LogSplit> context, LogSplit unassigned) {
        return new Enumerator(context, unassigned.isNone() ? null : unassigned);
    }

    @Override
    public SimpleVersionedSerializer<LogSplit> getSplitSerializer() {
        return new LogSplit.Serializer();
    }

    @Override
    public SimpleVersionedSerializer<LogSplit> getEnumeratorCheckpointSerializer() {
        return new LogSplit.Serializer();
    }

    /** Gives the split to the first reader. */
    private static final class Enumerator implements SplitEnumerator<LogSplit, LogSplit> {
        private final SplitEnumeratorContext<LogSplit> context;
        /** Null if a reader has it. */
        private LogSplit unassigned;

        private Enumerator(SplitEnumeratorContext<LogSplit> context, LogSplit unassigned) {
            this.context = context;
            this.unassigned = unassigned;
        }

        @Override
        public void start() {}

        @Override
        public void handleSplitRequest(int subtask, String host) {}

        @Override
        public void addSplitsBack(List<LogSplit> splits, int subtask) {
            splits.forEach(split -> unassigned = split);
        }

        @Override
        public void addReader(int subtask) {
            if (unassigned != null) {
                context.assignSplit(unassigned, subtask);
                unassigned = null;
            }
            context.signalNoMoreSplits(subtask);
        }

        @Override
        public LogSplit snapshotState(long checkpoint) {
            return unassigned == null ? LogSplit.NONE : unassigned;
        }

        @Override
        public void close() throws IOException {}
    }
}
