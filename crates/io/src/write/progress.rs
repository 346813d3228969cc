//! Progress of a write: the next step after the outcome of a call.

use std::io;

use crate::engine::{Completion, Op, OpKind, Payload};

/// Calls in a row that may be interrupted although nothing is wrong.
const INTERRUPTIONS_MAX: u32 = 1000;
/// Calls in a row that may transfer less than a unit of the alignment.
const FRUITLESS_MAX: u32 = 8;

/// What follows from a completion.
pub(crate) enum Settled {
    /// It is that of the operation. If it is of a write, its memory has been released.
    Final(Completion),
    /// Bytes are missing: the operation is to be submitted again.
    Continues(Op),
}

/// Takes the completion of a call. A completed write releases its memory here, so that others can have it although its
/// stream has not looked at the completion.
pub(crate) fn settle(completion: Completion) -> Settled {
    if completion.op.kind != OpKind::Write {
        return Settled::Final(completion);
    }
    let Completion { mut op, result, service } = completion;
    op.earlier.count += 1;
    op.earlier.service += service;
    match after_call(&mut op, result) {
        None => Settled::Continues(op),
        Some(result) => {
            op.payload = Payload::Nothing;
            Settled::Final(Completion { op, result, service })
        }
    }
}

/// The final result, if the write does not go on.
fn after_call(op: &mut Op, result: io::Result<usize>) -> Option<io::Result<usize>> {
    match result {
        Err(error) if is_interruption(&error) && op.earlier.fruitless < INTERRUPTIONS_MAX => {
            op.earlier.fruitless += 1;
            None
        }
        Err(error) => Some(Err(error)),
        Ok(_) if op.done >= op.length => Some(Ok(op.length)),
        Ok(count) => {
            // Direct transfers continue at a multiple of the alignment; the bytes after it are written again.
            let alignment = op.file.alignment().offset;
            op.done -= op.done % alignment;
            if count >= alignment {
                op.earlier.fruitless = 0;
            } else if op.earlier.fruitless < FRUITLESS_MAX {
                op.earlier.fruitless += 1;
            } else {
                return Some(Err(io::ErrorKind::WriteZero.into()));
            }
            None
        }
    }
}

/// Interrupted by a signal, or asked to come back: nothing is wrong with the file.
pub(crate) fn is_interruption(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN))
}
