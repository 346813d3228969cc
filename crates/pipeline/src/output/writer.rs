//! A buffer of encoded rows, and the thread that writes it.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use arrow_schema::SchemaRef;
use sakiyomi_io::{AtomicFile, partial_path};
use sakiyomi_stream::Wakeup;

use super::encode::Encoder;
use super::saved::{Continuity, Extent, SavedOutput};
use super::target::Open;
use super::tracked::TrackedFile;
use crate::Error;
use crate::control::Control;
use crate::input::Named;
use crate::row::Row;
use crate::spec::{OutputFormat, Target};

/// Bytes that are written at once without waiting for more.
const WRITE_BYTES: usize = 256 << 10;

/// Bytes that an output holds before it pauses the sources: some writes ahead of a slow reader.
const HELD_MAX_BYTES: usize = 4 << 20;

/// Time for which rows gather after a write: a wake-up costs the worker 10 µs, of which a thousand a second are 1 %.
const GATHER_TIME: Duration = Duration::from_millis(1);

/// The rows' end of an output, of a sink or step.
#[derive(Clone)]
pub(crate) struct Output {
    /// None if nothing is to be written.
    shared: Option<Arc<Shared>>,
    /// The extent that it wrote, if it had ended before the pipeline was resumed.
    ended: Option<Extent>,
}

/// The other end of an output, which outlives the stream.
pub(crate) struct Writer {
    named: Named,
    thread: Ending,
}

/// The source of the file that is still to appear, if there is one.
enum Ending {
    Thread(JoinHandle<Option<AtomicFile>>),
    /// It had ended before the pipeline was resumed.
    Before(Option<AtomicFile>),
}

struct Shared {
    /// The file, if its length tells what was written.
    file: Option<File>,
    /// A reader that closes its end has what it wanted, as `head`. Not one of a socket; nor one of a pipeline with snapshots,
    /// which is to be resumed with the rows that were not written.
    may_close: bool,
    state: Mutex<State>,
    changed: Condvar,
    /// A write has ended.
    written: Condvar,
    control: Arc<Control>,
}

struct State {
    encoder: Encoder,
    /// The thread waits for a first row.
    is_idle: bool,
    /// Nothing will be added.
    is_ended: bool,
    /// Nothing is missing so far.
    is_whole: bool,
    /// The output has failed or has been closed: rows are dropped.
    is_closed: bool,
    /// The sources pause for this output.
    is_full: bool,
    /// The thread is writing what it has taken.
    is_writing: bool,
    /// An operator waits until all is written: the thread gathers nothing.
    is_flushing: bool,
    /// The file is in the state in which writing begins.
    is_prepared: bool,
    /// The written extent of the file after the last write.
    extent: Option<Extent>,
    /// Rows that were added.
    added_rows: u64,
    /// The first of them that have been given to the system.
    written_rows: u64,
    /// Wakes the operator that passes rows on when they are written.
    wakeup: Option<Wakeup>,
}

impl State {
    /// Returns whether the thread has something to do.
    fn is_due(&self) -> bool {
        self.encoder.held_bytes() > 0 || self.is_ended || (self.is_flushing && !self.is_prepared)
    }

    /// Returns whether everything that it was given has been given to the system.
    fn is_settled(&self) -> bool {
        let is_done = self.is_prepared && !self.is_ended && !self.is_writing;
        self.is_closed || (is_done && self.encoder.held_bytes() == 0)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_full(&self, state: &mut State, is_full: bool) {
        if state.is_full != is_full {
            state.is_full = is_full;
            self.control.set_full(is_full);
        }
    }
}

impl Output {
    /// Opens a target and starts its thread; no thread if nothing is to be written.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub(crate) fn open(
        target: &Target,
        format: OutputFormat,
        schema: &SchemaRef,
        continuity: Continuity,
        named: &Named,
        control: &Arc<Control>,
        stdout: &mut Option<Box<dyn Write + Send>>,
    ) -> Result<(Output, Option<Writer>), Error> {
        let failed = |source| named.error("open", source);
        if let Continuity::Resumes(saved @ SavedOutput { has_ended: true, .. }) = continuity {
            return Output::ended(target, saved, named).map_err(failed);
        }
        let Some((open, begins)) = Open::new(target, continuity, stdout).map_err(failed)? else {
            return Ok((Output { shared: None, ended: None }, None));
        };
        let encoder = Encoder::new(format, schema, begins);
        let file = open.handle().map_err(failed)?;
        let state = State {
            encoder,
            is_idle: false,
            is_ended: false,
            is_whole: true,
            is_closed: false,
            is_full: false,
            is_writing: false,
            is_flushing: false,
            is_prepared: file.is_none(),
            extent: None,
            added_rows: 0,
            written_rows: 0,
            wakeup: None,
        };
        let may_close = !continuity.is_some() && !matches!(target, Target::Socket(_));
        let control = Arc::clone(control);
        let (state, changed, written) = (Mutex::new(state), Condvar::new(), Condvar::new());
        let shared = Arc::new(Shared { file, may_close, state, changed, written, control });
        let thread = std::thread::Builder::new().name("stream-output".into());
        let thread = thread.spawn({
            let (shared, named) = (Arc::clone(&shared), named.clone());
            move || write_all(&shared, open, &named)
        });
        let thread = thread.map_err(failed)?;
        let writer = Writer { named: named.clone(), thread: Ending::Thread(thread) };
        Ok((Output { shared: Some(shared), ended: None }, Some(writer)))
    }

    /// Returns an output all of whose rows had been written at the snapshot. Its file may have appeared since.
    fn ended(target: &Target, saved: SavedOutput, named: &Named) -> io::Result<(Output, Option<Writer>)> {
        let is_partial = |path: &Path| partial_path(path).is_ok_and(|partial| partial.exists());
        let file = match target {
            Target::File { path, append: false } if is_partial(path) => {
                match TrackedFile::partial(path, Continuity::Resumes(saved))? {
                    Some((file, _)) => file.finish()?,
                    None => None,
                }
            }
            _ => None,
        };
        let writer = Writer { named: named.clone(), thread: Ending::Before(file) };
        Ok((Output { shared: None, ended: saved.extent }, Some(writer)))
    }

    /// Adds a row. Does not wait for the output.
    #[inline]
    pub(crate) fn push(&self, row: &Row) {
        let Some(shared) = &self.shared else { return };
        let mut state = shared.lock();
        if state.is_closed {
            return;
        }
        let before = state.encoder.held_bytes();
        state.added_rows += 1;
        state.encoder.push(row);
        let held = state.encoder.held_bytes();
        if held >= HELD_MAX_BYTES {
            shared.set_full(&mut state, true);
        }
        let is_woken = state.is_idle || (before < WRITE_BYTES && held >= WRITE_BYTES);
        if is_woken {
            state.is_idle = false;
            drop(state);
            shared.changed.notify_one();
        }
    }

    /// Waits until all rows have been given to the system, or the output is closed.
    pub(crate) fn flush(&self) {
        let Some(shared) = &self.shared else { return };
        let mut state = shared.lock();
        while !state.is_settled() {
            state.is_flushing = true;
            shared.changed.notify_all();
            state = shared.written.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until all rows have been given to the system, and appends the state for a snapshot to `out`.
    pub(crate) fn save(&self, has_ended: bool, out: &mut Vec<u8>) {
        self.flush();
        SavedOutput { extent: self.extent(), has_ended }.save(out);
    }

    /// Returns the extent that it wrote; `None` if other outputs write to the file as well.
    fn extent(&self) -> Option<Extent> {
        let Some(shared) = &self.shared else { return self.ended };
        let extent = shared.lock().extent?;
        let found = shared.file.as_ref()?.metadata().ok()?.len();
        (found == extent.length).then_some(extent)
    }

    /// Makes what was written durable, of a file that can be continued.
    ///
    /// # Errors
    /// If the system cannot write it.
    pub(crate) fn sync(&self) -> io::Result<()> {
        let file = self.shared.as_ref().and_then(|shared| shared.file.as_ref());
        file.map_or(Ok(()), File::sync_data)
    }

    /// Wakes an operator by `wakeup` whenever rows have been written, and when the output is closed.
    pub(crate) fn wake_when_written(&self, wakeup: Wakeup) {
        if let Some(shared) = &self.shared {
            shared.lock().wakeup = Some(wakeup);
        }
    }

    /// Returns the number of rows that have been given to the system, the first that were added; and whether the
    /// output is closed, so that no more will be.
    pub(crate) fn written_rows(&self) -> (u64, bool) {
        let Some(shared) = &self.shared else { return (u64::MAX, true) };
        let state = shared.lock();
        (state.written_rows, state.is_closed)
    }

    /// Ends the gathering of rows: those that are held are written now.
    pub(crate) fn hurry(&self) {
        if let Some(shared) = &self.shared {
            shared.lock().is_flushing = true;
            shared.changed.notify_all();
        }
    }

    /// Nothing will be added. `is_whole` says that nothing is missing.
    pub(crate) fn end(&self, is_whole: bool) {
        if let Some(shared) = &self.shared {
            let mut state = shared.lock();
            state.is_ended = true;
            state.is_whole &= is_whole;
            drop(state);
            shared.changed.notify_one();
        }
    }
}

impl Writer {
    /// Waits until everything is written. The file that is still to appear, if there is one and it is whole.
    pub(crate) fn join(self) -> Option<Unpublished> {
        let file = match self.thread {
            // A panic was printed; the output is then incomplete.
            Ending::Thread(thread) => thread.join().ok().flatten(),
            Ending::Before(file) => file,
        };
        file.map(|file| Unpublished { named: self.named, file })
    }
}

/// A whole file that has not appeared under its name yet.
pub(crate) struct Unpublished {
    named: Named,
    file: AtomicFile,
}

impl Unpublished {
    /// Puts it under its name.
    ///
    /// # Errors
    /// If the system cannot do that.
    pub(crate) fn publish(self) -> Result<(), Error> {
        let Unpublished { named, file } = self;
        file.commit().map_err(|source| named.error("write", source))
    }
}

/// The loop of the thread. The file that is still to appear.
fn write_all(shared: &Shared, mut open: Open, named: &Named) -> Option<AtomicFile> {
    let result = write_until_end(shared, &mut open);
    let is_whole = shared.lock().is_whole && !shared.control.has_failed();
    let file = match result.and_then(|()| open.finish(is_whole)) {
        Ok(file) => file,
        Err(error) => {
            // Before an operator that waits continues: a snapshot without these rows is void.
            match error.kind() {
                ErrorKind::BrokenPipe if shared.may_close => shared.control.stop(),
                _ => shared.control.fail(named.error("write", error)),
            }
            None
        }
    };
    let mut state = shared.lock();
    state.is_closed = true;
    shared.written.notify_all();
    shared.set_full(&mut state, false);
    state.wakeup.iter().for_each(Wakeup::notify);
    file
}

fn write_until_end(shared: &Shared, open: &mut Open) -> io::Result<()> {
    let mut bytes = Vec::new();
    let mut state = shared.lock();
    loop {
        while !state.is_due() {
            state.is_idle = true;
            state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.is_idle = false;
        let (is_end, rows) = (state.is_ended, state.added_rows);
        if is_end && !state.is_whole && !state.is_prepared {
            // The stream did not start: the file stays as it is.
            return Ok(());
        }
        bytes.clear();
        state.encoder.take(&mut bytes, is_end)?;
        shared.set_full(&mut state, false);
        (state.is_writing, state.is_flushing) = (true, false);
        drop(state);
        open.prepare()?;
        open.write(&bytes)?;
        state = shared.lock();
        (state.is_writing, state.is_prepared, state.extent) = (false, true, open.extent());
        if is_end {
            return Ok(());
        }
        state.written_rows = rows;
        shared.written.notify_all();
        state.wakeup.iter().for_each(Wakeup::notify);
        if state.encoder.held_bytes() < WRITE_BYTES && !state.is_ended && !state.is_flushing {
            let gathered = shared.changed.wait_timeout(state, GATHER_TIME);
            state = gathered.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
