//! What goes wrong, as C wants it: a number, and a sentence that is kept for whoever asks.

use std::any::Any;
use std::cell::RefCell;
use std::error::Error;
use std::ffi::{CStr, CString, c_char};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// An error number and why.
pub(crate) struct Failure {
    number: i32,
    text: String,
}

impl Failure {
    pub(crate) fn invalid(text: impl Into<String>) -> Failure {
        Failure { number: libc::EINVAL, text: text.into() }
    }

    pub(crate) fn null(what: &str) -> Failure {
        Failure::invalid(format!("{what} is a null pointer, which is not allowed here"))
    }

    /// Of a system call; `what` says what was tried.
    pub(crate) fn system(what: &str, error: &io::Error) -> Failure {
        Failure { number: number_of(error), text: format!("{what}: {error}") }
    }
}

impl From<sakiyomi_linux::Error> for Failure {
    fn from(error: sakiyomi_linux::Error) -> Failure {
        let number = match &error {
            sakiyomi_linux::Error::NotAFile { .. } => libc::EISDIR,
            sakiyomi_linux::Error::Open { source, .. } => number_of(source),
            _ => libc::EIO,
        };
        let text = error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}"));
        Failure { number, text }
    }
}

fn number_of(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(match error.kind() {
        io::ErrorKind::InvalidInput => libc::EINVAL,
        io::ErrorKind::IsADirectory => libc::EISDIR,
        _ => libc::EIO,
    })
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Does something whose failure, or panic, becomes a negative error number.
pub(crate) fn guarded<T: From<i32>>(work: impl FnOnce() -> Result<T, Failure>) -> T {
    // Who panics leaves nothing behind but a reader, whose parts stay whole.
    let result = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(of_panic(&*panic)));
    result.unwrap_or_else(|Failure { number, text }| {
        let text = CString::new(text.replace('\0', "?")).unwrap_or_default();
        LAST.with(|last| *last.borrow_mut() = text);
        T::from(-number)
    })
}

fn of_panic(panic: &(dyn Any + Send)) -> Failure {
    let why = panic.downcast_ref::<&str>().copied();
    let why = why.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("unknown");
    let text = format!("a mistake in sakiyomi itself ({why}); please report it");
    Failure { number: libc::EIO, text }
}

/// The last text of this thread.
pub(crate) fn last() -> *const c_char {
    // It lives in the thread's storage until it is replaced.
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(CStr::as_ptr(c""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_does_not_cross_the_boundary() {
        let number: i64 = guarded(|| panic!("an example"));
        assert_eq!(number, -i64::from(libc::EIO));
        LAST.with(|last| assert!(last.borrow().to_str().unwrap().contains("(an example)")));
    }

    #[test]
    fn a_zero_byte_does_not_cut_a_sentence() {
        let _: i32 = guarded(|| Err(Failure::invalid("in \0 between")));
        LAST.with(|last| assert_eq!(last.borrow().to_str().unwrap(), "in ? between"));
    }
}
