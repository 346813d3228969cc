//! A program that a command runs transparently: from outside it looks as if it had been run by itself.

use std::process::ExitCode;

use sakiyomi_os::process::command::{StartError, Status, end_by};

use crate::console::print_error;

/// Exit code if this command itself fails, as with `env`, `nice` and `timeout`.
pub(crate) const OWN_FAILURE_CODE: u8 = 125;
/// Exit code if the program cannot be executed.
const NOT_EXECUTABLE_CODE: u8 = 126;
/// Exit code if the program does not exist.
const NOT_FOUND_CODE: u8 = 127;

/// Reports why the program was not run, or not to its end; returns the exit code.
pub(crate) fn failed(error: &anyhow::Error) -> ExitCode {
    print_error(&format!("{error:#}"));
    match error.downcast_ref::<StartError>() {
        Some(StartError::NotFound(_)) => NOT_FOUND_CODE,
        Some(StartError::NotExecutable(..)) => NOT_EXECUTABLE_CODE,
        Some(StartError::Withheld(_)) | None => OWN_FAILURE_CODE,
    }
    .into()
}

/// Exits with the status of the program, after all output was written.
pub(crate) fn end_as(status: Status) -> ExitCode {
    match status {
        // `wait` returns only the low byte as well.
        Status::Code(code) => ExitCode::from(code as u8),
        Status::Signal(signal) => {
            end_by(signal);
            ExitCode::from(128u8.saturating_add(signal as u8))
        }
    }
}

/// Returns the exit code of the program, or the signal that killed it.
pub(crate) fn code_and_signal(status: Option<Status>) -> (Option<i64>, Option<i64>) {
    match status {
        Some(Status::Code(code)) => (Some(code.into()), None),
        Some(Status::Signal(signal)) => (None, Some(signal.into())),
        None => (None, None),
    }
}
