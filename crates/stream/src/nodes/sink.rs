//! One input, no output: the place where latencies are recorded.

use std::sync::Arc;

use crate::board::Context;
use crate::counters::Counters;
use crate::error::Error;
use crate::guard::Guard;
use crate::input::Input;
use crate::item::{Mark, Run};
use crate::latency::Recorder;
use crate::operator::{Emitter, Sink};
use crate::snapshot::OperatorSnapshot;
use crate::stage::{AnyPort, Part, Stage};
use crate::tuple::{OperatorId, Tuple};

pub(crate) struct SinkNode<S> {
    guard: Guard<S>,
    recorder: Recorder,
    input: Input,
}

impl<S: Sink> SinkNode<S> {
    pub(crate) fn new(guard: Guard<S>) -> SinkNode<S> {
        SinkNode { guard, recorder: Recorder::new(), input: Input::default() }
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

    fn load(&mut self, saved: &OperatorSnapshot, epoch: u64) -> Result<(), Error> {
        self.input = Input::load(&saved.progress.inputs[0], epoch);
        self.guard.load(saved)
    }
}

impl<S: Sink> Stage<S::In> for SinkNode<S> {
    /// All tuples of a run arrive when it does.
    fn accept_run(&mut self, run: Run<'_, S::In>, cx: &mut Context) {
        let SinkNode { guard, recorder, input } = self;
        if !guard.is_stopped() {
            let (now_ns, counters) = (cx.board.now_ns(), &guard.of.counters);
            let arrivals_ns = run.tuples.iter().map(|(_, arrival_ns)| *arrival_ns);
            recorder.record(arrivals_ns, now_ns, |bin, all| counters.latency(bin, all));
        }
        let (mut tuples, mut none) = (guard.receive(run, &mut input.expected), Emitter::<()>::new());
        guard.process(&mut tuples, &mut none, cx, |sink, value, sequence, none| {
            sink.consume(Tuple { value, arrival_ns: none.arrival_ns(), sequence });
        });
    }

    fn accept_mark(&mut self, mark: Mark, cx: &mut Context) {
        let SinkNode { guard, recorder, input } = self;
        match mark {
            Mark::Watermark(time_ns, stamp) => {
                input.watermark_ns = Some(time_ns);
                guard.mark(stamp, &mut input.expected, cx, |sink| sink.watermark(time_ns));
            }
            Mark::End(stamp) => {
                input.has_ended = true;
                let counters = &guard.of.counters;
                recorder.close(|bin, all| counters.latency(bin, all));
                guard.mark(stamp, &mut input.expected, cx, S::end);
                cx.board.sink_ended();
            }
            Mark::Barrier(barrier, sequence) => {
                input.check_barrier(&barrier, sequence, &guard.of.counters);
                guard.report(&barrier, input.progress(Vec::new()), cx);
            }
        }
    }
}
