//! The whole terminal, for a view that is drawn again and again; as it was before when the view ends.

use std::io::{self, IsTerminal, Write};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, kill_current_process_group};
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};
use sakiyomi_report::text::Window;

/// Another screen, no cursor, lines that are cut instead of going on in the next.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";

/// The byte that Ctrl-Z types when it does not stop the program.
const CTRL_Z_BYTE: u8 = 0x1a;

/// Where the terminal does not say how large it is.
const USUAL: Window = Window { columns: 80, rows: 24 };

/// The terminal while a view has it.
pub(crate) struct Screen {
    /// How what is typed was treated before; none if standard input is another file.
    typed: Option<Termios>,
}

impl Screen {
    /// Takes the terminal that standard output is; none if it is none.
    pub(crate) fn open() -> Option<Screen> {
        io::stdout().is_terminal().then(|| {
            let screen = Screen { typed: tcgetattr(io::stdin()).ok() };
            screen.enter();
            screen
        })
    }

    fn enter(&self) {
        if let Some(before) = &self.typed {
            let mut keys = before.clone();
            // Keys arrive one by one and are not shown; Ctrl-Z arrives, too, so that the terminal can be given back first.
            keys.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
            keys.special_codes[SpecialCodeIndex::VSUSP] = 0;
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &keys);
        }
        write(ENTER);
    }

    fn leave(&self) {
        write(LEAVE);
        if let Some(before) = &self.typed {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
    }

    /// How large it is now.
    pub(crate) fn window(&self) -> Window {
        match tcgetwinsize(io::stdout()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
                Window { columns: size.ws_col.into(), rows: size.ws_row.into() }
            }
            _ => USUAL,
        }
    }

    /// Shows these lines, which fit it, and nothing else.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub(crate) fn draw(&self, lines: &[String]) -> io::Result<()> {
        // In one piece, over what is there: so it does not flicker.
        let text = format!("\x1b[H{}\x1b[K\x1b[J", lines.join("\x1b[K\r\n"));
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes()).and_then(|()| out.flush())
    }

    /// Waits so long, or until a key is pressed. Ctrl-Z stops us, with the terminal as it was.
    pub(crate) fn key(&self, patience: Duration) -> Option<u8> {
        let input = io::stdin();
        let key = self.typed.as_ref().and_then(|_| {
            let mut watched = [PollFd::new(&input, PollFlags::IN)];
            let patience = Timespec::try_from(patience).ok();
            // Also when a signal has come, for which nobody should wait.
            let Ok(1..) = poll(&mut watched, patience.as_ref()) else { return Some(None) };
            let mut key = [0];
            matches!(rustix::io::read(&input, &mut key), Ok(1)).then_some(Some(key[0]))
        });
        let Some(key) = key else {
            thread::sleep(patience);
            return None;
        };
        if key == Some(CTRL_Z_BYTE) {
            self.leave();
            let _ = kill_current_process_group(Signal::TSTP);
            self.enter();
        }
        key
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Nobody may be there to see it.
fn write(sequence: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(sequence.as_bytes()).and_then(|()| out.flush());
}
