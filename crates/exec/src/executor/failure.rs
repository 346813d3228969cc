//! Failures of tasks.

use std::any::Any;
use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::io;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Name of a task, for messages about failures.
pub type Name = Cow<'static, str>;

/// The failure of a task: the first one, if others depended on it.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Name of the task; `all` if no single task failed.
    pub task: Name,
    /// The cause.
    pub cause: Cause,
    /// Identity of the failure, shared by its copies.
    number: usize,
}

/// Next identity of a failure; `CANCELLED_TASK` is taken.
static FAILURES: AtomicUsize = AtomicUsize::new(1);
/// Identity of the failure of a cancelled run; smaller than any identity of a task's failure.
const CANCELLED_TASK: usize = 0;

/// The cause of a failure.
#[derive(Clone, Debug)]
pub enum Cause {
    /// The task returned this error.
    Failed(Arc<dyn Error + Send + Sync>),
    /// The task panicked with this message.
    Panicked(String),
    /// The run was cancelled.
    Cancelled,
    /// A thread could not be started.
    NoThread(Arc<io::Error>),
    /// A thread was to be pinned to this core, which the process may not use.
    NoCore(usize),
}

impl Failure {
    pub(super) fn new(task: impl Into<Name>, cause: Cause) -> Failure {
        Failure { task: task.into(), cause, number: FAILURES.fetch_add(1, Ordering::Relaxed) }
    }

    /// Returns whether both are copies of one failure.
    pub(super) fn is_same(&self, other: &Failure) -> bool {
        self.number == other.number
    }

    /// Makes the failure of a task that panicked with this payload.
    pub(crate) fn of_panic(task: impl Into<Name>, panic: &(dyn Any + Send)) -> Failure {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        let text = text.unwrap_or_else(|| "a panic message that is not text".to_owned());
        Failure::new(task, Cause::Panicked(text))
    }

    /// Runs `what` and converts a panic into a failure of the task.
    pub(super) fn catch<R>(task: &Name, what: impl FnOnce() -> R) -> Result<R, Failure> {
        catch_unwind(AssertUnwindSafe(what)).map_err(|panic| Failure::of_caught(task, panic))
    }

    /// Makes the failure of a task from the payload of its panic.
    pub(super) fn of_caught(task: &Name, panic: Box<dyn Any + Send>) -> Failure {
        let failure = Failure::of_panic(task.clone(), &*panic);
        if !panic.is::<String>() {
            // Dropping the payload could panic again.
            mem::forget(panic);
        }
        failure
    }

    pub(super) fn cancelled() -> Failure {
        Failure { task: Name::Borrowed("all"), cause: Cause::Cancelled, number: CANCELLED_TASK }
    }

    pub(crate) fn no_thread(error: io::Error) -> Failure {
        Failure::new("all", Cause::NoThread(Arc::new(error)))
    }

    pub(super) fn no_core(core: usize) -> Failure {
        Failure::new("all", Cause::NoCore(core))
    }
}

impl Cause {
    pub(super) fn failed(error: impl Into<Box<dyn Error + Send + Sync>>) -> Cause {
        Cause::Failed(Arc::from(error.into()))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            Cause::Failed(_) => write!(f, "the task `{}` failed", self.task),
            Cause::Panicked(text) => write!(f, "the task `{}` panicked: {text}", self.task),
            Cause::Cancelled => f.write_str("the tasks were cancelled"),
            Cause::NoThread(_) => f.write_str("no thread could be started for tasks; use fewer"),
            Cause::NoCore(core) => {
                write!(
                    f,
                    "core {core} does not exist, or this process may not use it; name another core for tasks"
                )
            }
        }
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.cause {
            Cause::Failed(error) => Some(&**error),
            Cause::NoThread(error) => Some(&**error),
            Cause::Panicked(_) | Cause::Cancelled | Cause::NoCore(_) => None,
        }
    }
}
