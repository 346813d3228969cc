//! Encoding with little memory: a group whose encoding does not fit waits for the groups of earlier parts, which leave the
//! memory when they are appended, and is then halved until it fits.

use std::sync::PoisonError;

use arrow_array::RecordBatch;

use super::Sink;
use crate::Error;

impl Sink {
    /// Encodes rows and puts them into the result, in as many groups as the memory needs.
    ///
    /// # Errors
    /// [`Error::Memory`] if a single row does not fit.
    pub(super) fn deliver(&self, index: Option<usize>, batches: Vec<RecordBatch>) -> Result<(), Error> {
        match self.group(batches.clone()) {
            Ok(group) => return self.put(index, group),
            Err(Error::Memory { .. }) => {}
            Err(error) => return Err(error),
        }
        self.await_turn(index)?;
        if let Some(encoder) = &self.encoder {
            encoder.release();
        }
        match self.group(batches.clone()) {
            Ok(group) => self.put(index, group),
            Err(Error::Memory { .. }) if rows(&batches) > 1 => {
                let [first, second] = halves(batches);
                self.deliver(index, first)?;
                self.deliver(index, second)
            }
            Err(error) => Err(error),
        }
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
