//! Progress of long runs, on stderr when that is a terminal, from the second second on; and their end by Ctrl-C.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Shorter runs show nothing.
const SILENT: Duration = Duration::from_secs(1);

/// The user has pressed Ctrl-C.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// From now on Ctrl-C ends a run at its next look at the progress, so that it can clean up.
pub(crate) fn end_at_ctrl_c() {
    // Where no handler can be set, Ctrl-C does what it always does.
    let _ = ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::Relaxed));
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

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("interrupted; nothing was written")
    }
}

impl std::error::Error for Interrupted {}

/// A bar that appears only when it has been worth it.
pub(crate) struct Progress {
    bar: ProgressBar,
    begun: Instant,
    shown: bool,
    quiet: bool,
}

impl Progress {
    /// `total` bytes or steps to go, unknown for `None`.
    pub(crate) fn new(total: Option<u64>, quiet: bool) -> Progress {
        let bar = total.map_or_else(ProgressBar::no_length, ProgressBar::new);
        bar.set_draw_target(ProgressDrawTarget::hidden());
        let template = if total.is_some() {
            "{elapsed_precise} {bar:40.cyan/dim} {percent:>3} %, {eta} to go  {msg}"
        } else {
            "{elapsed_precise} {spinner} {msg}"
        };
        bar.set_style(ProgressStyle::with_template(template).expect("the template is constant and valid"));
        Progress { bar, begun: Instant::now(), shown: false, quiet }
    }

    /// `done` of the total; `message` says what was done.
    ///
    /// # Errors
    /// [`Interrupted`] if the user has had enough.
    pub(crate) fn set(&mut self, done: u64, message: impl FnOnce() -> String) -> Result<(), Interrupted> {
        go_on()?;
        if self.quiet || !self.shown && self.begun.elapsed() < SILENT {
            return Ok(());
        }
        if !self.shown {
            self.shown = true;
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.set_position(done);
        self.bar.set_message(message());
        Ok(())
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
