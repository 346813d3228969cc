//! Files that are followed by touched pages instead of positions: their identification, and a reading for each stream.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sakiyomi_model::Nanos;
use sakiyomi_os::process::{Identity, Kind, Mapped, process_of};
use sakiyomi_os::tracefs::{Kind as TouchKind, Touch};

use super::handle::{Handle, Place};
use super::positionless::{ApparentActivity, ProgramTotals};
use super::program::{Program, Unseen};
use super::reading::{Member, Reading};
use super::streams::{Stream, StreamId, Streams};
use super::{FILE_MIN_BYTES, Follower};
use crate::{Event, Idle, ReadingId, State};

/// Files whose touches are tracked at a time. Touches of further files are ignored.
const FILES_MAX: usize = 1024;

/// Touches after which a file is identified even if they form no stream.
const TOUCHES_MIN: u64 = 16;

/// Attempts to identify a file that is not found.
const LOOKUPS_MAX: u32 = 10;

/// A position that moved less than this ago may move again.
const MOVE_RECENT_TIME: Nanos = Nanos(100_000_000);

/// A followed mapping that was touched less than this ago explains the waits of its program.
const MAPPING_RECENT_TIME: Nanos = Nanos(500_000_000);

/// Time between two samples of the reads in which threads sleep.
const SAMPLE_PERIOD: Nanos = Nanos(1_000_000);

/// Time between two readings of a program's list of mappings.
const MAPPINGS_POLL_PERIOD: Nanos = Nanos(20_000_000);

/// A process and a file that it touches.
type Key = (u32, u64, u64);

/// State derived from touches.
#[derive(Debug, Default)]
pub(super) struct Traced {
    files: BTreeMap<Key, Touched>,
    /// The process of each thread.
    threads: BTreeMap<u32, u32>,
    /// Time of the last scan of a process's mappings.
    looked: BTreeMap<u32, Nanos>,
    touches: Vec<Touch>,
    /// Time of the next sample of reads.
    sample_at: Nanos,
}

/// A file that is touched.
#[derive(Debug)]
struct Touched {
    streams: Streams,
    touches: u64,
    begun: Nanos,
    what: TracedFile,
    /// Number of failed attempts to identify it.
    tries: u32,
    readings: BTreeMap<StreamId, ReadingId>,
    /// Whether a reading reports it, because a stream was followed or a position moved.
    is_reported: bool,
    /// End of a reading by position, of which touches may still arrive.
    explained: Option<Nanos>,
}

#[derive(Debug)]
enum TracedFile {
    NotYet,
    /// Too small, code, or unreadable.
    LeftAlone,
    File {
        name: String,
        identity: Identity,
        place: Source,
    },
}

/// The place where a file can be opened.
#[derive(Clone, Debug)]
enum Source {
    Open(u32),
    Mapped(Mapped),
}

impl Follower {
    /// Starts tracing if a program appears to read without moving a position, in a file that could be read ahead.
    pub(super) fn consider_tracing(&mut self, number: u32, now: Nanos) -> Option<()> {
        let program = self.programs.get_mut(&number)?;
        if !self.tracer.is_idle(now) || self.tracer.is_refused() && program.unseen == Unseen::Yes {
            return None;
        }
        // Its page tables show what it touches.
        if self.mapped.explains(number, now.saturating_sub(MAPPING_RECENT_TIME)) {
            return None;
        }
        let (spent, moved) = (program.spent(), program.moved);
        if program.signs.waits(spent) || program.faults == 0 {
            program.faults = program.process.all_faults().ok()?;
        }
        let sight = ProgramTotals { at: now, spent, moved, faults: program.faults };
        let (sign, since) = program.signs.see(sight)?;
        let still = |reading: &&Reading| reading.program == number && !reading.has_moved_since(since);
        let found = match sign {
            ApparentActivity::Reads => {
                self.readings.values().any(|reading| still(&reading)) || has_data(program)
            }
            ApparentActivity::Faults => has_data(program),
        };
        if found {
            self.note_unseen(number, sign);
            if sign == ApparentActivity::Reads {
                self.programs.get_mut(&number)?.sampled_reads.get_or_insert_default();
            }
            self.tracer.begin(self.programs.keys().copied().collect(), now);
        }
        Some(())
    }

    /// Records that a program seems to read without moving a position, in case this cannot be followed. A program that
    /// waits and gets no bytes may wait for anything; but if it reads a mapping, its resident part grows.
    fn note_unseen(&mut self, number: u32, sign: ApparentActivity) -> Option<()> {
        /// Growth of the resident part of a program's mappings that shows that it reads one.
        const MAPPED_GROWTH_MIN_BYTES: u64 = 1 << 20;
        let program = self.programs.get_mut(&number)?;
        let mapped = program.process.mapped_file_bytes().ok()?;
        program.unseen = match (sign, program.unseen) {
            (ApparentActivity::Reads, _) | (_, Unseen::Yes) => Unseen::Yes,
            (ApparentActivity::Faults, Unseen::Perhaps { mapped: before })
                if mapped >= before + MAPPED_GROWTH_MIN_BYTES =>
            {
                Unseen::Yes
            }
            (ApparentActivity::Faults, Unseen::Perhaps { mapped: before }) => {
                Unseen::Perhaps { mapped: before }
            }
            (ApparentActivity::Faults, Unseen::No) => Unseen::Perhaps { mapped },
        };
        Some(())
    }

    /// Processes touches.
    pub(super) fn take_touches(&mut self, now: Nanos) {
        let mut touches = std::mem::take(&mut self.traced.touches);
        if self.tracer.is_refused() {
            self.sample_reads(now, &mut touches);
        }
        if self.tracer.take(now, &mut touches) {
            self.traced.files.values_mut().for_each(|file| file.streams.lose());
        }
        let mut strangers = BTreeSet::new();
        let mut changed = BTreeSet::new();
        for touch in touches.drain(..) {
            if !strangers.contains(&touch.thread) {
                match self.program_of(touch.thread) {
                    Some(number) if self.mapped.covers(number, touch.device, touch.inode) => {}
                    Some(number) => changed.extend(self.traced.see(number, &touch, now)),
                    None => drop(strangers.insert(touch.thread)),
                }
            }
        }
        self.traced.touches = touches;
        for key in changed {
            self.follow_streams(key, now);
        }
        let is_useful = self.readings.values().any(|reading| {
            let helps = |state| {
                matches!(
                    state,
                    Some(State::Watching | State::Ahead | State::Probation | State::Idle(Idle::Done))
                )
            };
            reading.stream.is_some() && helps(self.controller.state(reading.id))
        });
        self.tracer.judge(now, is_useful);
    }

    /// Adds the reads of programs that cannot be traced, as far as samples show them.
    fn sample_reads(&mut self, now: Nanos, touches: &mut Vec<Touch>) {
        if now < self.traced.sample_at {
            return;
        }
        self.traced.sample_at = now + SAMPLE_PERIOD;
        for program in self.programs.values_mut().filter(|program| program.sampled_reads.is_some()) {
            program.sample(now);
            for ((device, inode), range) in program.sample_reads() {
                let (time, thread) = (now.0, program.number());
                touches.push(Touch { time, thread, device, inode, range, kind: TouchKind::Read });
            }
        }
    }

    /// Returns when reads are to be sampled; `None` if no program needs it.
    pub(super) fn sample_due(&self) -> Option<Nanos> {
        let is_sampled =
            self.tracer.is_refused() && self.programs.values().any(|program| program.sampled_reads.is_some());
        is_sampled.then_some(self.traced.sample_at)
    }

    fn program_of(&mut self, thread: u32) -> Option<u32> {
        if let Some(&number) = self.traced.threads.get(&thread) {
            return Some(number);
        }
        let number = process_of(thread).filter(|number| self.programs.contains_key(number))?;
        self.traced.threads.insert(thread, number);
        Some(number)
    }

    /// Updates the readings of a file to match its streams.
    fn follow_streams(&mut self, key: Key, now: Nanos) -> Option<()> {
        let file = self.traced.files.get_mut(&key)?;
        let streams = file.streams.streams().to_vec();
        if !streams.is_empty() || file.touches >= TOUCHES_MIN {
            self.find_out(key, now)?;
        }
        let file = self.traced.files.get_mut(&key)?;
        let is_there = |id: &StreamId| streams.iter().any(|stream| stream.id == *id);
        let ended: Vec<ReadingId> =
            file.readings.iter().filter(|(id, _)| !is_there(id)).map(|(_, reading)| *reading).collect();
        file.readings.retain(|id, _| is_there(id));
        ended.into_iter().for_each(|id| self.end(id, now));
        for stream in streams {
            let known = self.traced.files.get(&key)?.readings.get(&stream.id).copied();
            match known.and_then(|id| self.readings.get_mut(&id)) {
                Some(reading) => reading.stream_to(stream.at, stream.end, now),
                None => drop(self.begin_stream(key, &stream, now)),
            }
        }
        Some(())
    }

    fn begin_stream(&mut self, key: Key, stream: &Stream, now: Nanos) -> Option<()> {
        let file = self.traced.files.get(&key)?;
        let TracedFile::File { name, identity, place } = &file.what else { return None };
        let (name, identity, place) = (name.clone(), *identity, place.clone());
        if self.is_explained(key.0, &identity, stream.begun, now) {
            self.traced.files.get_mut(&key)?.is_reported = true;
            return None;
        }
        let process = Arc::clone(&self.programs.get(&key.0)?.shared);
        let place = match place {
            Source::Open(number) => Place::Open(process, number),
            Source::Mapped(mapped) => Place::Mapped(process, mapped),
        };
        let member = Member { identity, handle: Arc::new(Handle::new(place, Some(identity))) };
        let id = self.name_reading();
        let reading = Reading::of_stream(id, key.0, name, member, stream, now);
        let (at, size) = (reading.position, reading.sequence.size());
        self.readings.insert(id, reading);
        let file = self.traced.files.get_mut(&key)?;
        file.readings.insert(stream.id, id);
        file.is_reported = true;
        self.notify(now, Event::Opened { id, at, size });
        Some(())
    }

    /// Returns whether the program reads this file by moving its position. If not, the position is ignored from now
    /// on.
    fn is_explained(&mut self, program: u32, identity: &Identity, since: Nanos, now: Nanos) -> bool {
        let of_it = |reading: &&Reading| {
            reading.program == program && reading.stream.is_none() && reading.current().is_same(identity)
        };
        let same: Vec<ReadingId> = self.readings.values().filter(of_it).map(|reading| reading.id).collect();
        let mut explained = false;
        for id in same {
            self.poll_one(id, now);
            if let Some(reading) = self.readings.get_mut(&id) {
                let moved = reading.has_moved_since(since.min(now.saturating_sub(MOVE_RECENT_TIME)));
                reading.is_traced = !moved;
                explained |= moved;
            }
        }
        // It may have ended at this poll.
        let touched = self.traced.files.get(&(program, identity.device, identity.inode));
        explained || touched.is_some_and(|touched| touched.was_explained(now))
    }

    /// Identifies the file that is touched.
    fn find_out(&mut self, key: Key, now: Nanos) -> Option<()> {
        let (number, device, inode) = key;
        let program = self.programs.get(&number)?;
        let file = self.traced.files.get_mut(&key)?;
        if !matches!(file.what, TracedFile::NotYet) {
            return Some(());
        }
        let found = if let Some((number, identity)) = program.open_as(device, inode) {
            let name = program.process.name_of(number).unwrap_or_default();
            Some((name.display().to_string(), identity, Source::Open(number)))
        } else {
            let looked = self.traced.looked.get(&number);
            if looked.is_some_and(|&at| now.saturating_sub(at) < MAPPINGS_POLL_PERIOD) {
                return None;
            }
            self.traced.looked.insert(number, now);
            let mapped = program.process.mappings().ok()?;
            let of_it = |mapped: &&Mapped| (mapped.device, mapped.inode) == (device, inode);
            let is_code = mapped.iter().filter(of_it).any(|mapped| mapped.is_code);
            let Some(found) = mapped.iter().find(of_it).cloned() else {
                // It may be found next time. If the kernel reports another identity, as for overlays, it is never
                // found.
                file.tries += 1;
                if file.tries == LOOKUPS_MAX {
                    file.what = TracedFile::LeftAlone;
                }
                return None;
            };
            let identity = program.process.identity_mapped(&found).ok().filter(|_| !is_code);
            identity.map(|identity| (found.path.display().to_string(), identity, Source::Mapped(found)))
        };
        let fits = |identity: &Identity| identity.kind == Kind::Regular && identity.size >= FILE_MIN_BYTES;
        file.what = match found {
            Some((name, identity, place)) if fits(&identity) => TracedFile::File { name, identity, place },
            _ => TracedFile::LeftAlone,
        };
        // This explains a position that does not move.
        if let TracedFile::File { identity, .. } = &file.what {
            let (identity, begun) = (*identity, file.begun);
            let is_reported = self.is_explained(number, &identity, begun, now);
            self.traced.files.get_mut(&key)?.is_reported = is_reported;
        }
        Some(())
    }

    /// Reports the scattered touches of a program that has ended.
    pub(super) fn end_touches(&mut self, number: u32) {
        self.traced.threads.retain(|_, process| *process != number);
        self.traced.looked.remove(&number);
        let of_it = (number, 0, 0)..=(number, u64::MAX, u64::MAX);
        let keys: Vec<Key> = self.traced.files.range(of_it).map(|(key, _)| *key).collect();
        for key in keys {
            let Some(file) = self.traced.files.remove(&key) else { continue };
            let TracedFile::File { name, identity, .. } = file.what else { continue };
            if !file.is_reported {
                self.tally.end_scattered(name, &identity, file.streams.touched);
            }
        }
    }
}

impl Traced {
    /// Returns whether a program has touched a file.
    pub(super) fn knows(&self, program: u32) -> bool {
        self.threads.values().any(|&number| number == program)
    }

    /// Records that a reading by position covers this file, so that touches in this time belong to it.
    pub(super) fn set_explained(&mut self, program: u32, file: &Identity, now: Nanos) {
        if let Some(touched) = self.files.get_mut(&(program, file.device, file.inode)) {
            (touched.is_reported, touched.explained) = (true, Some(now));
            touched.streams.keep(|id| touched.readings.contains_key(&id));
        }
    }

    /// Processes a touch; returns the file if it could be read ahead.
    fn see(&mut self, number: u32, touch: &Touch, now: Nanos) -> Option<Key> {
        let key = (number, touch.device, touch.inode);
        if self.files.len() >= FILES_MAX && !self.files.contains_key(&key) {
            return None;
        }
        let file = self.files.entry(key).or_insert_with(|| Touched {
            streams: Streams::new(),
            touches: 0,
            begun: now,
            what: TracedFile::NotYet,
            tries: 0,
            readings: BTreeMap::new(),
            is_reported: false,
            explained: None,
        });
        if matches!(file.what, TracedFile::LeftAlone) || file.was_explained(now) && file.readings.is_empty() {
            return None;
        }
        file.touches += 1;
        file.streams.touch(now, &touch.range);
        Some(key)
    }
}

impl Touched {
    /// Returns whether a reading by position has ended so recently that current touches belong to it.
    fn was_explained(&self, now: Nanos) -> bool {
        self.explained.is_some_and(|at| now.saturating_sub(at) < MOVE_RECENT_TIME)
    }
}

/// Returns whether a program has a large mapping that is not code.
fn has_data(program: &Program) -> bool {
    let mapped = program.process.mappings().unwrap_or_default();
    let is_code = |file: &Mapped| {
        mapped.iter().any(|other| other.is_code && (other.device, other.inode) == (file.device, file.inode))
    };
    mapped.iter().any(|file| file.length >= FILE_MIN_BYTES && !is_code(file))
}
