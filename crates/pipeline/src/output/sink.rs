//! Sinks of rows.

use sakiyomi_stream::{Recover, SaveState, Sink, StateError, Tuple};

use super::{Output, SavedOutput};
use crate::row::Row;

/// Gives its rows to an output.
pub(crate) struct RowSink {
    output: Output,
    is_ended: bool,
}

impl RowSink {
    pub(crate) fn new(output: Output) -> RowSink {
        RowSink { output, is_ended: false }
    }
}

impl Recover for RowSink {
    fn state(&mut self) -> Option<&mut dyn SaveState> {
        Some(self)
    }
}

impl SaveState for RowSink {
    /// Rows before a snapshot are written before it is complete: they do not come again.
    fn save(&self, out: &mut Vec<u8>) {
        self.output.save(self.is_ended, out);
    }

    /// The output has been opened for this state.
    fn load(&mut self, bytes: &[u8]) -> Result<(), StateError> {
        self.is_ended = SavedOutput::load(bytes)?.has_ended;
        Ok(())
    }
}

impl Sink for RowSink {
    type In = Row;

    fn consume(&mut self, tuple: Tuple<Row>) {
        self.output.push(&tuple.value);
    }

    fn end(&mut self) {
        self.is_ended = true;
        self.output.end(true);
    }
}

/// A stream that was dropped does not reach its end: the thread must not wait for it, and no file appears.
impl Drop for RowSink {
    fn drop(&mut self) {
        if !self.is_ended {
            self.output.end(false);
        }
    }
}
