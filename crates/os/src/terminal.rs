//! The terminal of an interactive program: its size, and single key presses.

use std::io;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, kill_current_process_group};
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};

/// Returns columns and rows of the terminal on standard output; `None` if it is not a terminal, or does not report
/// its size.
#[must_use]
pub fn window_size() -> Option<(u16, u16)> {
    let size = tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col, size.ws_row))
}

/// Stops the process group of this process, as Ctrl-Z does; returns when it continues.
pub fn stop_process_group() {
    // On failure the process group simply continues.
    let _ = kill_current_process_group(Signal::TSTP);
}

/// Standard input as single keys: [`enter`](Keys::enter) turns off line editing, echo, and the signal of Ctrl-Z;
/// [`leave`](Keys::leave) restores the previous settings.
#[derive(Debug)]
pub struct Keys {
    before: Termios,
}

/// The result of waiting for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Typed {
    /// A byte was typed.
    Key(u8),
    /// The timeout has passed, or a signal arrived.
    Nothing,
    /// Standard input has ended or cannot be read.
    Closed,
}

impl Keys {
    /// Returns the keys of standard input; `None` if it is not a terminal. Settings are not changed yet.
    #[must_use]
    pub fn of_stdin() -> Option<Keys> {
        tcgetattr(io::stdin()).ok().map(|before| Keys { before })
    }

    /// Turns off line editing, echo, and the signal of Ctrl-Z.
    pub fn enter(&self) {
        let mut single = self.before.clone();
        single.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
        single.special_codes[SpecialCodeIndex::VSUSP] = 0;
        // If the terminal is gone, the next read fails.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &single);
    }

    /// Restores the previous settings.
    pub fn leave(&self) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }

    /// Waits for a key, at most for `timeout`.
    #[must_use]
    pub fn next(&self, timeout: Duration) -> Typed {
        let input = io::stdin();
        let mut watched = [PollFd::new(&input, PollFlags::IN)];
        let timeout = Timespec::try_from(timeout).ok();
        let Ok(1..) = poll(&mut watched, timeout.as_ref()) else { return Typed::Nothing };
        let mut key = [0];
        match rustix::io::read(&input, &mut key) {
            Ok(1) => Typed::Key(key[0]),
            _ => Typed::Closed,
        }
    }
}
