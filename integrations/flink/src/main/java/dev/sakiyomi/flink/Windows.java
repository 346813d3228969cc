package dev.sakiyomi.flink;

import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.types.Row;
import org.apache.flink.util.Collector;

/** Tumbling windows, and the one window of all rows, whose end is that of the input. */
final class Windows extends KeyedProcessFunction<String, Row, Row> {
    private final Aggregates aggregates;
    private transient MapState<Long, Row> windows;

    Windows(Aggregates aggregates) {
        this.aggregates = aggregates;
    }

    @Override
    public void open(OpenContext context) {
        windows = getRuntimeContext().getMapState(aggregates.descriptor());
    }

    /** The timer of a window: the last time in it, which a watermark of Flink reaches as one of sakiyomi its end. */
    static long timer(long startNs, Aggregates aggregates) {
        long end = Values.plus(startNs, aggregates.lengthNs);
        return end == Long.MAX_VALUE ? end : end - 1;
    }

    private long start(long timeNs) {
        return aggregates.window.equals("all") ? 0 : timeNs / aggregates.lengthNs * aggregates.lengthNs;
    }

    @Override
    public void processElement(Row row, Context context, Collector<Row> out) throws Exception {
        long startNs = start(aggregates.time(row));
        long timer = timer(startNs, aggregates);
        if (timer <= context.timerService().currentWatermark() && timer < Long.MAX_VALUE) {
            return;
        }
        Row state = windows.get(startNs);
        if (state == null) {
            state = aggregates.begin(row);
            context.timerService().registerEventTimeTimer(timer);
        }
        aggregates.add(state, row);
        windows.put(startNs, state);
    }

    @Override
    public void onTimer(long time, OnTimerContext context, Collector<Row> out) throws Exception {
        long startNs = time == Long.MAX_VALUE ? start(0) : start(time);
        Row state = windows.get(startNs);
        if (state != null) {
            windows.remove(startNs);
            Row result = aggregates.result(startNs, Values.plus(startNs, aggregates.lengthNs), state);
            if (result != null) {
                out.collect(result);
            }
        }
    }
}
