//! The files of a reading: which one the program is at, which it has passed, and which come.

use std::path::Path;
use std::sync::Arc;

use sakiyomi_model::Nanos;
use sakiyomi_os::process::Identity;

use super::{Member, Reading, Seat};
use crate::fetcher::Fetcher;
use crate::follow::coming::Coming;
use crate::follow::errand::{Errand, Order};
use crate::follow::handle::{Handle, Place};
use crate::follow::listing::{By, Way};
use crate::follow::program::Program;

impl Reading {
    /// Whether a file that the program has newly open is one of the row, or comes next in it; then it is there now.
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
        let Some(coming) = &mut self.coming else { return false };
        // Who goes back in a directory goes through it in an order of his own, but through it all the same.
        let goes_on = coming.is_of(directory) || word.is_some_and(|word| coming.come_to_word(word));
        goes_on && self.append(program, file, identity)
    }

    /// The program goes on in another directory in the same order.
    pub(in crate::follow) fn go_on_in(&mut self, directory: &Path, by: By) {
        let mut coming = Coming::of_directory(directory.to_owned(), Way::presumed(by), Vec::new());
        coming.unlocked = true;
        self.coming = Some(coming);
    }

    /// Takes up the files that come, and has more of them opened, so far ahead as pays.
    pub(in crate::follow) fn grow(
        &mut self,
        program: &Program,
        limit: u64,
        files: usize,
        fetcher: &Fetcher<Errand>,
    ) {
        /// Bytes of known files ahead, beyond twice the limit, below which further files are opened.
        const KNOWN_AHEAD_EXTRA_BYTES: u64 = 1 << 20;
        let Some(coming) = &mut self.coming else { return };
        while let Some((identity, handle)) = coming.take() {
            if !program.writes(&identity) {
                self.row.push(Member { identity, handle }, identity.size);
            }
        }
        let known = self.row.size() - self.position;
        let is_enough = known > 2 * limit + KNOWN_AHEAD_EXTRA_BYTES || self.files_ahead() >= files;
        while !is_enough && let Some((index, handle)) = self.coming.as_mut().and_then(Coming::ask) {
            let order = Order::Examine { index, handle };
            fetcher.start(Errand { id: self.id, order });
        }
    }

    /// The program has this one open no more.
    pub(super) fn leave(
        &mut self,
        index: usize,
        number: u32,
        elsewhere: u64,
        program: &mut Program,
        now: Nanos,
    ) {
        program.forget_file(number);
        self.settle(program, elsewhere);
        self.seat = None;
        self.left_to.append(&mut self.sharers);
        self.vacant_since = Some(now);
        let size = self.row.size_of(index);
        self.passed.has_left_early |= self.position < self.row.position(index, size);
        self.passed.bytes += size.saturating_sub(if index == 0 { self.first } else { 0 });
        self.passed.files += 1;
    }

    /// Whether a number that meant the file before means a later one of the row now, and then it is that.
    pub(super) fn is_next(&mut self, program: &Program, number: u32) -> bool {
        let Ok(identity) = program.process.identity(number) else { return false };
        let Some(index) = self.find(&identity) else { return false };
        self.sit(program, number, index)
    }

    /// Which of the files from here on it is.
    pub(in crate::follow) fn find(&self, identity: &Identity) -> Option<usize> {
        (self.index()..self.row.len()).find(|&index| self.row.get(index).identity.is_same(identity))
    }

    /// The program has this file of the row open.
    pub(in crate::follow) fn sit(&mut self, program: &Program, number: u32, index: usize) -> bool {
        self.sit_down(program, number, index, true)
    }

    fn sit_down(&mut self, program: &Program, number: u32, index: usize, was_begun: bool) -> bool {
        let Ok(descriptor) = program.process.descriptor(number) else { return false };
        let Ok(open) = descriptor.look() else { return false };
        if open.inode != self.row.get(index).identity.inode {
            return false;
        }
        self.pass_by(program, index);
        let come_to = self.row.position(self.row.index_at(self.position), u64::MAX);
        self.account.pass_over(&(come_to..self.row.position(index, 0)));
        self.let_go_before(index);
        let identity = self.row.get(index).identity;
        if let Some(coming) = &mut self.coming {
            coming.come_to(&identity);
        }
        self.seat = Some(Seat { number, descriptor, index });
        self.vacant_since = None;
        self.position = self.row.position(index, open.position);
        self.gone += open.position.min(self.row.size_of(index));
        self.read = program.spent().read;
        self.visited.push(identity);
        self.was_begun = was_begun;
        true
    }

    /// The program has opened a file that comes after those of the row.
    pub(in crate::follow) fn append(&mut self, program: &Program, number: u32, identity: Identity) -> bool {
        let place = Place::Open(Arc::clone(&program.shared), number);
        let handle = Arc::new(Handle::new(place, Some(identity)));
        self.row.push(Member { identity, handle }, identity.size);
        self.sit_down(program, number, self.row.len() - 1, false)
    }

    /// Files may have been read through since the last look: as many as the program has got bytes for.
    pub(in crate::follow) fn pass_by(&mut self, program: &Program, index: usize) {
        let (Some(before), Some(read)) = (self.read, program.spent().read) else { return };
        let mut got = read.saturating_sub(before);
        for between in self.index() + 1..index {
            let size = self.row.size_of(between);
            if size > got {
                break;
            }
            got -= size;
            self.gone += size;
            self.position = self.row.position(between, size);
            self.visited.push(self.row.get(between).identity);
            self.account.pass_by(size);
        }
    }

    fn let_go_before(&self, index: usize) {
        (self.index()..index).for_each(|passed| self.row.get(passed).handle.let_go());
    }

    /// How many files lie ahead of the one that is read.
    pub(in crate::follow) fn files_ahead(&self) -> usize {
        self.row.len() - 1 - self.index()
    }
}
