//! Progress of long runs, on stderr when that is a terminal, from the second second on; and their end by Ctrl-C.

use std::fmt;
use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

/// Shorter runs show no bar.
const SILENT_TIME: Duration = Duration::from_secs(1);
/// Time between two drawings of a bar without progress.
const TICK_PERIOD: Duration = Duration::from_millis(500);

/// The user has pressed Ctrl-C.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// A second Ctrl-C ends the process at once.
static ENDS_AT_SECOND: AtomicBool = AtomicBool::new(false);

/// Exit code of a run that was ended by Ctrl-C.
pub(crate) const INTERRUPTED_EXIT_CODE: u8 = 130;

/// From now on Ctrl-C ends a run at its next look at the progress, so that it can clean up.
pub(crate) fn end_at_ctrl_c() {
    // Where no handler can be set, Ctrl-C does what it always does.
    let _ = ctrlc::set_handler(|| {
        if INTERRUPTED.swap(true, Ordering::Relaxed) && ENDS_AT_SECOND.load(Ordering::Relaxed) {
            std::process::exit(INTERRUPTED_EXIT_CODE.into());
        }
    });
}

/// From now on a second Ctrl-C ends the process at once: for runs whose end may wait for others without a limit.
pub(crate) fn end_at_second_ctrl_c() {
    ENDS_AT_SECOND.store(true, Ordering::Relaxed);
}

/// Whether to go on, for what takes long between two looks at the progress.
///
/// # Errors
/// [`Interrupted`] if the user has had enough.
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

/// A bar that appears only when it has been worth it, and shows that time goes by when nothing else is told.
pub(crate) struct Progress {
    bar: ProgressBar,
    /// Dropped, it ends the thread that shows the bar.
    shown: Option<(mpsc::Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    /// `total` bytes or steps to go, unknown for `None`.
    pub(crate) fn new(total: Option<u64>, quiet: bool) -> Progress {
        let bar = total.map_or_else(ProgressBar::no_length, ProgressBar::new);
        bar.set_draw_target(ProgressDrawTarget::hidden());
        let template = if total.is_some() {
            "{elapsed_precise} {bar:40.cyan/dim} {percent:>3} %{to_go}  {msg}"
        } else {
            "{elapsed_precise} {spinner} {msg}"
        };
        let style = ProgressStyle::with_template(template).expect("the template is constant and valid");
        bar.set_style(style.with_key("to_go", to_go));
        let shown = (!quiet && io::stderr().is_terminal()).then(|| {
            let (end, ended) = mpsc::channel();
            let bar = bar.clone();
            (end, thread::spawn(move || show(&bar, &ended)))
        });
        Progress { bar, shown }
    }

    /// Changes the total of a bar that has one.
    pub(crate) fn set_total(&mut self, total: u64) {
        if self.shown.is_some() && self.bar.length().is_some_and(|length| length != total) {
            self.bar.set_length(total);
        }
    }

    /// `done` of the total; `message` says what was done.
    ///
    /// # Errors
    /// [`Interrupted`] if the user has had enough.
    pub(crate) fn set(&mut self, done: u64, message: impl FnOnce() -> String) -> Result<(), Interrupted> {
        go_on()?;
        if self.shown.is_some() {
            self.bar.set_position(done);
            self.bar.set_message(message());
        }
        Ok(())
    }
}

/// How long it may take, where anything is known about that.
fn to_go(state: &ProgressState, text: &mut dyn fmt::Write) {
    if state.pos() > 0 {
        // The bar's text is a string: nothing fails.
        let _ = write!(text, ", {:#} to go", HumanDuration(state.eta()));
    }
}

/// Shows `bar` when it is time, until it has `ended`.
fn show(bar: &ProgressBar, ended: &mpsc::Receiver<()>) {
    let mut wait = SILENT_TIME;
    while ended.recv_timeout(wait) == Err(mpsc::RecvTimeoutError::Timeout) {
        if wait == SILENT_TIME {
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        wait = TICK_PERIOD;
        bar.tick();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.shown.take() {
            drop(end);
            // That a bar could not be drawn is no failure of the run.
            let _ = thread.join();
        }
        self.bar.finish_and_clear();
    }
}
