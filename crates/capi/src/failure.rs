//! Errors as C receives them: a negative error number, and a sentence stored for the calling thread.

use std::any::Any;
use std::cell::RefCell;
use std::error::Error;
use std::ffi::{CStr, CString, c_char};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use sakiyomi_iorate::protocol::Refusal;

/// An error number and its description.
pub(crate) struct Failure {
    /// The function returns its negative.
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

    pub(crate) fn no_process(pid: i32) -> Failure {
        Failure { number: libc::ESRCH, text: format!("there is no process {pid}") }
    }

    /// Returns an I/O error that no system call has returned.
    pub(crate) fn of_input(text: impl Into<String>) -> Failure {
        Failure { number: libc::EIO, text: text.into() }
    }

    /// Returns the error of a call that would wait for itself.
    pub(crate) fn deadlock(text: &str) -> Failure {
        Failure { number: libc::EDEADLK, text: text.to_owned() }
    }

    /// Returns the error of an object that another thread is using.
    pub(crate) fn busy(text: &str) -> Failure {
        Failure { number: libc::EBUSY, text: text.to_owned() }
    }

    /// Returns the error of what was cancelled.
    pub(crate) fn cancelled(error: &dyn Error) -> Failure {
        Failure { number: libc::ECANCELED, text: error_chain(error) }
    }

    /// Returns an error whose code, any but 0, is what a function of the caller's returned.
    pub(crate) fn returned(code: i32, error: &dyn Error) -> Failure {
        Failure { number: code.wrapping_neg(), text: error_chain(error) }
    }

    /// Returns an error of a system call if there is one among the causes, otherwise that of an argument.
    pub(crate) fn of_input_or_system(error: &(dyn Error + 'static)) -> Failure {
        let causes = std::iter::successors(Some(error), |&error| error.source());
        let number = causes.filter_map(|cause| cause.downcast_ref::<io::Error>()).map(number_of).next();
        Failure { number: number.unwrap_or(libc::EINVAL), text: error_chain(error) }
    }

    /// Returns an error of a system call; `what` names the operation that failed.
    pub(crate) fn system(what: &str, error: &io::Error) -> Failure {
        Failure { number: number_of(error), text: format!("{what}: {error}") }
    }
}

impl From<sakiyomi_io::Error> for Failure {
    fn from(error: sakiyomi_io::Error) -> Failure {
        let number = match &error {
            sakiyomi_io::Error::NotAFile { what: "a directory", .. } => libc::EISDIR,
            sakiyomi_io::Error::NotAFile { .. } => libc::ESPIPE,
            sakiyomi_io::Error::Open { source, .. } => number_of(source),
            _ => libc::EIO,
        };
        Failure { number, text: error_chain(&error) }
    }
}

impl From<sakiyomi_iorate::Error> for Failure {
    fn from(error: sakiyomi_iorate::Error) -> Failure {
        use sakiyomi_iorate::Error as E;
        let number = match &error {
            E::Open { source, .. } => number_of(source),
            E::NotMounted(_) => libc::ENOTTY,
            E::Refused { why, .. } => number_of_refusal(why),
            // Errors inside the mount, and refusals added by later versions.
            _ => libc::EIO,
        };
        Failure { number, text: error_chain(&error) }
    }
}

fn number_of_refusal(why: &Refusal) -> i32 {
    match why {
        Refusal::NotRegulated => libc::ENOTTY,
        Refusal::Namespace | Refusal::NoProcess { .. } | Refusal::NoGroup { .. } => libc::ESRCH,
        Refusal::NotYours { .. } | Refusal::SetByAnother { .. } => libc::EPERM,
        Refusal::Quota { .. } => libc::EDQUOT,
        Refusal::NoRate { .. } => libc::ENODATA,
        Refusal::BadRate { .. } => libc::EINVAL,
        Refusal::NoRoom { .. } => libc::EBUSY,
        Refusal::TooMany { .. } => libc::ENOSPC,
        Refusal::Version { .. } | Refusal::Malformed { .. } => libc::EPROTO,
    }
}

fn error_chain(error: &dyn Error) -> String {
    error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
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

/// Runs `work` and turns its failure or panic into a negative error number.
pub(crate) fn guarded<T: From<i32>>(work: impl FnOnce() -> Result<T, Failure>) -> T {
    // The only state that outlives a panic is that of readers and prefetched ranges, which stays consistent.
    let result = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(of_panic(&*panic)));
    result.unwrap_or_else(|Failure { number, text }| {
        let text = CString::new(text.replace('\0', "?")).unwrap_or_default();
        LAST.with(|last| *last.borrow_mut() = text);
        // The least number is its own negative.
        T::from(number.wrapping_neg())
    })
}

fn of_panic(panic: &(dyn Any + Send)) -> Failure {
    let why = panic.downcast_ref::<&str>().copied();
    let why = why.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("unknown");
    let text = format!("a bug in sakiyomi ({why}); please report it");
    Failure { number: libc::EIO, text }
}

/// Returns the text of this thread's last error.
pub(crate) fn last() -> *const c_char {
    // The pointer refers to thread-local storage, which is valid until the text is replaced.
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
    fn why_a_rate_was_refused_is_told_by_number_and_sentence() {
        let path = std::path::PathBuf::from("/mnt/disk");
        let no_room =
            Refusal::NoRoom { words: "45 % can".to_owned(), best_percent: Some(45), best_every_ns: None };
        for (why, number, words) in [
            (Refusal::NoProcess { pid: 7 }, libc::ESRCH, "there is no process 7"),
            (Refusal::NotYours { what: "process 7".to_owned() }, libc::EPERM, "belongs to another user"),
            (Refusal::NotRegulated, libc::ENOTTY, "mounted without --regulate"),
            (Refusal::BadRate { asked: "0 %".to_owned() }, libc::EINVAL, "request 1 to 100 %"),
            (no_room, libc::EBUSY, "45 % can"),
        ] {
            let failed: i32 = guarded(|| {
                Err(sakiyomi_iorate::Error::Refused { path: path.clone(), why: why.clone() }.into())
            });
            assert_eq!(failed, -number);
            LAST.with(|last| assert!(last.borrow().to_str().unwrap().contains(words), "{why}"));
        }
    }

    #[test]
    fn a_zero_byte_does_not_cut_a_sentence() {
        let _: i32 = guarded(|| Err(Failure::invalid("in \0 between")));
        LAST.with(|last| assert_eq!(last.borrow().to_str().unwrap(), "in ? between"));
    }
}
