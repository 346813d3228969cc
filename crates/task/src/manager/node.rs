//! A task as the manager keeps it, and what the others see of it: handles, inputs, failures.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::io;
use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Device, Name, Priority, Tasks};

pub(super) type Body<'env> = Box<dyn FnOnce(&Tasks<'env>) -> Result<(), Cause> + Send + 'env>;

pub(super) struct Node<'env> {
    pub(super) name: Name,
    pub(super) device: Device,
    pub(super) priority: Priority,
    /// Those that it waits for: its own making, tasks before it, and who holds it.
    missing: AtomicUsize,
    state: Mutex<State<'env>>,
}

struct State<'env> {
    body: Option<Body<'env>>,
    /// Those that wait for it.
    after: Vec<Arc<Node<'env>>>,
    /// Why it is not to be run, or what it failed with.
    broken: Option<Failure>,
    /// Let go when it ends, run or not.
    gate: Option<Arc<Node<'env>>>,
    watched: bool,
    ended: bool,
}

/// What follows from a task's end.
pub(super) struct End<'env> {
    pub(super) after: Vec<Arc<Node<'env>>>,
    /// What waited for it besides.
    pub(super) gate: Option<Arc<Node<'env>>>,
    pub(super) is_watched: bool,
}

impl<'env> Node<'env> {
    pub(super) fn new(name: Name, device: Device, priority: Priority, body: Body<'env>) -> Arc<Node<'env>> {
        let state = State {
            body: Some(body),
            after: Vec::new(),
            broken: None,
            gate: None,
            watched: false,
            ended: false,
        };
        Arc::new(Node { name, device, priority, missing: AtomicUsize::new(1), state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State<'env>> {
        // No code of others runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `next` begins after this one, unless it has ended already.
    pub(super) fn then(&self, next: &Arc<Node<'env>>) {
        let mut state = self.state();
        if !state.ended {
            next.hold();
            state.after.push(Arc::clone(next));
        } else if let Some(failure) = state.broken.clone() {
            drop(state);
            next.break_with(failure);
        }
    }

    /// It has one more to wait for.
    pub(super) fn hold(&self) {
        self.missing.fetch_add(1, Ordering::Relaxed);
    }

    /// It has one less to wait for; says whether that was the last.
    pub(super) fn let_go(&self) -> bool {
        self.missing.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// It is not to be run, because of this.
    pub(super) fn break_with(&self, failure: Failure) {
        self.state().broken.get_or_insert(failure);
    }

    pub(super) fn is_broken(&self) -> bool {
        self.state().broken.is_some()
    }

    /// The gate waits for it.
    pub(super) fn holds(&self, gate: Arc<Node<'env>>) {
        self.state().gate = Some(gate);
    }

    pub(super) fn watch(&self) {
        self.state().watched = true;
    }

    pub(super) fn has_ended(&self) -> bool {
        self.state().ended
    }

    pub(super) fn result(&self) -> Result<(), Failure> {
        self.state().broken.clone().map_or(Ok(()), Err)
    }

    /// What is to be run.
    ///
    /// # Errors
    /// If it is not to be run. What it was to run is dropped.
    pub(super) fn begin(&self) -> Result<Body<'env>, Failure> {
        let mut state = self.state();
        let body = state.body.take().expect("a task is begun once");
        match state.broken.clone() {
            None => Ok(body),
            Some(failure) => {
                drop(state);
                drop(body);
                Err(failure)
            }
        }
    }

    pub(super) fn end(&self, result: Result<(), Failure>) -> End<'env> {
        let mut state = self.state();
        state.ended = true;
        state.broken = result.err();
        let (after, broken) = (mem::take(&mut state.after), state.broken.clone());
        let (gate, is_watched) = (state.gate.take(), state.watched);
        drop(state);
        if let Some(failure) = broken {
            after.iter().for_each(|next| next.break_with(failure.clone()));
        }
        End { after, gate, is_watched }
    }
}

/// The place of an output.
pub(super) struct Slot<T>(Mutex<Option<T>>);

impl<T> Slot<T> {
    pub(super) fn empty() -> Arc<Slot<T>> {
        Arc::new(Slot(Mutex::new(None)))
    }

    pub(super) fn full(output: T) -> Arc<Slot<T>> {
        Arc::new(Slot(Mutex::new(Some(output))))
    }

    pub(super) fn put(&self, output: T) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(output);
    }

    /// # Panics
    /// If the task has not ended well, or it was taken: handles are moved so that neither can be.
    pub(super) fn take(&self) -> T {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take().expect("an output is there once")
    }
}

/// A task that was made, and its output once it has ended.
#[must_use = "an output that nobody takes was made for nothing; drop it with `.forget()` if only what is done counts"]
pub struct Handle<'env, T> {
    pub(super) node: Arc<Node<'env>>,
    pub(super) slot: Arc<Slot<T>>,
}

impl<'env, T> Handle<'env, T> {
    pub(super) fn new(node: Arc<Node<'env>>, slot: Arc<Slot<T>>) -> Handle<'env, T> {
        Handle { node, slot }
    }

    /// Leaves the task to itself; its failure is still the run's.
    pub fn forget(self) {}
}

impl<'env, T: Send + Sync + 'env> Handle<'env, T> {
    /// An output that is the input of several tasks.
    pub fn share(self) -> SharedHandle<'env, T> {
        SharedHandle { node: self.node, slot: self.slot, output: Arc::default() }
    }
}

/// A task whose output is the input of several.
pub struct SharedHandle<'env, T> {
    node: Arc<Node<'env>>,
    slot: Arc<Slot<T>>,
    output: Arc<Mutex<Option<Arc<T>>>>,
}

impl<T> Clone for SharedHandle<'_, T> {
    fn clone(&self) -> Self {
        let (node, slot) = (Arc::clone(&self.node), Arc::clone(&self.slot));
        SharedHandle { node, slot, output: Arc::clone(&self.output) }
    }
}

/// What a task is given: outputs of others, alone, in tuples, or in a `Vec`.
pub trait Inputs<'env> {
    /// The outputs.
    type Given;
    #[doc(hidden)]
    #[expect(private_interfaces, reason = "nobody else implements it")]
    fn nodes(&self, nodes: &mut Vec<Arc<Node<'env>>>);
    #[doc(hidden)]
    fn take(self) -> Self::Given;
}

impl<'env, T> Inputs<'env> for Handle<'env, T> {
    type Given = T;

    #[expect(private_interfaces, reason = "nobody else implements it")]
    fn nodes(&self, nodes: &mut Vec<Arc<Node<'env>>>) {
        nodes.push(Arc::clone(&self.node));
    }

    fn take(self) -> T {
        self.slot.take()
    }
}

impl<'env, T> Inputs<'env> for SharedHandle<'env, T> {
    type Given = Arc<T>;

    #[expect(private_interfaces, reason = "nobody else implements it")]
    fn nodes(&self, nodes: &mut Vec<Arc<Node<'env>>>) {
        nodes.push(Arc::clone(&self.node));
    }

    fn take(self) -> Arc<T> {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(output.get_or_insert_with(|| Arc::new(self.slot.take())))
    }
}

impl<'env, I: Inputs<'env>> Inputs<'env> for Vec<I> {
    type Given = Vec<I::Given>;

    #[expect(private_interfaces, reason = "nobody else implements it")]
    fn nodes(&self, nodes: &mut Vec<Arc<Node<'env>>>) {
        self.iter().for_each(|input| input.nodes(nodes));
    }

    fn take(self) -> Vec<I::Given> {
        self.into_iter().map(I::take).collect()
    }
}

macro_rules! inputs_in_tuples {
    ($($input:ident $index:tt),+) => {
        impl<'env, $($input: Inputs<'env>),+> Inputs<'env> for ($($input,)+) {
            type Given = ($($input::Given,)+);

            #[expect(private_interfaces, reason = "nobody else implements it")]
            fn nodes(&self, nodes: &mut Vec<Arc<Node<'env>>>) {
                $(self.$index.nodes(nodes);)+
            }

            fn take(self) -> Self::Given {
                ($(self.$index.take(),)+)
            }
        }
    };
}

inputs_in_tuples!(A 0, B 1);
inputs_in_tuples!(A 0, B 1, C 2);
inputs_in_tuples!(A 0, B 1, C 2, D 3);

/// Why a task has not ended well.
#[derive(Clone, Debug)]
pub enum Cause {
    /// It returned this error.
    Failed(Arc<dyn Error + Send + Sync>),
    /// It panicked with this message.
    Panicked(String),
    /// The run was cancelled.
    Cancelled,
    /// A thread could not be started.
    NoThread(Arc<io::Error>),
}

impl Cause {
    pub(super) fn failed(error: impl Into<Box<dyn Error + Send + Sync>>) -> Cause {
        Cause::Failed(Arc::from(error.into()))
    }

    pub(super) fn of_panic(panic: &(dyn Any + Send)) -> Cause {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Cause::Panicked(text.unwrap_or_else(|| "something that is no text".to_owned()))
    }
}

/// A task that has not ended well: the first one, if others depended on it.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Its name.
    pub task: Name,
    /// Why.
    pub cause: Cause,
}

impl Failure {
    pub(super) fn new(task: Name, cause: Cause) -> Failure {
        Failure { task, cause }
    }

    pub(super) fn cancelled() -> Failure {
        Failure { task: Name::Borrowed("all"), cause: Cause::Cancelled }
    }

    /// Of a task that panicked with this.
    pub(crate) fn of_panic(task: impl Into<Name>, panic: &(dyn Any + Send)) -> Failure {
        Failure { task: task.into(), cause: Cause::of_panic(panic) }
    }

    pub(super) fn no_thread(error: io::Error) -> Failure {
        Failure { task: Name::Borrowed("all"), cause: Cause::NoThread(Arc::new(error)) }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            Cause::Failed(_) => write!(f, "the task `{}` failed", self.task),
            Cause::Panicked(text) => write!(f, "the task `{}` panicked: {text}", self.task),
            Cause::Cancelled => f.write_str("the tasks were cancelled"),
            Cause::NoThread(_) => f.write_str("no thread could be started for tasks; use fewer"),
        }
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.cause {
            Cause::Failed(error) => Some(&**error),
            Cause::NoThread(error) => Some(&**error),
            Cause::Panicked(_) | Cause::Cancelled => None,
        }
    }
}
