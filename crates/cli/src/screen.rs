//! The whole terminal, for a view that is redrawn repeatedly; restored when the view ends.

use std::io::{self, IsTerminal, Write};
use std::thread;
use std::time::Duration;

use sakiyomi_os::terminal::{Keys, Typed, stop_process_group, window_size};
use sakiyomi_report::text::Window;

/// Switches to the alternate screen, hides the cursor, and turns off line wrapping.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";

/// The byte that Ctrl-Z types when it does not stop the program.
const CTRL_Z_BYTE: u8 = 0x1a;

/// Default size if the terminal does not report it.
const USUAL: Window = Window { columns: 80, rows: 24 };

/// The terminal while a view uses it.
pub(crate) struct Screen {
    /// `None` if standard input is not a terminal.
    keys: Option<Keys>,
}

impl Screen {
    /// Takes over the terminal on standard output; `None` if it is not a terminal.
    pub(crate) fn open() -> Option<Screen> {
        io::stdout().is_terminal().then(|| {
            let screen = Screen { keys: Keys::of_stdin() };
            screen.enter();
            screen
        })
    }

    fn enter(&self) {
        self.keys.iter().for_each(Keys::enter);
        write(ENTER);
    }

    fn leave(&self) {
        write(LEAVE);
        self.keys.iter().for_each(Keys::leave);
    }

    /// Returns its present size.
    pub(crate) fn window(&self) -> Window {
        window_size().map_or(USUAL, |(columns, rows)| Window { columns: columns.into(), rows: rows.into() })
    }

    /// Replaces the content by these lines, which must fit.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub(crate) fn draw(&self, lines: &[String]) -> io::Result<()> {
        // In one write, over the previous content, to avoid flicker.
        let text = format!("\x1b[H{}\x1b[K\x1b[J", lines.join("\x1b[K\r\n"));
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes()).and_then(|()| out.flush())
    }

    /// Waits for `timeout`, or until a key is pressed. Ctrl-Z stops the program, with the terminal restored.
    pub(crate) fn key(&self, timeout: Duration) -> Option<u8> {
        match self.keys.as_ref().map_or(Typed::Closed, |keys| keys.next(timeout)) {
            Typed::Key(CTRL_Z_BYTE) => {
                self.leave();
                stop_process_group();
                self.enter();
                Some(CTRL_Z_BYTE)
            }
            Typed::Key(key) => Some(key),
            Typed::Nothing => None,
            Typed::Closed => {
                thread::sleep(timeout);
                None
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Writes a control sequence. Errors are ignored: the terminal may be gone.
fn write(sequence: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(sequence.as_bytes()).and_then(|()| out.flush());
}
