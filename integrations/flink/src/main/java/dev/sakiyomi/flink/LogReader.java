package dev.sakiyomi.flink;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.eventtime.Watermark;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.core.io.InputStatus;
import org.apache.flink.metrics.Counter;
import org.apache.flink.types.Row;

/**
 * Reads the records of a file and emits their rows with watermarks: the latest event time less the declared disorder. Rows
 * before the watermark are dropped and counted.
 *
 * <p>A watermark W of sakiyomi says that no time before W follows; one of Flink says so of no time up to it. They differ by
 * one nanosecond.
 */
final class LogReader implements SourceReader<Row, LogSplit> {
    private static final int READ_BYTES = 64 << 10;

    /** Time between two looks at a file that grows. */
    private static final long LOOK_MS = 20;

    /** Rows between two watermarks while rows come without a pause. */
    private static final int WATERMARK_ROWS = 64;

    private final Job.Node node;
    private final JsonNode json;
    private final boolean isTail;
    private final long outOfOrderNs;
    private final Counter late;
    private final Counter bad;
    private final CompletableFuture<Void> assigned = new CompletableFuture<>();

    private RandomAccessFile file;
    private Records records;
    /** Bytes that were read and are not parsed: {@code from..to} of the buffer, at {@code offset} of the file. */
    private byte[] buffer = new byte[READ_BYTES];
    private int from;
    private int to;
    private long offset;
    private boolean hasNoMoreSplits;

    private long maxNs;
    private long watermarkNs;
    private int rows;
    private boolean isResumed;

    LogReader(Job.Node node, SourceReaderContext context) {
        this.node = node;
        json = node.json();
        isTail = json.get("tail").asBoolean();
        outOfOrderNs = json.get("out_of_order_ns").asLong();
        late = context.metricGroup().counter("late_rows");
        bad = context.metricGroup().counter("bad_records");
    }

    @Override
    public void start() {}

    @Override
    public void addSplits(List<LogSplit> splits) {
        LogSplit split = splits.get(0);
        records = new Records(json, node.row.size(), split.order());
        offset = split.offset();
        maxNs = split.maxNs();
        watermarkNs = split.watermarkNs();
        isResumed = watermarkNs > 0;
        assigned.complete(null);
    }

    @Override
    public void notifyNoMoreSplits() {
        hasNoMoreSplits = true;
        assigned.complete(null);
    }

    @Override
    public List<LogSplit> snapshotState(long checkpoint) {
        return records == null
                ? List.of()
                : List.of(new LogSplit(node.uid, offset, maxNs, watermarkNs, records.order()));
    }

    @Override
    public CompletableFuture<Void> isAvailable() {
        if (!assigned.isDone()) {
            return assigned;
        }
        return CompletableFuture.runAsync(
                () -> {}, CompletableFuture.delayedExecutor(LOOK_MS, TimeUnit.MILLISECONDS));
    }

    @Override
    public InputStatus pollNext(ReaderOutput<Row> out) throws Exception {
        if (records == null) {
            // Another reader has the file.
            return hasNoMoreSplits ? InputStatus.END_OF_INPUT : InputStatus.NOTHING_AVAILABLE;
        }
        if (isResumed) {
            isResumed = false;
            out.emitWatermark(new Watermark(watermarkNs - 1));
        }
        if (file == null) {
            file = new RandomAccessFile(json.get("path").asText(), "r");
            if (file.length() < offset) {
                throw new IOException(json.get("path").asText() + " has " + file.length() + " bytes, and " + offset
                        + " had been read at the snapshot; restore the file");
            }
            file.seek(offset);
        }
        int end = record();
        if (end >= 0) {
            int begin = from;
            int next = end < to ? end + 1 : end;
            offset += next - from;
            from = next;
            emit(begin, end, out);
            return InputStatus.MORE_AVAILABLE;
        }
        flush(out);
        return isTail ? InputStatus.NOTHING_AVAILABLE : InputStatus.END_OF_INPUT;
    }

    /** The end of the next record in the buffer; -1 if there is no whole one. */
    private int record() throws IOException {
        int at = from;
        boolean isQuoted = false;
        while (true) {
            for (; at < to; at++) {
                if (buffer[at] == '"' && records.hasQuotes()) {
                    isQuoted = !isQuoted;
                } else if (buffer[at] == '\n' && !isQuoted) {
                    return at;
                }
            }
            int held = to - from;
            if (from > 0) {
                System.arraycopy(buffer, from, buffer, 0, held);
                at -= from;
                from = 0;
                to = held;
            }
            if (to == buffer.length) {
                buffer = Arrays.copyOf(buffer, 2 * buffer.length);
            }
            int read = file.read(buffer, to, buffer.length - to);
            if (read < 0) {
                // The last record of a file needs no line end.
                return isTail || held == 0 ? -1 : to;
            }
            to += read;
        }
    }

    private void emit(int begin, int end, ReaderOutput<Row> out) {
        Row row;
        try {
            row = records.parse(buffer, begin, end);
            if (row == null) {
                return;
            }
            if (node.time != null && !isOnTime(row)) {
                late.inc();
                return;
            }
        } catch (BadValue error) {
            if (!node.skipsBad) {
                throw new BadValue(node.uid + ": before byte " + offset + ": " + error.getMessage());
            }
            bad.inc();
            return;
        }
        out.collect(row);
        if (rows >= WATERMARK_ROWS) {
            flush(out);
        }
    }

    private boolean isOnTime(Row row) {
        Object time = row.getField(node.time.cell());
        if (time == null || (Long) time < 0 || (Long) time > Long.MAX_VALUE / node.time.unitNs()) {
            throw new BadValue("the row has no event time that can be used");
        }
        long timeNs = node.time.of(row);
        maxNs = Math.max(maxNs, timeNs);
        rows++;
        return timeNs >= watermarkNs;
    }

    private void flush(ReaderOutput<Row> out) {
        rows = 0;
        if (node.time != null && maxNs - outOfOrderNs > watermarkNs) {
            watermarkNs = maxNs - outOfOrderNs;
            out.emitWatermark(new Watermark(watermarkNs - 1));
        }
    }

    @Override
    public void close() throws IOException {
        if (file != null) {
            file.close();
        }
    }
}
