//! Figures of a stream: CPU time, parts of the run, and all of it.

use sakiyomi_placement::Idle;

use super::{Core, Engine};
use crate::stream::outcome::{CoreFigures, IntervalFigures, RingFigures, StreamOutcome};
use crate::stream::time::{of_nanos, ps, to_nanos};

impl Engine<'_> {
    /// A core that has a segment had no tuple until now.
    pub(super) fn account_idle(&mut self, core: usize, now_ps: u64) {
        if self.cores[core].inputs.is_empty() {
            return;
        }
        let from_ps = self.cores[core].idle_since_ps;
        let to_ps = match self.idle {
            Idle::Spin => now_ps,
            Idle::Park { spin_ns } => now_ps.min(from_ps.saturating_add(ps(spin_ns))),
        };
        self.cores[core].spin_ps += self.within_window(from_ps, to_ps);
        self.cores[core].idle_since_ps = now_ps;
    }

    pub(super) fn close_intervals(&mut self) {
        while self.now_ps >= of_nanos(self.interval.from).saturating_add(self.interval_ps) {
            let from = to_nanos(of_nanos(self.interval.from) + self.interval_ps);
            self.close_interval();
            self.interval = IntervalFigures { from, ..IntervalFigures::default() };
        }
    }

    fn close_interval(&mut self) {
        self.interval.latency = self.interval_latencies.figures();
        self.interval.cores = self.placement.cores_used();
        self.interval_latencies.clear();
        self.outcome.intervals.push(self.interval);
    }

    /// Returns the figures, at the end.
    pub(in crate::stream) fn outcome(mut self) -> StreamOutcome {
        self.close_interval();
        for core in 0..self.cores.len() {
            if self.cores[core].is_between_tuples() {
                self.account_idle(core, self.window_ps.1.max(self.now_ps));
            }
        }
        let window_ps = (self.window_ps.1 - self.window_ps.0) as f64;
        let figures = |core: &Core| CoreFigures {
            busy: to_nanos(core.busy_ps),
            spin: to_nanos(core.spin_ps),
            utilization: core.busy_ps as f64 / window_ps,
            wakes: core.wakes,
        };
        let mut outcome = std::mem::take(&mut self.outcome);
        outcome.elapsed = to_nanos(self.now_ps);
        outcome.latency = self.latencies.figures();
        let sinks = self.sinks.iter().enumerate();
        outcome.sinks =
            sinks.filter_map(|(operator, sink)| Some((operator, sink.as_ref()?.0.figures()))).collect();
        outcome.cores = self.cores.iter().map(figures).collect();
        outcome.rings = self.ring_figures();
        outcome.shed_tuples = outcome.intervals.iter().map(|interval| interval.shed_tuples).sum();
        outcome.arrived_tuples = outcome.intervals.iter().map(|interval| interval.arrived_tuples).sum();
        outcome.hops = outcome.intervals.iter().map(|interval| interval.hops).sum();
        outcome
    }

    fn ring_figures(&self) -> Vec<RingFigures> {
        let mut figures = Vec::new();
        for channel in 0..self.edges + self.operators {
            for (core, ring) in self.rings[channel].iter().enumerate().filter(|(_, ring)| ring.high_water > 0)
            {
                figures.push(RingFigures {
                    edge: Some(channel).filter(|&channel| channel < self.edges),
                    operator: self.receiver[channel],
                    core,
                    high_water_tuples: ring.high_water,
                    times_full: ring.times_full,
                });
            }
        }
        figures
    }
}
