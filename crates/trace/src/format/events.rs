//! Formats of one event of a request per line: put in order of time, and paired to commands.

use sakiyomi_model::Nanos;

use crate::block::{Arrival, BlockEvent, BlockRequests, BlockStage};
use crate::field::Problem;
use crate::options::ReadOptions;
use crate::order::{HELD_RECORDS_MAX, Late, Reorder};
use crate::record::Record;

/// Events after which a trace in which nothing was queued is taken to be without such events.
const UNDECIDED_EVENTS_MAX: usize = 4096;

/// Commands from events.
pub(super) struct Events {
    window: Nanos,
    order: Reorder<BlockEvent>,
    /// Events held until it is known whether the trace reports bios.
    undecided: Vec<BlockEvent>,
    requests: Option<BlockRequests>,
}

impl Events {
    /// Creates it for the event that stands for a command; `None` if commands of that event are not paired.
    ///
    /// Where nothing is queued in the trace, as in one of requests alone, commands arrive when they are inserted.
    pub(super) fn new(options: &ReadOptions) -> Option<Events> {
        let requests = match options.action {
            b'Q' => None,
            b'I' => Some(BlockRequests::new(Arrival::Inserted)),
            b'D' => Some(BlockRequests::new(Arrival::Issued)),
            _ => return None,
        };
        let window = options.sort_window;
        Some(Events { window, order: Reorder::new(window), undecided: Vec::new(), requests })
    }

    /// Adds the event of the next line; appends the commands of which all is known.
    pub(super) fn push(&mut self, event: BlockEvent, out: &mut Vec<Record>) -> Result<(), Problem> {
        self.order.push(event).map_err(|late| self.late(late))?;
        while let Some(event) = self.order.pop_ready() {
            self.take(event, out);
        }
        Ok(())
    }

    /// Events are missing here.
    pub(super) fn lost(&mut self, out: &mut Vec<Record>) {
        while let Some(event) = self.order.pop() {
            self.take(event, out);
        }
        self.decide(out).lost();
    }

    /// Appends the rest of the commands.
    pub(super) fn finish(&mut self, out: &mut Vec<Record>) {
        while let Some(event) = self.order.pop() {
            self.take(event, out);
        }
        let requests = self.decide(out);
        out.extend(std::iter::from_fn(|| requests.pop_rest()));
    }

    fn take(&mut self, event: BlockEvent, out: &mut Vec<Record>) {
        if let Some(requests) = &mut self.requests {
            requests.event(&event);
            out.extend(std::iter::from_fn(|| requests.pop()));
            return;
        }
        self.undecided.push(event);
        if event.stage == BlockStage::Queued || self.undecided.len() == UNDECIDED_EVENTS_MAX {
            self.decide(out);
        }
    }

    /// Returns the commands, whose arrival is decided by the events so far.
    fn decide(&mut self, out: &mut Vec<Record>) -> &mut BlockRequests {
        let has_queued = self.undecided.iter().any(|event| event.stage == BlockStage::Queued);
        let arrival = if has_queued { Arrival::Queued } else { Arrival::Inserted };
        let requests = self.requests.get_or_insert_with(|| BlockRequests::new(arrival));
        for event in self.undecided.drain(..) {
            requests.event(&event);
        }
        out.extend(std::iter::from_fn(|| requests.pop()));
        requests
    }

    fn late(&self, late: Late) -> Problem {
        match late {
            Late::Window(back) => format!(
                "the event lies {back} before one already read, and events are put in order within {} only; raise \
                 --sort-window to {back} or more, or sort the file by time",
                self.window
            ),
            Late::Full => format!(
                "the event is late by more than the {HELD_RECORDS_MAX} events that can be held for putting them in \
                 order; sort the file by time"
            ),
        }
    }
}
