//! Runs a job on its own thread while the caller's thread shows progress and polls for Ctrl-C.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use sakiyomi_query::{Error, Job};
use sakiyomi_report::number;

use crate::console::Common;
use crate::progress::{Interrupted, Progress, go_on};

/// Polling period of a job: short enough that Ctrl-C seems immediate and short jobs are not delayed.
const POLL_PERIOD: Duration = Duration::from_millis(50);

/// Time for an interrupted job to end by itself. A job blocked on standard input never does.
const CANCEL_GRACE: Duration = Duration::from_secs(5);

/// Runs a job to its end, or until Ctrl-C.
///
/// # Errors
/// The job's own; [`Interrupted`] after Ctrl-C.
pub(crate) fn run<R: Send + 'static>(
    job: &Job,
    common: &Common,
    work: impl FnOnce(&Job) -> Result<R, Error> + Send + 'static,
) -> Result<R> {
    let (sender, outcome) = mpsc::channel();
    let own = job.clone();
    let worker = thread::Builder::new().name("job".to_owned()).spawn(move || {
        // Fails if the receiver has returned after Ctrl-C.
        let _ = sender.send(work(&own));
    })?;
    let mut shown: Option<Progress> = None;
    let mut cancelled: Option<Instant> = None;
    loop {
        match outcome.recv_timeout(POLL_PERIOD) {
            Ok(Err(Error::Cancelled)) => return Err(Interrupted.into()),
            Ok(outcome) => {
                let _ = worker.join();
                return Ok(outcome?);
            }
            Err(RecvTimeoutError::Disconnected) => match worker.join() {
                Err(panic) => std::panic::resume_unwind(panic),
                Ok(()) => bail!("the job ended without a result"),
            },
            Err(RecvTimeoutError::Timeout) => {}
        }
        if go_on().is_err() {
            job.cancel();
            if cancelled.get_or_insert_with(Instant::now).elapsed() > CANCEL_GRACE {
                return Err(Interrupted.into());
            }
        }
        show(job, common, &mut shown);
    }
}

/// Shows the progress of a job once it has begun a step.
fn show(job: &Job, common: &Common, shown: &mut Option<Progress>) {
    let now = job.progress().snapshot();
    if now.step.is_empty() {
        return;
    }
    let total = Some(now.total_rows).filter(|&rows| rows > 0);
    let progress = shown.get_or_insert_with(|| Progress::new(total, common.quiet));
    total.into_iter().for_each(|total| progress.set_total(total));
    let message = || format!("{}: {} rows", now.step, number::count(now.done_rows));
    // The caller polls for Ctrl-C.
    let _ = progress.set(now.done_rows, message);
}
