//! Discovers what programs read: the processes, their children, and newly opened files.

use std::path::Path;

use sakiyomi_model::Nanos;
use sakiyomi_os::cpu;
use sakiyomi_os::process::Identity;

use super::blocking_job::{BlockingJob, JobRequest};
use super::directories::DirectoryScan;
use super::file_predictor::FilePredictor;
use super::program::Program;
use super::reading::{Reading, Sharer};
use super::set::{SCOPE_PERIOD, Scope};
use super::{FILE_MIN_BYTES, Follower, nanos};
use crate::{Event, ReadingId};

/// Open files of a program that are considered in one poll. The others are found in the next.
const FILES_MAX: usize = 128;

impl Follower {
    /// Polls the programs that are due, within the share of time for polling.
    pub(super) fn discover(&mut self, now: Nanos) {
        if now < self.discover_at {
            return;
        }
        let mut due: Vec<(Nanos, u32)> = self
            .programs
            .values()
            .map(|program| (program.discover_at, program.number()))
            .filter(|&(at, _)| at <= now)
            .collect();
        due.sort_unstable();
        /// Programs that are polled at a time; the others are polled in the next round.
        const PROGRAMS_MAX: usize = 16;
        let (before, apart) = (cpu::of_this_thread(), self.apart);
        for (_, number) in due.into_iter().take(PROGRAMS_MAX) {
            self.discover_in(number, now);
        }
        let took = nanos(cpu::of_this_thread().saturating_sub(before + (self.apart - apart)));
        self.discover_at = now + Nanos(took.0 * self.rest(now));
    }

    fn discover_in(&mut self, number: u32, now: Nanos) {
        let Some(program) = self.programs.get_mut(&number) else { return };
        // Often enough to see the causes of its sleeps, whether or not any of its reads are followed.
        program.sample(now);
        let Ok(found) = program.discover(now) else { return self.end_program(number, now) };
        if !program.process.is_alive() {
            return self.end_program(number, now);
        }
        if let Some(scope) = &self.scope
            && (found.is_new || now >= program.scope_at)
        {
            program.scope_at = now + SCOPE_PERIOD;
            if !scope.includes(&program.process) {
                self.left_alone.insert(number);
                return self.end_program(number, now);
            }
        }
        if found.refused {
            self.tally.refused.insert(number);
        }
        let mut has_children = false;
        for child in found.children {
            // A follower of its own parent is excluded.
            if child != std::process::id()
                && !self.programs.contains_key(&child)
                && !self.left_alone.contains(&child)
                && self.scope.as_ref().is_none_or(Scope::includes_descendants)
                && let Ok(mut program) = Program::open(child, now)
            {
                program.parent = Some(number);
                self.programs.insert(child, program);
                self.tally.programs += 1;
                has_children = true;
            }
        }
        // A program that starts one short process after the other.
        if has_children && let Some(program) = self.programs.get_mut(&number) {
            program.hurry(now);
        }
        if let Some(program) = self.programs.get(&number) {
            for (file, _) in &found.files {
                if let Ok(path) = program.process.name_of(*file) {
                    self.learner.note(path, now);
                }
            }
        }
        for (index, (file, identity)) in found.files.into_iter().enumerate() {
            if index < FILES_MAX {
                self.consider(number, file, identity, now);
            } else if let Some(program) = self.programs.get_mut(&number) {
                program.forget_file(file);
            }
        }
        self.find_mappings(number, now);
        self.consider_tracing(number, now);
    }

    pub(super) fn end_program(&mut self, number: u32, now: Nanos) {
        // Its last touches have been reported, but not been processed.
        if self.traced.knows(number) {
            self.take_touches(now);
        }
        let of_it = self.readings.values().filter(|reading| reading.program == number);
        let mut of_it: Vec<(Nanos, ReadingId)> =
            of_it.map(|reading| (reading.moved_at(), reading.id)).collect();
        // Its last bytes, which no poll has observed, belong to the file that it read last, as far as that goes.
        of_it.sort_by_key(|&(moved_at, _)| std::cmp::Reverse(moved_at));
        let of_it = of_it.into_iter().map(|(_, id)| id);
        of_it.for_each(|id| self.end(id, now));
        self.end_touches(number);
        if let Some(program) = self.programs.get_mut(&number) {
            let mappings = self.mapped.end_with(program);
            self.end_mappings(mappings);
        }
        if let Some(mut program) = self.programs.remove(&number) {
            program.sample(now);
            self.tally.end_program(&program);
        }
    }

    /// Considers a regular file that a program has newly opened.
    fn consider(&mut self, number: u32, file: u32, identity: Identity, now: Nanos) -> Option<()> {
        let sharers = match self.followed_as(number, file, &identity) {
            None => Vec::new(),
            Some(id) if self.descends(number, self.readings.get(&id)?.program) => self.take_over(id, now),
            Some(id) => {
                let reading = self.readings.get_mut(&id)?;
                reading.sharers.push((number, file));
                reading.is_shared = true;
                return None;
            }
        };
        match self.place(number, file, identity, now) {
            Some(id) => {
                let left_at = self.left_at.remove(&(identity.device, identity.inode));
                let reading = self.readings.get_mut(&id)?;
                reading.is_shared |= left_at.is_some() || !sharers.is_empty();
                reading.sharers.extend(sharers);
                // A process that was not followed has read the bytes in between.
                reading.gone += left_at.map_or(0, |left_at| reading.offset().saturating_sub(left_at));
            }
            None => self.rescan(sharers, now),
        }
        Some(())
    }

    /// Returns the reading that already follows the same open file description by another descriptor: the position is
    /// shared, so its bytes count once.
    fn followed_as(&self, number: u32, file: u32, identity: &Identity) -> Option<ReadingId> {
        /// Descriptors of a file that are compared, the latest first. Each comparison is a system call.
        const DESCRIPTORS_MAX: usize = 8;
        let program = self.programs.get(&number)?;
        let same = |reading: &&Reading| reading.current().is_same(identity);
        let open = self.readings.values().rev().filter(same).filter_map(|reading| {
            let (holder, held) = reading.descriptor().filter(|&descriptor| descriptor != (number, file))?;
            Some((reading.id, self.programs.get(&holder)?, held))
        });
        let mut open = open.take(DESCRIPTORS_MAX);
        open.find(|(_, holder, held)| program.process.shares(file, &holder.process, *held)).map(|(id, ..)| id)
    }

    /// Returns whether a process is a descendant of another.
    fn descends(&self, number: u32, from: u32) -> bool {
        /// Process numbers are reused, so that the parents of processes may seem to form a cycle.
        const ANCESTORS_MAX: usize = 64;
        let parent = |number: &u32| self.programs.get(number)?.parent;
        std::iter::successors(parent(&number), parent).take(ANCESTORS_MAX).any(|parent| parent == from)
    }

    /// Ends a reading because a process has inherited its open file, and is assumed to be the one that reads it.
    /// Returns the other descriptors.
    fn take_over(&mut self, id: ReadingId, now: Nanos) -> Vec<Sharer> {
        self.poll_one(id, now);
        let Some(reading) = self.readings.get_mut(&id) else { return Vec::new() };
        let mut sharers = std::mem::take(&mut reading.sharers);
        sharers.extend(reading.descriptor());
        reading.is_shared = true;
        self.end(id, now);
        sharers
    }

    /// Reconsiders open files whose reading has ended, or whose follower has closed them.
    pub(super) fn rescan(&mut self, descriptors: Vec<Sharer>, now: Nanos) {
        for (number, file) in descriptors {
            if let Some(program) = self.programs.get_mut(&number) {
                program.forget_file(file);
                program.hurry(now);
            }
        }
    }

    /// Follows a newly opened file if that is useful: in an existing reading that has reached it, or in a new one.
    fn place(&mut self, number: u32, file: u32, identity: Identity, now: Nanos) -> Option<ReadingId> {
        // A reading may have followed this descriptor number without having noticed that it refers to another file now.
        let had = |reading: &&Reading| reading.program == number && reading.has_open(file);
        let had: Vec<ReadingId> = self.readings.values().filter(had).map(|reading| reading.id).collect();
        for id in had {
            self.poll_one(id, now);
        }
        let of_it = |reading: &&mut Reading| reading.program == number;
        let mut own = self.readings.values_mut().filter(of_it);
        if own.any(|reading| reading.has_open(file) && reading.current().is_same(&identity)) {
            return None;
        }
        let program = self.programs.get_mut(&number)?;
        let descriptor = program.process.descriptor(file).ok()?;
        let open = descriptor.query().ok()?;
        if open.writable {
            program.note_written(identity);
        }
        // Files that bypass the page cache gain nothing.
        if !open.readable || open.direct || identity.size == 0 {
            return None;
        }
        program.sample(now);
        let path = program.process.name_of(file).ok()?;
        let word = program.argv_files.find(&path, &identity);
        let parent = path.parent()?;
        let mut vacant = self.readings.values_mut().filter(of_it).filter(|reading| reading.is_vacant());
        if let Some(reading) = vacant.find_map(|reading| {
            let takes = reading.takes(program, file, identity, word, parent);
            takes.then_some(reading.id)
        }) {
            return Some(reading);
        }
        let goes_on = word.is_none().then(|| self.go_on_in(number, file, identity, parent)).flatten();
        if goes_on.is_some() {
            return goes_on;
        }
        let program = self.programs.get_mut(&number)?;
        let io_wait = program.spent().io_wait;
        let directory =
            if word.is_none() { program.directories.visit(parent, identity, io_wait) } else { None };
        if identity.size < FILE_MIN_BYTES && word.is_none() && directory.is_none() {
            return None;
        }
        let id = self.name_reading();
        let program = self.programs.get(&number)?;
        let mut reading = Reading::new(id, program, file, descriptor, identity, open.position, now);
        if let (Some(word), Some(directory)) = (word, &program.argv_files.directory) {
            reading.predictor =
                Some(FilePredictor::of_words(directory.clone(), program.argv_files.words.clone(), word));
        } else if let Some(DirectoryScan { directory, way, files }) = directory {
            reading.predictor = Some(FilePredictor::of_directory(directory.path.clone(), way, files));
            self.fetcher.start(BlockingJob { id, order: JobRequest::List { directory } });
        }
        let (at, size) = (reading.position, reading.sequence.size());
        self.readings.insert(id, reading);
        self.notify(now, Event::Opened { id, at, size });
        Some(id)
    }

    /// Continues a reading in the next directory of a tree, if its program has read the directories before in one
    /// order: the file is appended to its sequence.
    fn go_on_in(
        &mut self,
        number: u32,
        file: u32,
        identity: Identity,
        directory: &Path,
    ) -> Option<ReadingId> {
        let program = self.programs.get(&number)?;
        let of_it = |reading: &&mut Reading| reading.program == number && reading.is_vacant();
        let order_of = |reading: &Reading| reading.predictor.as_ref()?.order_in(directory);
        let mut found = self
            .readings
            .values_mut()
            .filter(of_it)
            .filter_map(|reading| Some((order_of(reading)?, reading)));
        let (by, reading) = found.next()?;
        reading.go_on_in(directory, by);
        let directory = program.directories.get(directory);
        self.fetcher.start(BlockingJob { id: reading.id, order: JobRequest::List { directory } });
        reading.append(program, file, identity).then_some(reading.id)
    }
}
