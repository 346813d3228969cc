//! Conversion of decoder panics into errors. The Parquet and Arrow IPC libraries check most of their input, but panic
//! on some damaged files.

use std::cell::Cell;
use std::fmt::Display;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::Once;

use crate::Error;

/// Length at which the message of a decoder is cut.
const MESSAGE_MAX_BYTES: usize = 400;

thread_local! {
    /// Whether this thread is decoding, so that its panics become errors.
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Runs `decoding`. A panic becomes an error that names the file, and is not printed.
pub(super) fn catch_panics<T>(path: &Path, decoding: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    silence_guarded_panics();
    let was_guarded = IS_GUARDED.replace(true);
    let outcome = panic::catch_unwind(AssertUnwindSafe(decoding));
    IS_GUARDED.set(was_guarded);
    outcome.unwrap_or_else(|payload| {
        let message = payload.downcast_ref::<String>().map(String::as_str);
        let message = message.or_else(|| payload.downcast_ref::<&str>().copied());
        let message = message.unwrap_or("it cannot be decoded");
        // Assertions have several lines, of which the first says what was wrong.
        Err(damaged(
            path,
            format_args!("decoding it failed ({})", message.lines().next().unwrap_or_default()),
        ))
    })
}

/// Returns the error of a damaged file.
pub(super) fn damaged(path: &Path, how: impl Display) -> Error {
    Error::Table { path: path.to_owned(), reason: format!("the file is damaged: {}", printable(how)) }
}

/// Returns a decoder's message as part of a sentence: it may contain values of the file, of any length and with any
/// characters.
pub(super) fn printable(message: impl Display) -> String {
    let message = message.to_string();
    let mut text = String::new();
    for character in message.chars() {
        if text.len() >= MESSAGE_MAX_BYTES {
            text.push('…');
            break;
        }
        if character.is_control() {
            text.extend(character.escape_default());
        } else {
            text.push(character);
        }
    }
    text
}

/// Adds the file's name to the errors of decoders and of checks.
pub(super) fn name_file(path: &Path) -> impl Fn(Error) -> Error + Copy {
    move |error| match error {
        Error::Arrow(source) => damaged(path, source),
        Error::Parquet(source) => damaged(path, source),
        Error::Query(how) => damaged(path, how),
        other => other,
    }
}

/// Installs the panic hook, once per process. Panics outside of decoding are printed as before.
fn silence_guarded_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !IS_GUARDED.get() {
                before(info);
            }
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_assertion_of_a_decoder_is_one_sentence() {
        let error = catch_panics(Path::new("t"), || -> Result<(), Error> {
            assert_eq!(1, 2, "both");
            Ok(())
        });
        let sentence = "t: the file is damaged: decoding it failed (assertion `left == right` failed: both)";
        assert_eq!(error.unwrap_err().to_string(), sentence);
    }

    #[test]
    fn values_in_messages_are_cut_and_escaped() {
        assert_eq!(printable("value 'a\nb\u{1b}ü'"), "value 'a\\nb\\u{1b}ü'");
        let long = printable("ü".repeat(1000));
        assert!(long.len() <= MESSAGE_MAX_BYTES + 4 && long.ends_with("ü…"), "{}", long.len());
    }
}
