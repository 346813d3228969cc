//! The terminal of a program that draws: its size, and keys as they are typed.

use std::io;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, kill_current_process_group};
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};

/// Columns and rows of the terminal on standard output; `None` if it is not a terminal, or does not report its size.
#[must_use]
pub fn window_size() -> Option<(u16, u16)> {
    let size = tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col, size.ws_row))
}

/// Stops the process group of this process, as Ctrl-Z does; returns when it continues.
pub fn stop_process_group() {
    // If it fails, the caller can do nothing about it: the group simply continues.
    let _ = kill_current_process_group(Signal::TSTP);
}

/// Standard input as single keys: [`enter`](Keys::enter) turns off line editing, echo, and the signal of Ctrl-Z;
/// [`leave`](Keys::leave) restores the settings from before.
#[derive(Debug)]
pub struct Keys {
    before: Termios,
}

/// The reason why a wait for a key ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Typed {
    /// A byte was typed.
    Key(u8),
    /// The time is over, or a signal arrived.
    Nothing,
    /// Standard input has ended or cannot be read.
    Closed,
}

impl Keys {
    /// The keys of standard input; `None` if it is not a terminal. Settings are not changed yet.
    #[must_use]
    pub fn of_stdin() -> Option<Keys> {
        tcgetattr(io::stdin()).ok().map(|before| Keys { before })
    }

    /// Delivers keys one by one.
    pub fn enter(&self) {
        let mut single = self.before.clone();
        single.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
        single.special_codes[SpecialCodeIndex::VSUSP] = 0;
        // A terminal that is gone is found by the next read.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &single);
    }

    /// Restores the settings from before.
    pub fn leave(&self) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }

    /// Waits for a key for `timeout` at most.
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
