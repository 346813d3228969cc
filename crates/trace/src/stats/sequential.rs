//! Counts of commands that begin where an earlier one ended.

use std::collections::BTreeMap;

use sakiyomi_model::{Bytes, Op};

use crate::record::Record;

/// Number of recent command ends remembered, over all devices.
const RECENT_ENDS: usize = 32;
/// Maximum number of devices whose last ends are remembered. Commands to further devices count as not sequential.
const DEVICES_MAX: usize = 1 << 16;

type Place = (u32, Op, Bytes);

#[derive(Debug, Default)]
pub(super) struct Sequential {
    last_ends: BTreeMap<(u32, Op), Bytes>,
    last_hits: u64,
    /// Ends of recent streams, a ring buffer; `oldest` is replaced next.
    recent: Vec<Place>,
    oldest: usize,
    stream_hits: u64,
}

impl Sequential {
    pub(super) fn observe(&mut self, record: &Record) {
        let key = (record.device, record.op);
        let has_room = self.last_ends.len() < DEVICES_MAX;
        match self.last_ends.get_mut(&key) {
            Some(last) => {
                self.last_hits += u64::from(*last == record.offset);
                *last = record.end();
            }
            None if has_room => {
                self.last_ends.insert(key, record.end());
            }
            None => {}
        }
        self.observe_streams((record.device, record.op, record.offset), record.end());
    }

    fn observe_streams(&mut self, start: Place, end: Bytes) {
        let next = (start.0, start.1, end);
        if let Some(stream) = self.recent.iter_mut().find(|recent| **recent == start) {
            self.stream_hits += 1;
            *stream = next;
        } else if self.recent.len() < RECENT_ENDS {
            self.recent.push(next);
        } else {
            self.recent[self.oldest] = next;
            self.oldest = (self.oldest + 1) % RECENT_ENDS;
        }
    }

    /// Returns the number of commands that begin where the last one of the same device and operation ended.
    pub(super) fn last_hits(&self) -> u64 {
        self.last_hits
    }

    /// Returns the number of commands that begin where any recent stream of the same device and operation ended.
    pub(super) fn stream_hits(&self) -> u64 {
        self.stream_hits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{Pattern, Workload};

    #[test]
    fn interleaving_hides_streams_from_the_last_end_only() {
        let pattern = Pattern::Interleaved { streams: 4 };
        let workload = Workload { pattern, ..Workload::new(400, Bytes(1 << 30)) };
        let mut sequential = Sequential::default();
        workload.records(0).unwrap().for_each(|record| sequential.observe(&record));
        assert_eq!((sequential.last_hits(), sequential.stream_hits()), (0, 396));
    }
}
