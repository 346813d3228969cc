//! Statements that run, so that they end before the interpreter does: a thread that asks an ending interpreter for a batch is
//! ended by it in the midst of its work, which aborts the process.

use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use pyo3::prelude::*;

use crate::query::Running;

/// Time for all statements to end at the end of the interpreter. One that waits for a pipe does not end.
const END_GRACE: Duration = Duration::from_secs(2);

/// Time between two polls of the statements that are to end.
const POLL_PERIOD: Duration = Duration::from_millis(1);

/// The process to which the statements belong. A forked one has none of their threads.
static PROCESS: AtomicU32 = AtomicU32::new(0);

static LIVE: Mutex<Vec<(Arc<()>, Weak<Running>)>> = Mutex::new(Vec::new());

fn live() -> MutexGuard<'static, Vec<(Arc<()>, Weak<Running>)>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The thread of a statement holds it until its end.
pub(crate) struct Guard(Arc<()>);

impl Drop for Guard {
    fn drop(&mut self) {
        live().retain(|(one, _)| !Arc::ptr_eq(one, &self.0));
    }
}

/// Registers a statement.
pub(crate) fn begin(running: &Arc<Running>) -> Guard {
    let mut all = live();
    let own = process::id();
    if PROCESS.swap(own, Ordering::Relaxed) != own {
        all.clear();
    }
    let mark = Arc::new(());
    all.push((Arc::clone(&mark), Arc::downgrade(running)));
    Guard(mark)
}

/// Ends all statements of this process, and waits for their threads.
#[pyfunction]
pub(crate) fn end_statements(py: Python<'_>) {
    if PROCESS.load(Ordering::Relaxed) != process::id() {
        return;
    }
    let all: Vec<Arc<Running>> = live().iter().filter_map(|(_, running)| running.upgrade()).collect();
    py.detach(|| {
        all.iter().for_each(|running| running.end());
        let since = Instant::now();
        while !live().is_empty() && since.elapsed() < END_GRACE {
            thread::sleep(POLL_PERIOD);
        }
    });
}
