//! The files of a reading: the current one, those passed, and those to come.

use std::path::Path;
use std::sync::Arc;

use sakiyomi_model::Nanos;
use sakiyomi_os::process::Identity;

use super::{Member, OpenFile, Reading};
use crate::fetcher::Fetcher;
use crate::follow::blocking_job::{BlockingJob, JobRequest};
use crate::follow::file_predictor::FilePredictor;
use crate::follow::handle::{Handle, Place};
use crate::follow::listing::{DirOrder, DirTraversal};
use crate::follow::program::Program;

impl Reading {
    /// Moves to a newly opened file if it belongs to the sequence, or comes next in it; returns whether it does.
    pub(in crate::follow) fn takes(
        &mut self,
        program: &Program,
        file: u32,
        identity: Identity,
        word: Option<usize>,
        directory: &Path,
    ) -> bool {
        if let Some(index) = self.find(&identity) {
            return self.sit(program, file, index);
        }
        let Some(predictor) = &mut self.predictor else { return false };
        // A program that moves backwards in a directory still traverses it, in another order.
        let goes_on = predictor.is_of(directory) || word.is_some_and(|word| predictor.reach_word(word));
        goes_on && self.append(program, file, identity)
    }

    /// Continues in another directory in the same order.
    pub(in crate::follow) fn go_on_in(&mut self, directory: &Path, by: DirOrder) {
        let mut predictor =
            FilePredictor::of_directory(directory.to_owned(), DirTraversal::presumed(by), Vec::new());
        predictor.unlocked = true;
        self.predictor = Some(predictor);
    }

    /// Appends predicted files, and requests the opening of more, as far ahead as it pays.
    pub(in crate::follow) fn grow(
        &mut self,
        program: &Program,
        limit: u64,
        files: usize,
        fetcher: &Fetcher<BlockingJob>,
    ) {
        /// Bytes of known files ahead, beyond twice the limit, below which further files are opened.
        const KNOWN_AHEAD_EXTRA_BYTES: u64 = 1 << 20;
        let Some(predictor) = &mut self.predictor else { return };
        while let Some((identity, handle)) = predictor.take() {
            if !program.writes(&identity) {
                self.sequence.push(Member { identity, handle }, identity.size);
            }
        }
        let known = self.sequence.size() - self.position;
        let is_enough = known > 2 * limit + KNOWN_AHEAD_EXTRA_BYTES || self.files_ahead() >= files;
        while !is_enough && let Some((index, handle)) = self.predictor.as_mut().and_then(FilePredictor::ask) {
            let order = JobRequest::Examine { index, handle };
            fetcher.start(BlockingJob { id: self.id, order });
        }
    }

    /// Records that the program has closed this file.
    pub(super) fn leave(
        &mut self,
        index: usize,
        number: u32,
        elsewhere: u64,
        program: &mut Program,
        now: Nanos,
    ) {
        program.forget_file(number);
        self.exclude_other_files(elsewhere, program);
        self.settle(program);
        self.open_file = None;
        self.left_to.append(&mut self.sharers);
        self.vacant_since = Some(now);
        let size = self.sequence.size_of(index);
        self.passed.has_left_early |= self.position < self.sequence.position(index, size);
        self.passed.bytes += size.saturating_sub(if index == 0 { self.first } else { 0 });
        self.passed.files += 1;
    }

    /// Moves to a later file of the sequence if the descriptor number refers to it now; returns whether it does.
    pub(super) fn is_next(&mut self, program: &Program, number: u32) -> bool {
        let Ok(identity) = program.process.identity(number) else { return false };
        let Some(index) = self.find(&identity) else { return false };
        self.sit(program, number, index)
    }

    /// Returns the index of a file, searched from the current one on.
    pub(in crate::follow) fn find(&self, identity: &Identity) -> Option<usize> {
        (self.index()..self.sequence.len()).find(|&index| self.sequence.get(index).identity.is_same(identity))
    }

    /// Records that the program has this file of the sequence open.
    pub(in crate::follow) fn sit(&mut self, program: &Program, number: u32, index: usize) -> bool {
        self.open_at(program, number, index, true)
    }

    fn open_at(&mut self, program: &Program, number: u32, index: usize, was_begun: bool) -> bool {
        let Ok(descriptor) = program.process.descriptor(number) else { return false };
        let Ok(open) = descriptor.query() else { return false };
        if open.inode != self.sequence.get(index).identity.inode {
            return false;
        }
        self.pass_by(program, index);
        let reached = self.sequence.position(self.sequence.index_at(self.position), u64::MAX);
        self.account.pass_over(&(reached..self.sequence.position(index, 0)));
        self.release_before(index);
        let identity = self.sequence.get(index).identity;
        if let Some(predictor) = &mut self.predictor {
            predictor.reach(&identity);
        }
        self.open_file = Some(OpenFile { number, descriptor, index });
        self.vacant_since = None;
        self.position = self.sequence.position(index, open.position);
        self.gone += open.position.min(self.sequence.size_of(index));
        self.read = program.spent().read;
        self.visited.push(identity);
        self.was_begun = was_begun;
        true
    }

    /// Appends a file that the program has opened after those of the sequence.
    pub(in crate::follow) fn append(&mut self, program: &Program, number: u32, identity: Identity) -> bool {
        let place = Place::Open(Arc::clone(&program.shared), number);
        let handle = Arc::new(Handle::new(place, Some(identity)));
        self.sequence.push(Member { identity, handle }, identity.size);
        self.open_at(program, number, self.sequence.len() - 1, false)
    }

    /// Attributes files that may have been read through since the last poll: as many as the program's bytes account
    /// for.
    pub(in crate::follow) fn pass_by(&mut self, program: &Program, index: usize) {
        let (Some(before), Some(read)) = (self.read, program.spent().read) else { return };
        let mut got = read.saturating_sub(before);
        for between in self.index() + 1..index {
            let size = self.sequence.size_of(between);
            if size > got {
                break;
            }
            got -= size;
            self.gone += size;
            self.position = self.sequence.position(between, size);
            self.visited.push(self.sequence.get(between).identity);
            self.account.pass_by(size);
        }
    }

    fn release_before(&self, index: usize) {
        (self.index()..index).for_each(|passed| self.sequence.get(passed).handle.release());
    }

    /// Returns the number of files after the current one.
    pub(in crate::follow) fn files_ahead(&self) -> usize {
        self.sequence.len() - 1 - self.index()
    }
}
