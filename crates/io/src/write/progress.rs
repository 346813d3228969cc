//! Progress of a write: the next step after the outcome of a call.

use std::io;
use std::mem;

use crate::engine::{Completion, Op, OpKind, Payload};

/// Maximum consecutive calls that are interrupted.
const INTERRUPTIONS_MAX: u32 = 1000;
/// Maximum consecutive calls that transfer less than a unit of the alignment.
const FRUITLESS_MAX: u32 = 8;

/// Returns whether to submit the operation of a completion again, because it is a short write. Any other completion
/// is final. A final write releases its memory here, so that others can have it before its stream processes the
/// completion.
pub(crate) fn continues(completion: &mut Completion) -> bool {
    let Completion { op, result, service } = completion;
    if op.kind != OpKind::Write {
        return false;
    }
    op.earlier.count += 1;
    op.earlier.service_ns += u64::try_from(service.as_nanos()).unwrap_or(u64::MAX);
    let Some(outcome) = after_call(op, mem::replace(result, Ok(0))) else { return true };
    op.payload = Payload::Nothing;
    *result = outcome;
    false
}

/// Returns the final result, or `None` if the write continues.
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

/// Returns whether the call was interrupted by a signal or should be retried: nothing is wrong with the file.
pub(crate) fn is_interruption(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN))
}
