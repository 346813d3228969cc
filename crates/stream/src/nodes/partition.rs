//! One input, each of whose tuples goes to the replica that has the bin of its key. Watermarks, the end and barriers go to
//! all replicas.

use std::sync::Arc;

use crate::board::Context;
use crate::counters::Counters;
use crate::error::Error;
use crate::guard::Guard;
use crate::input::Input;
use crate::item::{Mark, Run, Stamp};
use crate::operator::Emitter;
use crate::operators::KeyBy;
use crate::port::Port;
use crate::replicas::{BinCounts, Routed, Router};
use crate::snapshot::{OperatorSnapshot, Progress};
use crate::stage::{AnyPort, Part, Stage};
use crate::tuple::OperatorId;

pub(crate) struct PartitionNode<T, K> {
    guard: Guard<Router<K>>,
    ports: Vec<Port<Routed<T>>>,
    input: Input,
    group: usize,
    /// The replica of each bin.
    replica_of: Vec<usize>,
    counts: BinCounts,
    /// Kept for their capacity: values with their bins, and those for each replica.
    routed: Emitter<Routed<T>>,
    runs: Vec<Vec<(Routed<T>, u64)>>,
}

impl<T, K> PartitionNode<T, K> {
    /// Returns the partition of a group of replicas, which `ports` lead to.
    pub(crate) fn new(
        guard: Guard<Router<K>>,
        ports: Vec<Port<Routed<T>>>,
        group: usize,
        replica_of: Vec<usize>,
        counts: BinCounts,
    ) -> PartitionNode<T, K> {
        let (routed, runs) = (Emitter::new(), ports.iter().map(|_| Vec::new()).collect());
        PartitionNode { guard, ports, input: Input::default(), group, replica_of, counts, routed, runs }
    }
}

impl<T: Send + 'static, K: Send + 'static> Part for PartitionNode<T, K> {
    fn operator(&self) -> OperatorId {
        self.guard.of.id
    }

    fn counters(&self) -> &Arc<Counters> {
        &self.guard.of.counters
    }

    fn ports(&mut self) -> [Option<&mut dyn AnyPort>; 2] {
        [None, None]
    }

    fn visit_ports(&mut self, visit: &mut dyn FnMut(&mut dyn AnyPort)) {
        self.ports.iter_mut().for_each(|port| visit(port));
    }

    fn load(&mut self, saved: &OperatorSnapshot, epoch: u64) -> Result<(), Error> {
        self.input = Input::load(&saved.progress.inputs[0], epoch);
        self.guard.load(saved)
    }
}

impl<T: Send + 'static, K: KeyBy<T>> Stage<T> for PartitionNode<T, K> {
    fn accept_run(&mut self, run: Run<'_, T>, cx: &mut Context) {
        let PartitionNode { guard, ports, input, replica_of, counts, routed, runs, .. } = self;
        let mut tuples = guard.receive(run, &mut input.expected);
        while !tuples.is_empty() {
            guard.process(&mut tuples, routed, cx, |router, value, _, out| {
                out.emit(Routed { bin: router.bin(&value), value });
            });
            guard.of.counters.tuples_out.add(routed.staged().len() as u64);
            for (value, arrival_ns) in routed.drain() {
                let bin = usize::from(value.bin);
                counts[bin].add(1);
                runs[replica_of[bin]].push((value, arrival_ns));
            }
            ports.iter_mut().zip(&mut *runs).for_each(|(port, run)| port.send(run, cx));
        }
    }

    fn accept_mark(&mut self, mark: Mark, cx: &mut Context) {
        let PartitionNode { guard, ports, input, group, replica_of, .. } = self;
        match mark {
            Mark::Watermark(time_ns, Stamp { arrival_ns, sequence }) => {
                guard.check(sequence, &mut input.expected);
                input.watermark_ns = Some(time_ns);
                ports.iter_mut().for_each(|port| port.watermark(time_ns, arrival_ns, cx));
            }
            Mark::End(Stamp { arrival_ns, sequence }) => {
                guard.check(sequence, &mut input.expected);
                input.has_ended = true;
                ports.iter_mut().for_each(|port| port.end(arrival_ns, cx));
            }
            Mark::Barrier(barrier, sequence) => {
                input.check_barrier(&barrier, sequence, &guard.of.counters);
                // A stream that resumes numbers what goes to replicas from 0.
                let progress = input.progress(vec![0]);
                guard.report(&barrier, Progress { watermark_ns: input.watermark_ns, ..progress }, cx);
                ports.iter_mut().for_each(|port| port.barrier(barrier.clone(), cx));
                if let Some(table) = barrier.migration().and_then(|migration| migration.table_of(*group)) {
                    replica_of.copy_from_slice(table);
                }
            }
        }
    }
}
