package dev.sakiyomi.flink;

import java.util.List;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichFlatMapFunction;
import org.apache.flink.metrics.Counter;
import org.apache.flink.types.Row;
import org.apache.flink.util.Collector;

/** Steps without state. Rows of which a value cannot be computed end the job, or are counted and dropped. */
abstract class Steps extends RichFlatMapFunction<Row, Row> {
    private final String uid;
    private final boolean skipsBad;
    private transient Counter bad;

    private Steps(Job.Node node) {
        uid = node.uid;
        skipsBad = node.skipsBad;
    }

    /** The row for a row; null for none. */
    abstract Row step(Row row);

    @Override
    public void open(OpenContext context) {
        bad = getRuntimeContext().getMetricGroup().counter("bad_rows");
    }

    @Override
    public void flatMap(Row row, Collector<Row> out) {
        Row made;
        try {
            made = step(row);
        } catch (BadValue error) {
            if (!skipsBad) {
                throw new BadValue(uid + ": " + error.getMessage());
            }
            bad.inc();
            return;
        }
        if (made != null) {
            out.collect(made);
        }
    }

    /** Rows for which a condition is true. */
    static final class Filter extends Steps {
        private final Expression condition;

        Filter(Job.Node node) {
            super(node);
            condition = Expression.of(node.json().get("condition"));
        }

        @Override
        Row step(Row row) {
            return condition.select(row) ? row : null;
        }
    }

    /** Rows of expressions, and of the event time in nanoseconds after them if it is given. */
    static final class Select extends Steps {
        private final List<Expression> items;
        private final boolean hasTime;
        private final Job.Time time;

        Select(Job.Node node, List<Expression> items) {
            this(node, items, false, null);
        }

        /** A time that is null is 0. */
        Select(Job.Node node, List<Expression> items, boolean hasTime, Job.Time time) {
            super(node);
            this.items = items;
            this.hasTime = hasTime;
            this.time = time;
        }

        @Override
        Row step(Row row) {
            Row made = new Row(items.size() + (hasTime ? 1 : 0));
            for (int at = 0; at < items.size(); at++) {
                made.setField(at, items.get(at).evaluate(row));
            }
            if (hasTime) {
                made.setField(items.size(), time == null ? 0L : time.of(row));
            }
            return made;
        }
    }
}
