//! Errors as exceptions: `OSError` with its number where a system call has failed, `sakiyomi.Error` otherwise, both with
//! the sentence that a command prints.

use std::error::Error as StdError;
use std::io;

use pyo3::PyErr;
use pyo3::exceptions::{PyException, PyIsADirectoryError, PyOSError, PyValueError};
use sakiyomi_exec::read;
use sakiyomi_prefetch::ranges;

pyo3::create_exception!(sakiyomi, Error, PyException, "An error that is not one of the system.");

/// Number of the error "is a directory", the same on every architecture of Linux.
const EISDIR: i32 = 21;

/// Makes an exception of an error and its causes.
pub(crate) fn exception(error: &(dyn StdError + 'static)) -> PyErr {
    match causes(error).find_map(number_of) {
        Some(number) => PyOSError::new_err((number, sentence(error))),
        None => Error::new_err(sentence(error)),
    }
}

/// Returns an error and its causes as a sentence.
pub(crate) fn sentence(error: &(dyn StdError + 'static)) -> String {
    causes(error).map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Returns an error and its causes.
fn causes<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

fn number_of(error: &(dyn StdError + 'static)) -> Option<i32> {
    let error = error.downcast_ref::<io::Error>()?;
    // Found without a system call, but it is the system's all the same.
    let directory = (error.kind() == io::ErrorKind::IsADirectory).then_some(EISDIR);
    error.raw_os_error().or(directory)
}

/// Makes an exception of an error of a file.
pub(crate) fn of_file(error: &sakiyomi_io::Error) -> PyErr {
    match error {
        sakiyomi_io::Error::NotAFile { what: "a directory", .. } => {
            PyIsADirectoryError::new_err((EISDIR, error.to_string()))
        }
        _ => exception(error),
    }
}

/// Makes an exception of an error of a blocked read.
pub(crate) fn of_read(error: &read::Error) -> PyErr {
    match error {
        read::Error::Io(error) => of_file(error),
        _ => exception(error),
    }
}

/// Makes an exception of an error of prefetched ranges.
pub(crate) fn of_ranges(error: &ranges::Error) -> PyErr {
    match error {
        ranges::Error::File(error) => of_file(error),
        _ => exception(error),
    }
}

/// The exception of an object that was closed, as files of Python's have it.
pub(crate) fn closed(what: &str) -> PyErr {
    PyValueError::new_err(format!("I/O operation on {what} that was closed"))
}
