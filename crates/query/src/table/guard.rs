//! Conversion of decoder panics into errors. The Parquet and Arrow IPC libraries check most of their input, but panic
//! on some damaged files.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::Once;

use crate::Error;

thread_local! {
    /// Whether this thread is decoding, so that its panics become errors.
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Runs `decoding`. A panic becomes an error that names the file, and is not printed.
pub(super) fn decode<T>(path: &Path, decoding: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    silence_guarded_panics();
    let was_guarded = IS_GUARDED.replace(true);
    let outcome = panic::catch_unwind(AssertUnwindSafe(decoding));
    IS_GUARDED.set(was_guarded);
    outcome.unwrap_or_else(|payload| {
        let message = payload.downcast_ref::<String>().map(String::as_str);
        let message = message.or_else(|| payload.downcast_ref::<&str>().copied());
        Err(damaged(path, message.unwrap_or("it cannot be decoded")))
    })
}

/// Returns the error of a damaged file.
pub(super) fn damaged(path: &Path, how: impl std::fmt::Display) -> Error {
    Error::Table { path: path.to_owned(), reason: format!("the file is damaged: {how}") }
}

/// Adds the file's name to the errors of decoders and of checks.
pub(super) fn named(path: &Path) -> impl Fn(Error) -> Error + Copy {
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
