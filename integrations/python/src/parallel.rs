//! Items that are processed by as many threads as there are cores, while the calling thread looks after signals.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;

/// Time between two checks of signals: a delay of Ctrl-C that nobody notices.
const SIGNAL_PERIOD: Duration = Duration::from_millis(50);

/// Returns the results of all items, in their order; the first error, or a signal, ends it. `work` is told by its second
/// argument to stop.
pub(crate) fn each<T: Sync, R: Send, E: Send>(
    py: Python<'_>,
    items: &[T],
    work: impl Fn(&T, &AtomicBool) -> Result<R, E> + Sync,
) -> PyResult<Result<Vec<R>, E>> {
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let threads = thread::available_parallelism().map_or(1, usize::from).min(items.len());
    let (next, stop, work) = (&next, &stop, &work);
    py.detach(|| {
        let (sender, receiver) = mpsc::channel();
        thread::scope(|scope| {
            for _ in 0..threads {
                let sender = sender.clone();
                scope.spawn(move || {
                    while !stop.load(Relaxed) {
                        let index = next.fetch_add(1, Relaxed);
                        let Some(item) = items.get(index) else { break };
                        let done = work(item, stop);
                        let has_failed = done.is_err();
                        if sender.send((index, done)).is_err() {
                            break;
                        }
                        // Only now: those of items that are stopped must come behind this error.
                        stop.fetch_or(has_failed, Relaxed);
                    }
                });
            }
            drop(sender);
            let mut all = Vec::with_capacity(items.len());
            let (mut signal, mut failure) = (Ok(()), None);
            loop {
                match receiver.recv_timeout(SIGNAL_PERIOD) {
                    Ok((index, Ok(done))) => all.push((index, done)),
                    Ok((_, Err(error))) => failure = failure.or(Some(error)),
                    Err(mpsc::RecvTimeoutError::Disconnected) => break,
                    Err(mpsc::RecvTimeoutError::Timeout) => {}
                }
                if signal.is_ok() {
                    signal = Python::attach(|py| py.check_signals());
                    stop.fetch_or(signal.is_err(), Relaxed);
                }
            }
            signal?;
            all.sort_by_key(|(index, _)| *index);
            let done = all.into_iter().map(|(_, done)| done).collect();
            Ok(failure.map_or(Ok(done), Err))
        })
    })
}
