//! A task as the manager keeps it, and what the others see of it: handles, inputs, failures.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::io;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Device, Name, Priority, Tasks};

/// A task, of whatever function. It is one allocation, with its function and later its output: what one thread allocates
/// and another frees is what an empty task costs most.
pub(super) type Task<'env> = Arc<dyn Run<'env> + 'env>;

/// What the threads that run tasks need of them.
pub(super) trait Run<'env>: Send + Sync {
    fn core(&self) -> &Core<'env>;

    /// Runs it; `true` if it is to be run again, as the same task.
    fn run(&self, tasks: &Tasks<'env>) -> Result<bool, Cause>;

    /// Drops what it was to run, and all that this borrows.
    fn discard(&self);
}

/// A task whose output is taken once it has ended.
pub(super) trait Gives<'env, T>: Run<'env> {
    /// # Panics
    /// If the task has not ended well, or it was taken: handles are moved so that neither can be.
    fn take(&self) -> T;
}

/// What the others see of a task.
pub(super) struct Core<'env> {
    pub(super) name: Name,
    pub(super) device: Device,
    /// Those that it waits for: its own making, and tasks before it.
    missing: AtomicU32,
    pub(super) priority: Priority,
    /// Known to who runs it, since all that could break it have ended before.
    broken: AtomicBool,
    // The next two change under the lock of `state`.
    watched: AtomicBool,
    ended: AtomicBool,
    state: Mutex<State<'env>>,
}

struct State<'env> {
    /// Those that wait for it.
    after: Vec<Task<'env>>,
    /// Why it is not to be run, or what it failed with.
    failure: Option<Box<Failure>>,
}

/// What follows from a task's end.
pub(super) struct End<'env> {
    pub(super) after: Vec<Task<'env>>,
    pub(super) is_watched: bool,
}

impl<'env> Core<'env> {
    pub(super) fn new(name: Name, device: Device, priority: Priority) -> Core<'env> {
        let no = || AtomicBool::new(false);
        let (broken, watched, ended) = (no(), no(), no());
        let state = Mutex::new(State { after: Vec::new(), failure: None });
        Core { name, device, missing: AtomicU32::new(1), priority, broken, watched, ended, state }
    }

    fn state(&self) -> MutexGuard<'_, State<'env>> {
        // No code of others runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `next` begins after this one, unless it has ended already.
    pub(super) fn then(&self, next: &Task<'env>) {
        let mut state = self.state();
        if !self.ended.load(Ordering::Relaxed) {
            next.core().missing.fetch_add(1, Ordering::Relaxed);
            state.after.push(Arc::clone(next));
        } else if let Some(failure) = state.failure.as_deref().cloned() {
            drop(state);
            next.core().break_with(failure);
        }
    }

    /// It has one less to wait for; says whether that was the last.
    pub(super) fn let_go(&self) -> bool {
        self.missing.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// It is not to be run, because of this.
    fn break_with(&self, failure: Failure) {
        self.state().failure.get_or_insert_with(|| Box::new(failure));
        self.broken.store(true, Ordering::Release);
    }

    pub(super) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    pub(super) fn watch(&self) {
        let _state = self.state();
        self.watched.store(true, Ordering::Relaxed);
    }

    pub(super) fn has_ended(&self) -> bool {
        let _state = self.state();
        self.ended.load(Ordering::Relaxed)
    }

    /// Why it has not ended well, or is not to be run.
    pub(super) fn failure(&self) -> Option<Failure> {
        self.state().failure.as_deref().cloned()
    }

    pub(super) fn end(&self, result: Result<(), Failure>) -> End<'env> {
        let failure = result.err().map(Box::new);
        let mut state = self.state();
        self.ended.store(true, Ordering::Relaxed);
        state.failure.clone_from(&failure);
        let after = mem::take(&mut state.after);
        let is_watched = self.watched.load(Ordering::Relaxed);
        drop(state);
        if let Some(failure) = failure {
            after.iter().for_each(|next| next.core().break_with((*failure).clone()));
        }
        End { after, is_watched }
    }
}

/// A function, and what came of it.
pub(super) struct Function<'env, F, T> {
    core: Core<'env>,
    work: Mutex<Work<F, T>>,
}

enum Work<F, T> {
    ToDo(F),
    /// It is being run, or was discarded, or the output has been taken.
    Nothing,
    Done(T),
}

impl<'env, F, T> Function<'env, F, T> {
    pub(super) fn new(core: Core<'env>, function: F) -> Function<'env, F, T> {
        Function { core, work: Mutex::new(Work::ToDo(function)) }
    }

    fn replace(&self, next: Work<F, T>) -> Work<F, T> {
        mem::replace(&mut *self.work.lock().unwrap_or_else(PoisonError::into_inner), next)
    }
}

impl<'env, F, T> Run<'env> for Function<'env, F, T>
where
    F: FnOnce(&Tasks<'env>) -> Result<T, Cause> + Send,
    T: Send,
{
    fn core(&self) -> &Core<'env> {
        &self.core
    }

    fn run(&self, tasks: &Tasks<'env>) -> Result<bool, Cause> {
        let Work::ToDo(function) = self.replace(Work::Nothing) else { panic!("a task is run once") };
        let output = function(tasks)?;
        self.replace(Work::Done(output));
        Ok(false)
    }

    fn discard(&self) {
        drop(self.replace(Work::Nothing));
    }
}

impl<'env, F, T> Gives<'env, T> for Function<'env, F, T>
where
    F: FnOnce(&Tasks<'env>) -> Result<T, Cause> + Send,
    T: Send,
{
    fn take(&self) -> T {
        let Work::Done(output) = self.replace(Work::Nothing) else { panic!("an output is there once") };
        output
    }
}

/// A task that was made, and its output once it has ended.
#[must_use = "an output that nobody takes was made for nothing; drop it with `.forget()` if only what is done counts"]
pub struct Handle<'env, T> {
    pub(super) task: Arc<dyn Gives<'env, T> + 'env>,
}

impl<'env, T> Handle<'env, T> {
    /// As those see it who do not take its output.
    pub(super) fn of_any(&self) -> Task<'env> {
        Arc::clone(&self.task) as Task<'env>
    }

    /// Leaves the task to itself; its failure is still the run's.
    pub fn forget(self) {}
}

impl<'env, T: Send + Sync + 'env> Handle<'env, T> {
    /// An output that is the input of several tasks.
    pub fn share(self) -> SharedHandle<'env, T> {
        SharedHandle { task: self.task, output: Arc::default() }
    }
}

/// A task whose output is the input of several.
pub struct SharedHandle<'env, T> {
    task: Arc<dyn Gives<'env, T> + 'env>,
    output: Arc<Mutex<Option<Arc<T>>>>,
}

impl<T> Clone for SharedHandle<'_, T> {
    fn clone(&self) -> Self {
        SharedHandle { task: Arc::clone(&self.task), output: Arc::clone(&self.output) }
    }
}

/// What a task is given: outputs of others, alone, in tuples, or in a `Vec`.
pub trait Inputs<'env> {
    /// The outputs.
    type Given;
    #[doc(hidden)]
    #[expect(private_interfaces, reason = "nobody else implements it")]
    fn tasks(&self, tasks: &mut Vec<Task<'env>>);
    #[doc(hidden)]
    fn take(self) -> Self::Given;
}

impl<'env, T> Inputs<'env> for Handle<'env, T> {
    type Given = T;

    #[expect(private_interfaces, reason = "nobody else implements it")]
    fn tasks(&self, tasks: &mut Vec<Task<'env>>) {
        tasks.push(self.of_any());
    }

    fn take(self) -> T {
        self.task.take()
    }
}

impl<'env, T> Inputs<'env> for SharedHandle<'env, T> {
    type Given = Arc<T>;

    #[expect(private_interfaces, reason = "nobody else implements it")]
    fn tasks(&self, tasks: &mut Vec<Task<'env>>) {
        tasks.push(Arc::clone(&self.task) as Task<'env>);
    }

    fn take(self) -> Arc<T> {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(output.get_or_insert_with(|| Arc::new(self.task.take())))
    }
}

impl<'env, I: Inputs<'env>> Inputs<'env> for Vec<I> {
    type Given = Vec<I::Given>;

    #[expect(private_interfaces, reason = "nobody else implements it")]
    fn tasks(&self, tasks: &mut Vec<Task<'env>>) {
        self.iter().for_each(|input| input.tasks(tasks));
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
            fn tasks(&self, tasks: &mut Vec<Task<'env>>) {
                $(self.$index.tasks(tasks);)+
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
