//! The same done to many, as many at a time as there are cores.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Result;

use crate::console::Common;
use crate::progress::Progress;

/// What comes of each of `items`, in their order. The first failure, or Ctrl-C, ends it. `what` they are is told while it
/// lasts, such as "combinations".
pub(crate) fn each<T: Sync, R: Send>(
    items: &[T],
    what: &str,
    common: &Common,
    work: impl Fn(&T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let next = AtomicUsize::new(0);
    let mut progress = Progress::new(Some(items.len() as u64), common.quiet);
    let mut told = |done: usize| progress.set(done as u64, || format!("{done} of {} {what}", items.len()));
    told(0)?;
    let (told, outcomes) = (Mutex::new(told), Mutex::new(Vec::with_capacity(items.len())));
    let worker = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { return };
            let outcome = work(item);
            let mut outcomes = outcomes.lock().expect("no worker panics while it holds the outcomes");
            let mut told = told.lock().expect("no worker panics while it holds the bar");
            let outcome = told(outcomes.len() + 1).map_err(anyhow::Error::from).and(outcome);
            if outcome.is_err() {
                next.store(items.len(), Ordering::Relaxed);
            }
            outcomes.push((index, outcome));
        }
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(items.len());
    std::thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(worker))));
    let mut outcomes = outcomes.into_inner().expect("the workers have ended");
    outcomes.sort_by_key(|(index, _)| *index);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}
