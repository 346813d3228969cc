//! Progress of long runs, on stderr when that is a terminal, from the second second on.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Shorter runs show nothing.
const SILENT: Duration = Duration::from_secs(1);

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
    pub(crate) fn set(&mut self, done: u64, message: impl FnOnce() -> String) {
        if self.quiet || !self.shown && self.begun.elapsed() < SILENT {
            return;
        }
        if !self.shown {
            self.shown = true;
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.set_position(done);
        self.bar.set_message(message());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
