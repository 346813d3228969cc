//! Encoding with little memory: a group whose encoding does not fit waits for the groups of earlier parts, which leave the
//! memory when they are appended, and is then halved until it fits.
//!
//! In tables of many columns the metadata of a group of a single row is large too. Groups of later parts leave as much
//! memory as the current part needs for one.

use std::sync::PoisonError;

use arrow_array::RecordBatch;

use super::Sink;
use crate::Error;
use crate::output::Encoder;

/// The smallest group takes at most this many times the bytes of its metadata: in tables of many columns, the buffers of
/// one row are no larger.
const GROUP_MIN_PARTS: usize = 2;

impl Sink {
    /// Encodes rows and puts them into the result, in as many groups as the memory needs.
    ///
    /// # Errors
    /// [`Error::Memory`] if a single row does not fit.
    pub(super) fn deliver(&self, index: Option<usize>, batches: Vec<RecordBatch>) -> Result<(), Error> {
        if self.leaves_room() && self.try_deliver(index, &batches)?.is_none() {
            return Ok(());
        }
        self.await_turn(index)?;
        if let Some(encoder) = &self.encoder {
            encoder.release();
        }
        loop {
            let Some(refused) = self.try_deliver(index, &batches)? else { return Ok(()) };
            if rows(&batches) > 1 {
                let [first, second] = halves(batches);
                self.deliver(index, first)?;
                return self.deliver(index, second);
            }
            // Threads without an order append their groups at once; others wait for this one.
            if index.is_some() || !self.await_append()? {
                return Err(refused);
            }
        }
    }

    /// Encodes rows and puts them into the result; returns the error if the memory is not enough to encode them.
    fn try_deliver(&self, index: Option<usize>, batches: &[RecordBatch]) -> Result<Option<Error>, Error> {
        self.lock().encoding += 1;
        let outcome = match self.group(batches.to_vec()) {
            Ok(group) => self.put(index, group).map(|()| None),
            Err(error @ Error::Memory { .. }) => Ok(Some(error)),
            Err(error) => Err(error),
        };
        self.lock().encoding -= 1;
        self.changed.notify_all();
        outcome
    }

    /// Waits until another thread has appended the group that it encodes now; returns false if none does.
    fn await_append(&self) -> Result<bool, Error> {
        let mut state = self.lock();
        let appended = state.appended;
        while state.encoding > 0 && state.appended == appended {
            if state.failed {
                return Err(Error::Cancelled);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(state.appended > appended)
    }

    /// Returns whether the current part can encode a group, even if all threads encode one of later parts now.
    fn leaves_room(&self) -> bool {
        let metadata_bytes = self.encoder.as_ref().map_or(0, Encoder::group_metadata_bytes);
        let groups = self.job.options().threads.max(1) + 1;
        self.job.available() >= metadata_bytes.saturating_mul(GROUP_MIN_PARTS * groups)
    }

    /// Waits until all earlier parts are finished. Their threads need nothing of this one.
    fn await_turn(&self, index: Option<usize>) -> Result<(), Error> {
        let Some(index) = index else { return Ok(()) };
        let mut state = self.lock();
        while state.current != index {
            if state.failed {
                return Err(Error::Cancelled);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }
}

fn rows(batches: &[RecordBatch]) -> usize {
    batches.iter().map(RecordBatch::num_rows).sum()
}

/// Splits rows in the middle.
fn halves(batches: Vec<RecordBatch>) -> [Vec<RecordBatch>; 2] {
    let mut left = rows(&batches) / 2;
    let [mut first, mut second] = [Vec::new(), Vec::new()];
    for batch in batches {
        let count = left.min(batch.num_rows());
        left -= count;
        if count > 0 {
            first.push(batch.slice(0, count));
        }
        if count < batch.num_rows() {
            second.push(batch.slice(count, batch.num_rows() - count));
        }
    }
    [first, second]
}
