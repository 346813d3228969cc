//! Flows that are divided by a key among replicas of the operators that follow.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

use sakiyomi_placement::Bins;

use super::{Attach, Draft, Flow};
use crate::guard::{Guard, Seat};
use crate::nodes::{JoinNode, MergeNode, Node, PartitionNode, Union};
use crate::operator::{Join, Operator, Recover};
use crate::operators::{Key, KeyBy};
use crate::port::Port;
use crate::replicas::{BinCounts, BinOwner, Binned, Group, PartitionOutline, Replicas, Routed, Router};
use crate::shape::{OperatorKind, Place};
use crate::tuple::OperatorId;

/// A flow that is divided by keys of type `K`: each operator that is added runs as several replicas, until they are merged.
///
/// Each replica has the keys of its bins, of which each has an instance of the operator. Outputs for the keys of a bin keep
/// their order; those of other bins come in any order.
///
/// ```
/// use sakiyomi_stream::operators::{Count, EventTime, Windows};
/// use sakiyomi_stream::{Next, Replicas, Settings, Source, StreamBuilder, each, Emitter};
/// # use sakiyomi_stream::operators::WindowResult;
/// # use sakiyomi_stream::{Recover, Sink, Tuple};
/// #
/// # struct Numbers(u64);
/// # impl Source for Numbers {
/// #     type Out = u64;
/// #     fn next(&mut self, now_ns: u64) -> Next<u64> {
/// #         self.0 += 1;
/// #         if self.0 > 1_000 { Next::End } else { Next::Value { value: self.0, arrival_ns: now_ns } }
/// #     }
/// # }
/// # struct Sum(u64, std::sync::mpsc::Sender<u64>);
/// # impl Recover for Sum {}
/// # impl Sink for Sum {
/// #     type In = WindowResult<u64, u64>;
/// #     fn consume(&mut self, tuple: Tuple<WindowResult<u64, u64>>) {
/// #         self.0 += tuple.value.value;
/// #     }
/// #     fn end(&mut self) {
/// #         self.1.send(self.0).unwrap();
/// #     }
/// # }
/// #
/// # let (sender, sums) = std::sync::mpsc::channel();
/// let builder = StreamBuilder::new(64);
/// let counts = builder
///     .source("numbers", Numbers(0))
///     .then("time", EventTime::new(0, |number: &u64| *number))
///     .by_key("by digit", Replicas::new(2), |number: &u64| number % 10)
///     .then("count", || Windows::tumbling(100, |number: &u64| *number, |number: &u64| number % 10, Count))
///     .merge("merge");
/// # counts.sink("sum", Sum(0, sender));
/// // numbers, time, by digit, count, count[1], merge, sum
/// let running = builder.build()?.start(Settings::unpinned(2), &[0, 0, 0, 0, 1, 0, 0])?;
/// # running.finish()?;
/// # assert_eq!(sums.recv(), Ok(1_000));
/// # Ok::<(), sakiyomi_stream::Error>(())
/// ```
pub struct Replicated<T, K> {
    partition: OperatorId,
    group: usize,
    replicas: Replicas,
    /// Operators since the partition.
    stages: usize,
    /// The output of each replica.
    branches: Vec<Flow<Routed<T>>>,
    key: PhantomData<fn() -> K>,
}

impl<T: Send + 'static> Flow<T> {
    /// Divides the flow by a key among replicas of the operators that follow. All replicas have bins at first.
    pub fn by_key<K: KeyBy<T>>(self, name: &str, replicas: Replicas, key: K) -> Replicated<T, K::Key> {
        let bins = Bins::divided(&vec![1.0; replicas.bins], replicas.max);
        let bins = bins.expect("there is a replica, and no more than there may be cores");
        let group = {
            let groups = &mut self.draft.borrow_mut().shape.groups;
            groups.push(Group { partitions: Vec::new(), replicas: replicas.max, bins });
            groups.len() - 1
        };
        self.partition(name, group, replicas, key)
    }

    fn partition<K: KeyBy<T>>(
        self,
        name: &str,
        group: usize,
        replicas: Replicas,
        key: K,
    ) -> Replicated<T, K::Key> {
        let (from, guard) = self.follow(name, Router::new(key, replicas.bins), OperatorKind::Partition);
        let Flow { draft, attach, .. } = self;
        let counts: BinCounts = (0..replicas.bins).map(|_| Default::default()).collect();
        let replica_of = draft.borrow_mut().add_partition(group, from, &counts);
        let attach: AttachAll<Routed<T>> = Box::new(move |ports| {
            if let Some(guard) = guard {
                attach(Port::direct(Box::new(PartitionNode::new(guard, ports, group, replica_of, counts))));
            }
        });
        let ports = (0..replicas.max).map(|_| None).collect();
        let gathered = Rc::new(RefCell::new(Gathered { ports, attach: Some(attach) }));
        let branch = |replica: usize| {
            let gathered = Rc::clone(&gathered);
            let attach: Attach<Routed<T>> = Box::new(move |port| gathered.borrow_mut().set(replica, port));
            Flow { draft: Rc::clone(&draft), from, attach }
        };
        let branches = (0..replicas.max).map(branch).collect();
        Replicated { partition: from, group, replicas, stages: 0, branches, key: PhantomData }
    }
}

impl<T: Send + 'static, K: Key> Replicated<T, K> {
    /// Returns the partition, by which [`Running::divide`](crate::Running::divide) names the replicas.
    #[must_use]
    pub fn partition(&self) -> OperatorId {
        self.partition
    }

    /// Adds an operator: `make` is called once for each bin. The first replica has the name, and each other one its number
    /// after it. Watermarks that the operator makes ([`Operator::makes_watermarks`]) are ignored.
    pub fn then<O: Operator<In = T>>(self, name: &str, make: impl FnMut() -> O) -> Replicated<O::Out, K> {
        let (made, is_saved) = self.instances(make);
        let branches = self.branches.into_iter().zip(made).enumerate();
        let branches = branches.map(|(replica, (flow, binned))| {
            let place = Place { group: self.group, stage: self.stages, replica };
            let (from, guard) = flow.follow_as(name, place, binned, OperatorKind::Operator, is_saved);
            let Flow { draft, attach, .. } = flow;
            let attach: Attach<Routed<O::Out>> = Box::new(move |port| {
                if let Some(guard) = guard {
                    attach(Port::direct(Box::new(Node::new(guard, port))));
                }
            });
            Flow { draft, from, attach }
        });
        let branches = branches.collect();
        let Replicated { partition, group, replicas, stages, .. } = self;
        Replicated { partition, group, replicas, stages: stages + 1, branches, key: PhantomData }
    }

    /// Joins this flow, as the first input, with another one, which is divided by a partition of its own: its keys go to
    /// the replicas that have the equal ones of this flow. `make` is called once for each bin.
    pub fn join<J: Join<Left = T>, B: KeyBy<J::Right, Key = K>>(
        self,
        name: &str,
        (partition, other, key): (&str, Flow<J::Right>, B),
        make: impl FnMut() -> J,
    ) -> Replicated<J::Out, K> {
        let others = other.partition(partition, self.group, self.replicas, key);
        let (made, is_saved) = self.instances(make);
        let branches = self.branches.into_iter().zip(others.branches).zip(made).enumerate();
        let branches = branches.map(|(replica, ((flow, other), binned))| {
            let place = Place { group: self.group, stage: self.stages, replica };
            let (from, guard) = flow.follow_as(name, place, binned, OperatorKind::Join, is_saved);
            let Flow { draft, attach, .. } = flow;
            let inlet = Draft::second_input(&draft, from, other);
            let attach: Attach<Routed<J::Out>> = Box::new(move |port| {
                if let Some(guard) = guard {
                    attach(Port::direct(Box::new(JoinNode::new(guard, inlet, port))));
                }
            });
            Flow { draft, from, attach }
        });
        let branches = branches.collect();
        let Replicated { partition, group, replicas, stages, .. } = self;
        Replicated { partition, group, replicas, stages: stages + 1, branches, key: PhantomData }
    }

    /// Makes the outputs of all replicas one flow.
    pub fn merge(self, name: &str) -> Flow<T> {
        let mut branches = self.branches.into_iter();
        let first = branches.next().expect("there is a replica");
        let (from, guard) = first.follow(name, Union, OperatorKind::Merge);
        let Flow { draft, attach, .. } = first;
        let sides = branches.map(|other| Draft::second_input(&draft, from, other)).collect();
        let attach: Attach<T> = Box::new(move |port| {
            if let Some(guard) = guard {
                attach(Port::direct(Box::new(MergeNode::new(guard, self.group, sides, port))));
            }
        });
        Flow { draft, from, attach }
    }

    /// Returns the instances of an operator for each replica, and whether a snapshot has all of their state.
    fn instances<O: Recover, U>(&self, mut make: impl FnMut() -> O) -> (Vec<Binned<O, U>>, bool) {
        let draft = self.branches[0].draft.borrow();
        let replica_of = draft.shape.groups[self.group].bins.replica_of();
        let mut is_saved = true;
        let mut bins: Vec<Vec<Option<O>>> =
            (0..self.replicas.max).map(|_| replica_of.iter().map(|_| None).collect()).collect();
        for (bin, &replica) in replica_of.iter().enumerate() {
            let mut instance = make();
            is_saved &= size_of::<O>() == 0 || instance.state().is_some();
            bins[replica][bin] = Some(instance);
        }
        (bins.into_iter().map(Binned::new).collect(), is_saved)
    }
}

impl<T: Send + 'static> Flow<T> {
    /// Like [`Flow::follow`] for a replica.
    fn follow_as<O: Recover, U: Send + 'static>(
        &self,
        name: &str,
        place: Place,
        binned: Binned<O, U>,
        kind: OperatorKind,
        is_saved: bool,
    ) -> (OperatorId, Option<Guard<Binned<O, U>>>) {
        let name = if place.replica == 0 { name.to_owned() } else { format!("{name}[{}]", place.replica) };
        let (from, guard) = self.follow(&name, binned, kind);
        let outline = &mut self.draft.borrow_mut().shape.operators[from.0];
        (outline.replica, outline.is_saved) = (Some(place), is_saved);
        (from, guard.map(|guard| guard.in_seat(Seat { place, bins })))
    }
}

/// Returns the bins of a replica.
fn bins<O: Recover, U: Send + 'static>(binned: &mut Binned<O, U>) -> &mut dyn BinOwner {
    binned
}

impl Draft {
    /// Adds a partition to its group; the replica of each bin.
    fn add_partition(&mut self, group: usize, id: OperatorId, counts: &BinCounts) -> Vec<usize> {
        let group = &mut self.shape.groups[group];
        group.partitions.push(PartitionOutline { id, counts: Arc::clone(counts) });
        self.open[id.0] = group.replicas;
        // Its function has no state.
        self.shape.operators[id.0].is_saved = true;
        group.bins.replica_of().to_vec()
    }
}

/// Builds the upstream operators once all consumers of a partition are known.
type AttachAll<T> = Box<dyn FnOnce(Vec<Port<T>>)>;

/// The consumers of a partition, until all are known.
struct Gathered<T> {
    ports: Vec<Option<Port<T>>>,
    attach: Option<AttachAll<T>>,
}

impl<T> Gathered<T> {
    fn set(&mut self, replica: usize, port: Port<T>) {
        self.ports[replica] = Some(port);
        if self.ports.iter().all(Option::is_some)
            && let Some(attach) = self.attach.take()
        {
            attach(self.ports.drain(..).flatten().collect());
        }
    }
}
