//! The reason of a sleep in a system call.

use sakiyomi_os::system_call::CallKind;

use crate::recording::{FileIndex, Pattern, Wait};

/// The meaning of the descriptor of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A regular file.
    File(FileIndex),
    /// A pipe, a socket, a terminal or the like.
    Other,
    /// It is not known.
    Unknown,
}

/// Returns what a thread waits for that sleeps in such a call.
pub(crate) fn wait_in(call: CallKind, target: Target) -> Wait {
    let file = match target {
        Target::File(file) => Some(file),
        Target::Other | Target::Unknown => None,
    };
    match call {
        CallKind::Read => match file {
            // Past the page cache, or sampled: without its position.
            Some(file) => Wait::Read { file, pattern: Pattern::Sequential },
            None => Wait::Others,
        },
        CallKind::Write if target == Target::Other => Wait::Others,
        CallKind::Write => Wait::Write { file },
        CallKind::Metadata | CallKind::List | CallKind::Close => Wait::Metadata,
        CallKind::Sync => Wait::Sync { file },
        CallKind::Asynchronous => Wait::AsynchronousIo,
        CallKind::Lock | CallKind::Await => Wait::Others,
        CallKind::Sleep => Wait::Timer,
        CallKind::Socket => Wait::Socket,
        CallKind::Duplicate | CallKind::Other => Wait::Unknown,
    }
}
