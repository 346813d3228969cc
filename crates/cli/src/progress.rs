//! Progress of long runs, on stderr if that is a terminal, after the first second; and their interruption by Ctrl-C.

use std::fmt;
use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use indicatif::{HumanBytes, HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use sakiyomi_os::process::hangup_kept_ignored;

/// Duration up to which a run shows no bar.
const SILENT_TIME: Duration = Duration::from_secs(1);
/// Time between two drawings of a bar without progress.
const TICK_PERIOD: Duration = Duration::from_millis(500);

/// The user has pressed Ctrl-C.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Whether a second Ctrl-C ends the process at once.
static ENDS_AT_SECOND: AtomicBool = AtomicBool::new(false);

/// Exit code of a run that was ended by Ctrl-C.
pub(crate) const INTERRUPTED_EXIT_CODE: u8 = 130;

/// The bar on the screen.
static ON_SCREEN: Mutex<Option<ProgressBar>> = Mutex::new(None);

fn on_screen() -> MutexGuard<'static, Option<ProgressBar>> {
    // Its value is replaced as a whole.
    ON_SCREEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes to the terminal, above the bar if there is one.
pub(crate) fn above_bar<R>(write: impl FnOnce() -> R) -> R {
    // The lock is free during the write: other threads may write as well.
    let bar = on_screen().clone();
    match bar {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

/// Makes Ctrl-C, SIGTERM and SIGHUP end a run at its next update of the progress, so that it can clean up; SIGHUP not if the
/// program was started to ignore it.
pub(crate) fn end_at_ctrl_c() {
    let interrupt = || {
        if INTERRUPTED.swap(true, Ordering::Relaxed) && ENDS_AT_SECOND.load(Ordering::Relaxed) {
            std::process::exit(INTERRUPTED_EXIT_CODE.into());
        }
    };
    // If no handler can be set, Ctrl-C keeps its default action.
    let _ = hangup_kept_ignored(|| ctrlc::set_handler(interrupt));
}

/// Makes a second Ctrl-C end the process at once: for runs whose end may wait for others without a limit.
pub(crate) fn end_at_second_ctrl_c() {
    ENDS_AT_SECOND.store(true, Ordering::Relaxed);
}

/// Checks for an interruption, during long work between two updates of the progress.
///
/// # Errors
/// [`Interrupted`] after Ctrl-C.
pub(crate) fn go_on() -> Result<(), Interrupted> {
    if INTERRUPTED.load(Ordering::Relaxed) { Err(Interrupted) } else { Ok(()) }
}

/// A run that was ended by Ctrl-C.
#[derive(Debug)]
pub(crate) struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted; no file was written")
    }
}

impl std::error::Error for Interrupted {}

/// A progress bar that appears only in long runs, and is redrawn even without progress.
pub(crate) struct Progress {
    bar: ProgressBar,
    /// Position up to which the bar grows by itself, a step each millisecond; 0 if it does not.
    grows_to: Arc<AtomicU64>,
    /// Dropping it ends the thread that shows the bar.
    shown: Option<(mpsc::Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    /// Creates a bar of `total` bytes or steps; `None` if the total is unknown.
    pub(crate) fn new(total: Option<u64>, quiet: bool) -> Progress {
        let bar = total.map_or_else(ProgressBar::no_length, ProgressBar::new);
        bar.set_draw_target(ProgressDrawTarget::hidden());
        let template = if total.is_some() {
            "{elapsed_precise} {bar:24.cyan/dim} {percent:>3} %{to_go}  {msg}"
        } else {
            "{elapsed_precise} {spinner} {msg}"
        };
        let style = ProgressStyle::with_template(template).expect("the template is constant and valid");
        bar.set_style(style.with_key("to_go", to_go));
        let grows_to = Arc::new(AtomicU64::new(0));
        let shown = (!quiet && io::stderr().is_terminal()).then(|| {
            let (end, ended) = mpsc::channel();
            let (bar, grows_to) = (bar.clone(), Arc::clone(&grows_to));
            (end, thread::spawn(move || show(&bar, &grows_to, &ended)))
        });
        Progress { bar, grows_to, shown }
    }

    /// Changes the total of a bar that has one.
    pub(crate) fn set_total(&mut self, total: u64) {
        if self.shown.is_some() && self.bar.length().is_some_and(|length| length != total) {
            self.bar.set_length(total);
        }
    }

    /// Sets the progress of a bar whose steps are milliseconds to `done`. From there it grows with time to `until`, at
    /// most: for parts of the work of which nothing but the duration is known before they end.
    ///
    /// # Errors
    /// [`Interrupted`] after Ctrl-C.
    pub(crate) fn set_growing(
        &mut self,
        done: u64,
        until: u64,
        message: impl FnOnce() -> String,
    ) -> Result<(), Interrupted> {
        self.grows_to.store(0, Ordering::Relaxed);
        self.set(done, message)?;
        self.grows_to.store(until, Ordering::Relaxed);
        Ok(())
    }

    /// Sets the progress of a bar of bytes.
    pub(crate) fn set_bytes(&self, done: u64) {
        if self.shown.is_some() {
            self.bar.set_position(done);
            self.bar.set_message(HumanBytes(done).to_string());
        }
    }

    /// Sets the progress to `done` of the total, with a message.
    ///
    /// # Errors
    /// [`Interrupted`] after Ctrl-C.
    pub(crate) fn set(&mut self, done: u64, message: impl FnOnce() -> String) -> Result<(), Interrupted> {
        go_on()?;
        if self.shown.is_some() {
            self.bar.set_position(done);
            self.bar.set_message(message());
        }
        Ok(())
    }
}

/// Writes the estimated remaining time, if it is known.
fn to_go(state: &ProgressState, text: &mut dyn fmt::Write) {
    if state.pos() > 0 {
        // Writing to the bar's text cannot fail.
        let _ = write!(text, ", {:#} remaining", HumanDuration(state.eta()));
    }
}

/// Shows `bar` after the silent time, until it has `ended`; it grows by itself to `grows_to`.
fn show(bar: &ProgressBar, grows_to: &AtomicU64, ended: &mpsc::Receiver<()>) {
    let mut wait = SILENT_TIME;
    while ended.recv_timeout(wait) == Err(mpsc::RecvTimeoutError::Timeout) {
        let left = grows_to.load(Ordering::Relaxed).saturating_sub(bar.position());
        bar.inc(left.min(wait.as_millis() as u64));
        if wait == SILENT_TIME {
            bar.set_draw_target(ProgressDrawTarget::stderr());
            *on_screen() = Some(bar.clone());
        }
        wait = TICK_PERIOD;
        bar.tick();
    }
    *on_screen() = None;
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.shown.take() {
            drop(end);
            // A failure to draw the bar does not fail the run.
            let _ = thread.join();
        }
        self.bar.finish_and_clear();
    }
}
