//! One input, each of whose tuples goes to the replica that has the bin of its key. Watermarks, the end and barriers go to
//! all replicas.

use std::sync::Arc;

use crate::board::Context;
use crate::counters::Counters;
use crate::error::Error;
use crate::guard::Guard;
use crate::input::Input;
use crate::item::{Item, Stamp};
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
}

impl<T, K> PartitionNode<T, K> {
    /// The partition of a group of replicas, which `ports` lead to.
    pub(crate) fn new(
        guard: Guard<Router<K>>,
        ports: Vec<Port<Routed<T>>>,
        group: usize,
        replica_of: Vec<usize>,
        counts: BinCounts,
    ) -> PartitionNode<T, K> {
        PartitionNode { guard, ports, input: Input::default(), group, replica_of, counts }
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
    fn accept(&mut self, item: Item<T>, cx: &mut Context) {
        let PartitionNode { guard, ports, input, group, replica_of, counts } = self;
        match item {
            Item::Tuple(tuple) => {
                let mut routed = None;
                guard.tuple(tuple.sequence, &mut input.expected, cx, |router| {
                    routed = Some(Routed { bin: router.bin(&tuple.value), value: tuple.value });
                });
                if let Some(routed) = routed {
                    let bin = usize::from(routed.bin);
                    guard.of.counters.tuples_out.add(1);
                    counts[bin].add(1);
                    ports[replica_of[bin]].send(routed, tuple.arrival_ns, cx);
                }
            }
            Item::Watermark(time_ns, Stamp { arrival_ns, sequence }) => {
                guard.check(sequence, &mut input.expected);
                input.watermark_ns = Some(time_ns);
                ports.iter_mut().for_each(|port| port.watermark(time_ns, arrival_ns, cx));
            }
            Item::End(Stamp { arrival_ns, sequence }) => {
                guard.check(sequence, &mut input.expected);
                input.has_ended = true;
                ports.iter_mut().for_each(|port| port.end(arrival_ns, cx));
            }
            Item::Barrier(barrier, sequence) => {
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
