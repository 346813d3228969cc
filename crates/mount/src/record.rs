//! The trace of a mount, written as it happens: it appears under its name when the mount ends.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use sakiyomi_trace::{OutFormat, Record, TraceError, Writer};

/// Accesses that wait to be written at most; answers wait while there are more.
const QUEUE_MAX: usize = 1 << 14;

/// So many accesses may have ended while an older one has not; then it is left behind, out of order.
const HELD_MAX: usize = 1 << 16;

type Entry = (u64, Vec<Record>);

/// Takes accesses down in the order in which they began.
#[derive(Clone, Debug)]
pub(crate) struct Recorder {
    sender: SyncSender<Entry>,
}

/// The thread that writes.
#[derive(Debug)]
pub(crate) struct Recording {
    /// So that the end is known although others still hold the recorder.
    sender: SyncSender<Entry>,
    thread: JoinHandle<Result<u64, TraceError>>,
    failed: Arc<Mutex<Option<String>>>,
}

/// The number that no access has: the end.
const END: u64 = u64::MAX;

impl Recording {
    /// Begins a trace at `path`, in the format of its name.
    pub(crate) fn start(path: &Path) -> Result<(Recorder, Recording), StartError> {
        let writer = Writer::create(path, OutFormat::of_path(path))?;
        let (sender, receiver) = sync_channel(QUEUE_MAX);
        let failed = Arc::new(Mutex::new(None));
        let tell = Arc::clone(&failed);
        let thread = thread::Builder::new().name("recorder".to_owned()).spawn(move || {
            let written = write(writer, &receiver);
            if let Err(error) = &written {
                *tell.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
                // Nobody who answers may wait for a thread that is gone: the channel is emptied to the end.
                receiver.iter().take_while(|&(number, _)| number != END).for_each(drop);
            }
            // Nobody has said that it is whole: the mount did not come about.
            written?.map_or(Ok(0), Writer::finish)
        })?;
        Ok((Recorder { sender: sender.clone() }, Recording { sender, thread, failed }))
    }

    /// Why nothing is written any more.
    pub(crate) fn failure(&self) -> Option<String> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts the trace under its name, and says how many records it has.
    pub(crate) fn finish(self) -> Result<u64, TraceError> {
        // The thread ends with the trace, or has ended already.
        let _ = self.sender.send((END, Vec::new()));
        drop(self.sender);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// Why a trace cannot be begun.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error(transparent)]
    Trace(#[from] TraceError),
    #[error(transparent)]
    Thread(#[from] io::Error),
}

impl Recorder {
    pub(crate) fn record(&self, number: u64, records: Vec<Record>) {
        // It fails only when the trace was ended: the mount is over, and so is the trace.
        let _ = self.sender.send((number, records));
    }
}

/// Writes until the end, and gives the writer back; none if the end never came.
fn write<W: Write + Send>(
    mut writer: Writer<W>,
    receiver: &Receiver<Entry>,
) -> Result<Option<Writer<W>>, TraceError> {
    let mut held = BTreeMap::new();
    let mut next = 0;
    loop {
        let Ok((number, records)) = receiver.recv() else { return Ok(None) };
        if number == END {
            break;
        }
        held.insert(number, records);
        while held.len() > HELD_MAX || held.first_key_value().is_some_and(|(&first, _)| first <= next) {
            let Some((first, records)) = held.pop_first() else { break };
            next = next.max(first + 1);
            records.iter().try_for_each(|record| writer.write(record))?;
        }
    }
    // Accesses that were never answered leave gaps.
    held.values().flatten().try_for_each(|record| writer.write(record))?;
    Ok(Some(writer))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sakiyomi_model::{Bytes, Nanos, Op};
    use sakiyomi_trace::Packing;

    #[test]
    fn accesses_stand_in_the_order_of_their_beginning_and_gaps_are_passed_over() {
        let (sender, receiver) = sync_channel(10);
        // Number 2 was never answered.
        for number in [1, 0, 4, 3, END] {
            let record = Record::new(Nanos(number), Op::Read, Bytes(0), Bytes(512));
            sender.send((number, vec![record])).unwrap();
        }
        let writer = Writer::new(Vec::new(), "memory", OutFormat::Sakiyomi, Packing::Plain).unwrap();
        let text =
            String::from_utf8(write(writer, &receiver).unwrap().unwrap().into_inner().unwrap()).unwrap();
        let times: Vec<&str> = text.lines().skip(1).filter_map(|line| line.split(',').next()).collect();
        assert_eq!(times, ["0", "1", "3", "4"]);
    }

    #[test]
    fn a_trace_that_never_ends_is_not_kept() {
        let path = std::env::temp_dir().join(format!("sakiyomi-unended-{}.csv", std::process::id()));
        let (recorder, recording) = Recording::start(&path).unwrap();
        recorder.record(0, Vec::new());
        let Recording { sender, thread, .. } = recording;
        drop((recorder, sender));
        assert!(thread.join().unwrap().is_ok());
        assert!(!path.exists());
    }
}
