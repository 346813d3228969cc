//! Streams are built from their sources to their sinks, with the types of all edges checked by the compiler.
//!
//! An operator owns the one that follows, so that the objects are made from the sinks back: each flow holds what is
//! to be done once its consumer is known.

mod replicated;

pub use replicated::Replicated;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use crate::async_operator::AsyncOperator;
use crate::counters::Counters;
use crate::error::Error;
use crate::guard::{Guard, Named};
use crate::nodes::{AsyncNode, Copies, Fork, JoinNode, Node, SinkNode, SourceNode};
use crate::operator::{Join, Operator, Recover, Sink, Source};
use crate::port::Port;
use crate::ring::{Inlet, ring};
use crate::shape::{OperatorKind, Outline, Shape};
use crate::stage::Segment;
use crate::tuple::OperatorId;

/// A stream that is being built.
///
/// ```
/// use sakiyomi_stream::{Emitter, Next, Recover, Settings, Sink, Source, StreamBuilder, Tuple, each};
///
/// struct Numbers(u64);
/// impl Source for Numbers {
///     type Out = u64;
///     fn next(&mut self, now_ns: u64) -> Next<u64> {
///         self.0 += 1;
///         if self.0 > 100 { Next::End } else { Next::Value { value: self.0, arrival_ns: now_ns } }
///     }
/// }
///
/// struct Sum(u64, std::sync::mpsc::Sender<u64>);
/// impl Recover for Sum {}
/// impl Sink for Sum {
///     type In = u64;
///     fn consume(&mut self, tuple: Tuple<u64>) {
///         self.0 += tuple.value;
///     }
///     fn end(&mut self) {
///         self.1.send(self.0).unwrap();
///     }
/// }
///
/// let (sender, sums) = std::sync::mpsc::channel();
/// let builder = StreamBuilder::new(64);
/// let numbers = builder.source("numbers", Numbers(0));
/// let even = numbers.then("even", each(|n: u64, out: &mut Emitter<u64>| if n % 2 == 0 { out.emit(n) }));
/// let even_id = even.from();
/// even.sink("sum", Sum(0, sender));
///
/// let mut running = builder.build()?.start(Settings::unpinned(2), &[0, 0, 0])?;
/// running.split(even_id, 1)?;
/// let report = running.finish()?;
/// assert_eq!(sums.recv(), Ok(2550));
/// assert_eq!(report.operators[2].tuples_in, 50);
/// # Ok::<(), sakiyomi_stream::Error>(())
/// ```
pub struct StreamBuilder {
    draft: Rc<RefCell<Draft>>,
}

struct Draft {
    ring_slots: usize,
    shape: Shape,
    /// For each operator the outputs that have no consumer yet.
    open: Vec<usize>,
    sources: Vec<Box<dyn Segment>>,
    error: Option<Error>,
}

/// The output of an operator, which needs a consumer.
pub struct Flow<T> {
    draft: Rc<RefCell<Draft>>,
    from: OperatorId,
    attach: Attach<T>,
}

/// Builds the upstream operators once the consumer is known.
type Attach<T> = Box<dyn FnOnce(Port<T>)>;

/// A stream that can be started.
pub struct Stream {
    pub(crate) ring_slots: usize,
    pub(crate) shape: Shape,
    pub(crate) sources: Vec<Box<dyn Segment>>,
}

impl StreamBuilder {
    /// Returns a builder of a stream whose rings have this number of slots each. A full ring pauses the
    /// segment before it.
    ///
    /// # Panics
    /// If a ring has no slot.
    #[must_use]
    pub fn new(ring_slots: usize) -> StreamBuilder {
        assert!(ring_slots > 0, "a ring without slots passes nothing on");
        let draft =
            Draft { ring_slots, shape: Shape::default(), open: Vec::new(), sources: Vec::new(), error: None };
        StreamBuilder { draft: Rc::new(RefCell::new(draft)) }
    }

    /// Adds a source.
    pub fn source<S: Source>(&self, name: &str, mut source: S) -> Flow<S::Out> {
        let is_saved = source.state().is_some();
        let of = self.draft.borrow_mut().add(name, source, OperatorKind::Source, is_saved, None);
        let (from, draft) = (of.id, Rc::clone(&self.draft));
        let attach = Box::new({
            let draft = Rc::clone(&draft);
            move |port| draft.borrow_mut().sources.push(Box::new(SourceNode::new(of, port)))
        });
        Flow { draft, from, attach }
    }

    /// Returns the finished stream.
    ///
    /// # Errors
    /// If an output has no consumer, or an operator is to restart and has no snapshot.
    pub fn build(self) -> Result<Stream, Error> {
        let mut draft = self.draft.borrow_mut();
        if let Some(error) = draft.error.take() {
            return Err(error);
        }
        if let Some(open) = draft.open.iter().position(|&outputs| outputs > 0) {
            return Err(Error::Open(draft.shape.operators[open].name.clone()));
        }
        Ok(Stream {
            ring_slots: draft.ring_slots,
            shape: std::mem::take(&mut draft.shape),
            sources: std::mem::take(&mut draft.sources),
        })
    }
}

impl<T: Send + 'static> Flow<T> {
    /// Returns the operator whose output this is.
    #[must_use]
    pub fn from(&self) -> OperatorId {
        self.from
    }

    /// Adds an operator.
    pub fn then<O: Operator<In = T>>(self, name: &str, operator: O) -> Flow<O::Out> {
        let (from, guard) = self.follow(name, operator, OperatorKind::Operator);
        let Flow { draft, attach, .. } = self;
        let attach: Attach<O::Out> = Box::new(move |port| {
            if let Some(guard) = guard {
                attach(Port::direct(Box::new(Node::new(guard, port))));
            }
        });
        Flow { draft, from, attach }
    }

    /// Adds an operator whose results come from other threads, in the order of its input.
    pub fn then_async<O: AsyncOperator<In = T>>(self, name: &str, operator: O) -> Flow<O::Out> {
        let (from, guard) = self.follow(name, operator, OperatorKind::Operator);
        let Flow { draft, attach, .. } = self;
        let attach: Attach<O::Out> = Box::new(move |port| {
            if let Some(guard) = guard {
                attach(Port::direct(Box::new(AsyncNode::new(guard, port))));
            }
        });
        Flow { draft, from, attach }
    }

    /// Sends each tuple to two flows. Watermarks and the end go to both. A `clone` that panics stops the split.
    #[must_use]
    pub fn split(self, name: &str) -> (Flow<T>, Flow<T>)
    where
        T: Clone,
    {
        let (from, guard) = self.follow(name, Copies, OperatorKind::Split);
        let Flow { draft, attach, .. } = self;
        let halves =
            Rc::new(RefCell::new(SplitConsumers { left: None, right: None, guard, attach: Some(attach) }));
        let half = |left: bool| {
            let halves = Rc::clone(&halves);
            let attach: Attach<T> = Box::new(move |port| halves.borrow_mut().set(left, port));
            Flow { draft: Rc::clone(&draft), from, attach }
        };
        (half(true), half(false))
    }

    /// Joins this flow, as the first input, with another one, whose tuples come through a ring.
    pub fn join<J: Join<Left = T>>(self, name: &str, other: Flow<J::Right>, join: J) -> Flow<J::Out> {
        let (from, guard) = self.follow(name, join, OperatorKind::Join);
        let Flow { draft, attach, .. } = self;
        let inlet = Draft::second_input(&draft, from, other);
        let attach: Attach<J::Out> = Box::new(move |port| {
            if let Some(guard) = guard {
                attach(Port::direct(Box::new(JoinNode::new(guard, inlet, port))));
            }
        });
        Flow { draft, from, attach }
    }

    /// Ends the flow with a sink.
    pub fn sink<S: Sink<In = T>>(self, name: &str, sink: S) -> OperatorId {
        let (id, guard) = self.follow(name, sink, OperatorKind::Sink);
        self.draft.borrow_mut().shape.sinks += 1;
        if let Some(guard) = guard {
            (self.attach)(Port::direct(Box::new(SinkNode::new(guard))));
        }
        id
    }

    /// Adds an operator that takes this flow's tuples; none but an error if it may not be added.
    fn follow<O: Recover>(
        &self,
        name: &str,
        mut operator: O,
        kind: OperatorKind,
    ) -> (OperatorId, Option<Guard<O>>) {
        let is_saved = size_of::<O>() == 0 || operator.state().is_some();
        let mut draft = self.draft.borrow_mut();
        draft.open[self.from.0] -= 1;
        let of = draft.add(name, operator, kind, is_saved, Some(self.from));
        let id = of.id;
        let guard = Guard::new(of).map_err(|error| {
            draft.error.get_or_insert(error);
        });
        (id, guard.ok())
    }
}

/// The consumers of a split, until both are known.
struct SplitConsumers<T> {
    left: Option<Port<T>>,
    right: Option<Port<T>>,
    guard: Option<Guard<Copies>>,
    attach: Option<Attach<T>>,
}

impl<T: Clone + Send + 'static> SplitConsumers<T> {
    fn set(&mut self, left: bool, port: Port<T>) {
        *(if left { &mut self.left } else { &mut self.right }) = Some(port);
        if self.left.is_some()
            && self.right.is_some()
            && let (Some(guard), Some(attach)) = (self.guard.take(), self.attach.take())
            && let (Some(left), Some(right)) = (self.left.take(), self.right.take())
        {
            attach(Port::direct(Box::new(Fork::new(guard, left, right))));
        }
    }
}

impl Draft {
    fn add<O>(
        &mut self,
        name: &str,
        operator: O,
        kind: OperatorKind,
        is_saved: bool,
        parent: Option<OperatorId>,
    ) -> Named<O> {
        let counters = Arc::new(Counters::default());
        let id = OperatorId(self.shape.operators.len());
        self.shape.operators.push(Outline {
            name: name.to_owned(),
            kind,
            is_saved,
            parent,
            side_parents: Vec::new(),
            replica: None,
            counters: Arc::clone(&counters),
        });
        self.open.push(kind.outputs());
        Named { id, name: name.to_owned(), counters, operator }
    }

    /// Sends a flow to another input of an operator than its first, by a ring.
    fn second_input<T: Send + 'static>(draft: &RefCell<Draft>, to: OperatorId, flow: Flow<T>) -> Inlet<T> {
        let (outlet, inlet) = {
            let mut draft = draft.borrow_mut();
            draft.open[flow.from.0] -= 1;
            let outline = &mut draft.shape.operators[to.0];
            outline.side_parents.push(flow.from);
            let high_water = Arc::clone(&outline.counters.second_ring);
            // Until the segments get their workers, all belong to the first.
            ring(draft.ring_slots, 0, high_water)
        };
        (flow.attach)(Port::second(outlet));
        inlet
    }
}
