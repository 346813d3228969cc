//! Rows that are written and pass.

use std::collections::VecDeque;

use sakiyomi_stream::{
    AsyncOperator, Decode, Emitter, Encode, Frame, Operator, Recover, SaveState, StateError, Wakeup,
    async_operator_state,
};

use crate::output::{Output, SavedOutput};
use crate::row::Row;

/// Gives its rows to an output and passes them on.
pub(crate) struct Append {
    output: Output,
    is_ended: bool,
}

impl Append {
    pub(crate) fn new(output: Output) -> Append {
        Append { output, is_ended: false }
    }
}

impl Recover for Append {
    fn state(&mut self) -> Option<&mut dyn SaveState> {
        Some(self)
    }
}

impl SaveState for Append {
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

impl Operator for Append {
    type In = Row;
    type Out = Row;

    fn process(&mut self, row: Row, out: &mut Emitter<Row>) {
        self.output.push(&row);
        out.emit(row);
    }

    fn end(&mut self, _: &mut Emitter<Row>) {
        self.is_ended = true;
        self.output.end(true);
    }
}

/// Discards the output of a stream that was dropped before its end, as sinks do.
impl Drop for Append {
    fn drop(&mut self) {
        if !self.is_ended {
            self.output.end(false);
        }
    }
}

/// Gives its rows to an output and passes them on when they have been written. Those in flight at a snapshot are part of
/// it. They are written before it is complete, and a pipeline that resumes passes them on without writing them again.
pub(crate) struct AppendWritten {
    output: Output,
    wakeup: Wakeup,
    in_flight_max: usize,
    /// Tickets of the rows that are not written, in the order in which they were added; and the number of the first one.
    tickets: VecDeque<u64>,
    first: u64,
    /// Rows that were submitted and have not been passed on.
    in_flight: u64,
    /// The next rows that are submitted, which were written before a snapshot.
    written_before: u64,
    is_ended: bool,
}

/// Layout of its state: the number of rows in flight, and the state of the output.
const WRITTEN_FRAME: Frame = Frame { kind: "an append that passes written rows", version: 1 };

impl AppendWritten {
    pub(crate) fn new(output: Output, in_flight_max: usize) -> AppendWritten {
        let wakeup = Wakeup::new();
        output.wake_when_written(wakeup.clone());
        let tickets = VecDeque::new();
        let (first, in_flight, written_before) = (0, 0, 0);
        AppendWritten {
            output,
            wakeup,
            in_flight_max,
            tickets,
            first,
            in_flight,
            written_before,
            is_ended: false,
        }
    }

    /// Returns the state of the output in a snapshot of this operator with the rows in flight.
    ///
    /// # Errors
    /// If the bytes are damaged, or those of something else.
    pub(crate) fn saved_output_in_flight(bytes: &[u8]) -> Result<SavedOutput, StateError> {
        AppendWritten::saved_output(&async_operator_state::<Row>(bytes)?.unwrap_or_default())
    }

    /// Returns the state of the output in the saved state of this operator.
    fn saved_output(bytes: &[u8]) -> Result<SavedOutput, StateError> {
        let (_, output): (u64, Vec<u8>) = WRITTEN_FRAME.load(bytes, Decode::decode)?;
        SavedOutput::load(&output)
    }
}

impl Recover for AppendWritten {
    fn state(&mut self) -> Option<&mut dyn SaveState> {
        Some(self)
    }
}

impl SaveState for AppendWritten {
    fn save(&self, out: &mut Vec<u8>) {
        let mut output = Vec::new();
        self.output.save(self.is_ended, &mut output);
        WRITTEN_FRAME.save(out, |body| (self.in_flight, output.clone()).encode(body));
    }

    /// The output has been opened for this state.
    fn load(&mut self, bytes: &[u8]) -> Result<(), StateError> {
        self.is_ended = AppendWritten::saved_output(bytes)?.has_ended;
        let (in_flight, _): (u64, Vec<u8>) = WRITTEN_FRAME.load(bytes, Decode::decode)?;
        self.written_before = in_flight;
        Ok(())
    }
}

impl AsyncOperator for AppendWritten {
    type In = Row;
    type Out = Row;
    /// Whether the row was written.
    type Reply = bool;

    fn in_flight_max(&self) -> usize {
        self.in_flight_max
    }

    fn wakeup(&self) -> Wakeup {
        self.wakeup.clone()
    }

    fn submit(&mut self, ticket: u64, row: &Row) -> Option<bool> {
        self.in_flight += 1;
        if self.written_before > 0 {
            self.written_before -= 1;
            return Some(true);
        }
        self.tickets.push_back(ticket);
        self.output.push(row);
        if self.tickets.len() == self.in_flight_max {
            self.output.hurry();
        }
        None
    }

    fn poll(&mut self, replies: &mut Vec<(u64, bool)>) {
        let (written, is_closed) = self.output.written_rows();
        while let Some(&ticket) = self.tickets.front()
            && (self.first < written || is_closed)
        {
            replies.push((ticket, self.first < written));
            self.tickets.pop_front();
            self.first += 1;
        }
    }

    fn complete(&mut self, row: Row, is_written: bool, out: &mut Emitter<Row>) {
        self.in_flight -= 1;
        if is_written {
            out.emit(row);
        }
    }

    fn end(&mut self, _: &mut Emitter<Row>) {
        self.is_ended = true;
        self.output.end(true);
    }
}

impl Drop for AppendWritten {
    fn drop(&mut self) {
        if !self.is_ended {
            self.output.end(false);
        }
    }
}
