//! One input, no output: the place where latencies are recorded.

use std::sync::Arc;

use crate::board::Context;
use crate::counters::Counters;
use crate::guard::Guard;
use crate::latency::Recorder;
use crate::operator::Sink;
use crate::stage::{AnyPort, Part, Stage};
use crate::tuple::{Item, OperatorId};

pub(crate) struct SinkNode<S> {
    guard: Guard<S>,
    recorder: Recorder,
    expected: u64,
}

impl<S: Sink> SinkNode<S> {
    pub(crate) fn new(guard: Guard<S>) -> SinkNode<S> {
        SinkNode { guard, recorder: Recorder::new(), expected: 0 }
    }
}

impl<S: Sink> Part for SinkNode<S> {
    fn operator(&self) -> OperatorId {
        self.guard.of.id
    }

    fn counters(&self) -> &Arc<Counters> {
        &self.guard.of.counters
    }

    fn ports(&mut self) -> [Option<&mut dyn AnyPort>; 2] {
        [None, None]
    }
}

impl<S: Sink> Stage<S::In> for SinkNode<S> {
    fn accept(&mut self, item: Item<S::In>, cx: &mut Context) {
        let SinkNode { guard, recorder, expected } = self;
        match item {
            Item::Tuple(tuple) => {
                let counters = &guard.of.counters;
                if !guard.is_stopped() {
                    recorder
                        .record(tuple.arrival_ns, cx.board.now_ns(), |bin, all| counters.latency(bin, all));
                }
                guard.tuple(tuple.sequence, expected, cx, |sink| sink.consume(tuple));
            }
            Item::Watermark(time_ns, stamp) => {
                guard.mark(stamp, expected, cx, |sink| sink.watermark(time_ns));
            }
            Item::End(stamp) => {
                let counters = &guard.of.counters;
                recorder.close(|bin, all| counters.latency(bin, all));
                guard.mark(stamp, expected, cx, S::end);
                cx.board.sink_ended();
            }
        }
    }
}
