//! Why tasks have not ended well.

use std::any::Any;
use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::io;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Names of tasks are for people, in failures.
pub type Name = Cow<'static, str>;

/// The failure of a task: the first one, if others depended on it.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Its name; `all` if no single one is to blame.
    pub task: Name,
    /// Why.
    pub cause: Cause,
    /// Number of the failure, which its copies share.
    number: usize,
}

/// Number of failures so far, counting that of cancelled tasks as one.
static FAILURES: AtomicUsize = AtomicUsize::new(1);
/// Number of the failure of a cancelled run: it precedes those of all tasks.
const CANCELLED_TASK: usize = 0;

/// The cause of a failure.
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
    /// A thread was to be on this core, which the process may not use.
    NoCore(usize),
}

impl Failure {
    pub(super) fn new(task: impl Into<Name>, cause: Cause) -> Failure {
        Failure { task: task.into(), cause, number: FAILURES.fetch_add(1, Ordering::Relaxed) }
    }

    /// Whether they are copies of one.
    pub(super) fn is_same(&self, other: &Failure) -> bool {
        self.number == other.number
    }

    /// The failure of a task that panicked with this payload.
    pub(crate) fn of_panic(task: impl Into<Name>, panic: &(dyn Any + Send)) -> Failure {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        let text = text.unwrap_or_else(|| "something that is no text".to_owned());
        Failure::new(task, Cause::Panicked(text))
    }

    /// Does what may panic in the name of a task.
    pub(super) fn catch<R>(task: &Name, what: impl FnOnce() -> R) -> Result<R, Failure> {
        catch_unwind(AssertUnwindSafe(what)).map_err(|panic| {
            let failure = Failure::of_panic(task.clone(), &*panic);
            if !panic.is::<String>() {
                // To drop it could panic once more.
                mem::forget(panic);
            }
            failure
        })
    }

    pub(super) fn cancelled() -> Failure {
        Failure { task: Name::Borrowed("all"), cause: Cause::Cancelled, number: CANCELLED_TASK }
    }

    pub(super) fn no_thread(error: io::Error) -> Failure {
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
                write!(f, "core {core} is not there, or this process may not use it; name another for tasks")
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
