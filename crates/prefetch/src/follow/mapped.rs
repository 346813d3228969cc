//! Mapped files, followed by the pages that their program has touched (`os::process::PageMap`). Needs neither tracing
//! nor root.
//!
//! [`TouchedFile`] decides which parts to fetch; here the mappings are found, their pages are scanned, and fetches are
//! started and counted.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sakiyomi_io::page_cache;
use sakiyomi_model::Nanos;
use sakiyomi_os::cpu;
use sakiyomi_os::process::{Mapped, PageMap};

use super::Follower;
use super::fetch_state::{FetchState, WAIT_MIN_TIME};
use super::handle::{Handle, Place};
use super::learned::Learner;
use super::nanos;
use super::program::Program;
use super::statistics::{Curve, Point, Share, share};
use super::summary::ReadingSummary;
use super::times::CpuIoTimes;
use crate::Idle;
use crate::cached_file::FetchOutcome;
use crate::fetcher::{Fetcher, Job};
use crate::touched::{GRANULE_BYTES, TouchedFile};

/// Size below which mappings are left to the kernel's own read-ahead.
const MAPPING_MIN_BYTES: u64 = 8 << 20;

/// Mappings that are followed at a time.
const MAPPINGS_MAX: usize = 64;

/// Fetches at a time: each waits for its last byte, so this is also the number of requests at the device.
const FETCHES_MAX: usize = 32;

/// Polling period while a known frontier moves.
const KNOWN_POLL_PERIOD: Nanos = Nanos(1_000_000);
/// Polling period while anything moves.
const MOVING_POLL_PERIOD: Nanos = Nanos(3_000_000);
/// The period grows by half with each poll without a touch, up to this.
const POLL_PERIOD_MAX: Nanos = Nanos(20_000_000);
/// Ratios of rest to polling time: while a mapping is active, and otherwise.
const POLL_REST_FACTORS: (u64, u64) = (10, 60);
/// Ratio of rest to scan time for scans of whole mappings.
const FULL_SCAN_REST_FACTOR: u64 = 20;

/// Ratio of rest to reading time for the list of mappings, which may have many thousands of lines.
const MAPPINGS_REST_FACTOR: u64 = 50;

/// The kernel's default read-ahead, where that of the device is unknown.
const READ_AHEAD_DEFAULT_BYTES: u64 = 128 << 10;

/// A process, and the first address of a mapping.
type Key = (u32, u64);

/// All mappings that are followed.
pub(super) struct MappedFiles {
    files: BTreeMap<Key, Followed>,
    programs: BTreeMap<u32, Views>,
    /// Programs and their mapped files, as device and inode number, also after the end of the mapping.
    covered: BTreeSet<(u32, u64, u64)>,
    fetcher: Fetcher<MappedFetch>,
    replies: Vec<Fetched>,
    in_flight: usize,
    poll_at: Nanos,
    pause: Nanos,
}

/// A process's address space, as last seen.
struct Views {
    pages: PageMap,
    incarnation: u64,
    /// Size of the address space when the mappings were last read, in bytes, and the earliest time of the next reading.
    size: u64,
    read_at: Nanos,
    /// Page faults of the program at the last poll.
    faults: u64,
}

/// A mapping.
struct Followed {
    mapped: Mapped,
    handle: Arc<Handle>,
    file: TouchedFile,
    /// Time of the next scan of the whole mapping.
    full_scan_at: Nanos,
    fetches: FetchState,
    /// Progress, and its cost, before and since the first fetch.
    alone: Share,
    helped: Share,
    last: Option<(Nanos, CpuIoTimes, usize)>,
    moved_at: Nanos,
    /// Granules that were touched after the last poll.
    unseen: usize,
    curve: Curve,
}

/// A fetch of a part of a mapping.
struct MappedFetch {
    key: Key,
    handle: Arc<Handle>,
    range: Range<u64>,
}

/// Result of a fetch.
struct Fetched {
    key: Key,
    range: Range<u64>,
    outcome: FetchOutcome,
    took: Duration,
}

impl Job for MappedFetch {
    type Reply = Fetched;

    fn turn(&self) -> Option<u32> {
        None
    }

    /// Polls come every millisecond anyway.
    fn is_urgent(&self) -> bool {
        false
    }

    fn carry_out(self) -> (Fetched, Option<MappedFetch>) {
        let since = Instant::now();
        let outcome = self.handle.load_and_wait(&self.range);
        (Fetched { key: self.key, range: self.range, outcome, took: since.elapsed() }, None)
    }
}

impl MappedFiles {
    pub(super) fn new() -> MappedFiles {
        MappedFiles {
            files: BTreeMap::new(),
            programs: BTreeMap::new(),
            covered: BTreeSet::new(),
            fetcher: Fetcher::new(FETCHES_MAX),
            replies: Vec::new(),
            in_flight: 0,
            poll_at: Nanos::ZERO,
            pause: KNOWN_POLL_PERIOD,
        }
    }

    /// Returns when the next poll is due; `None` if nothing is followed.
    pub(super) fn due(&self) -> Option<Nanos> {
        (!self.files.is_empty()).then_some(self.poll_at)
    }

    /// Returns whether there is a reply for which the polling thread was woken.
    pub(super) fn has_replies(&self) -> bool {
        self.fetcher.has_urgent()
    }

    /// Returns whether anything is being fetched.
    pub(super) fn is_fetching(&self) -> bool {
        self.in_flight > 0
    }

    /// Returns whether a mapping of this file is or was followed in a program.
    pub(super) fn covers(&self, program: u32, device: u64, inode: u64) -> bool {
        self.covered.contains(&(program, device, inode))
    }

    /// Returns whether a program has touched a followed mapping since `since`.
    pub(super) fn explains(&self, program: u32, since: Nanos) -> bool {
        self.files.range((program, 0)..=(program, u64::MAX)).any(|(_, file)| file.moved_at > since)
    }

    /// Finds new mappings of a program, and those that are gone, which are returned.
    pub(super) fn find(&mut self, program: &mut Program, learner: &mut Learner, now: Nanos) -> Vec<Ended> {
        let number = program.number();
        let mut ended = Vec::new();
        let Ok(incarnation) = program.process.incarnation() else { return ended };
        if self.programs.get(&number).is_some_and(|views| views.incarnation != incarnation) {
            ended = self.end_program(number);
        }
        let Ok(size) = program.process.address_space_bytes() else { return ended };
        let before = self.programs.get(&number);
        let is_due = before.is_none_or(|views| size != views.size && now >= views.read_at);
        if !is_due || before.is_none() && size < MAPPING_MIN_BYTES {
            return ended;
        }
        let begun = cpu::of_this_thread();
        let Ok(mappings) = program.process.mappings() else { return ended };
        let begins = mappings.iter().filter(|mapped| mapped.offset == 0);
        begins.for_each(|mapped| learner.note(mapped.path.clone(), now));
        if let std::collections::btree_map::Entry::Vacant(entry) = self.programs.entry(number) {
            let Ok(pages) = program.process.page_map() else { return ended };
            entry.insert(Views { pages, incarnation, size, read_at: now, faults: 0 });
        }
        ended.extend(self.update(program, &mappings, now));
        let took = nanos(cpu::of_this_thread().saturating_sub(begun));
        if let Some(views) = self.programs.get_mut(&number) {
            (views.size, views.read_at) = (size, now + Nanos(took.0 * MAPPINGS_REST_FACTOR));
        }
        ended
    }

    fn update(&mut self, program: &Program, mappings: &[Mapped], now: Nanos) -> Vec<Ended> {
        let number = program.number();
        let is_code = |file: &Mapped| {
            mappings
                .iter()
                .any(|other| other.is_code && (other.device, other.inode) == (file.device, file.inode))
        };
        let is_data = |file: &&Mapped| {
            file.is_readable && file.length >= MAPPING_MIN_BYTES && file.path.has_root() && !is_code(file)
        };
        let found: Vec<&Mapped> = mappings.iter().filter(is_data).collect();
        let gone: Vec<Key> = self
            .files
            .range((number, 0)..=(number, u64::MAX))
            .filter(|(_, file)| !found.contains(&&file.mapped))
            .map(|(key, _)| *key)
            .collect();
        let ended = gone.into_iter().filter_map(|key| self.end(key)).collect();
        for mapped in found {
            let key = (number, mapped.start);
            if self.files.len() >= MAPPINGS_MAX || self.files.contains_key(&key) {
                continue;
            }
            self.covered.insert((number, mapped.device, mapped.inode));
            let place = Place::Mapped(Arc::clone(&program.shared), mapped.clone());
            self.files
                .insert(key, Followed::new(mapped.clone(), Handle::new(place, None), program.spent(), now));
            (self.poll_at, self.pause) = (now, KNOWN_POLL_PERIOD);
        }
        ended
    }

    fn end(&mut self, key: Key) -> Option<Ended> {
        let file = self.files.remove(&key)?;
        self.fetcher.forget(|job| job.key == key);
        file.handle.release();
        Some(Ended(file))
    }

    /// Ends the mappings of a program that has ended. Its page tables are gone, but its page faults since the last poll are
    /// still counted, one for each granule that it touched.
    pub(super) fn end_with(&mut self, program: &mut Program) -> Vec<Ended> {
        let number = program.number();
        let before = self.programs.get(&number).map_or(0, |views| views.faults);
        let faults = program.process.all_faults().unwrap_or(before);
        let of_it = self.files.range_mut((number, 0)..=(number, u64::MAX));
        if let Some((_, latest)) = of_it.max_by_key(|(_, file)| file.moved_at) {
            latest.unseen = usize::try_from(faults.saturating_sub(before)).unwrap_or(usize::MAX);
        }
        self.end_program(number)
    }

    fn end_program(&mut self, number: u32) -> Vec<Ended> {
        self.programs.remove(&number);
        self.covered.retain(|(program, ..)| *program != number);
        let keys: Vec<Key> =
            self.files.range((number, 0)..=(number, u64::MAX)).map(|(key, _)| *key).collect();
        keys.into_iter().filter_map(|key| self.end(key)).collect()
    }

    fn take_replies(&mut self) {
        let mut replies = std::mem::take(&mut self.replies);
        self.fetcher.take(&mut replies);
        for Fetched { key, range, outcome, took } in replies.drain(..) {
            self.in_flight = self.in_flight.saturating_sub(1);
            let Some(file) = self.files.get_mut(&key) else { continue };
            file.fetches.fetched(range.end - range.start, outcome, took);
        }
        self.replies = replies;
    }

    /// Starts the wanted fetches, up to the number of threads. `window` limits the bytes ahead in all files.
    fn fetch(&mut self, programs: &BTreeMap<u32, Program>, window: u64, now: Nanos) {
        let window = usize::try_from(window / GRANULE_BYTES).unwrap_or(usize::MAX);
        let mut ahead: usize = self.files.values().map(|file| file.file.counts().ahead()).sum();
        for (&key, file) in &mut self.files {
            let Some(program) = programs.get(&key.0) else { continue };
            if !file.fetches.may_fetch(program.spent().io_wait) {
                continue;
            }
            while self.in_flight < FETCHES_MAX {
                let own = file.file.counts().ahead();
                let Some(part) = file.file.next_fetch(window.saturating_sub(ahead - own)) else { break };
                ahead += part.len();
                let range = file.bytes(&part);
                let job = MappedFetch { key, handle: Arc::clone(&file.handle), range };
                self.in_flight += usize::from(self.fetcher.start(job));
                file.moved_at = file.moved_at.max(now);
            }
        }
    }
}

impl Followed {
    fn new(mapped: Mapped, handle: Handle, spent: CpuIoTimes, now: Nanos) -> Followed {
        let lead = mapped.start % GRANULE_BYTES;
        let granules = (lead + mapped.length).div_ceil(GRANULE_BYTES);
        Followed {
            handle: Arc::new(handle),
            file: TouchedFile::new(usize::try_from(granules).unwrap_or(0)),
            full_scan_at: now,
            fetches: FetchState::new(spent.io_wait),
            alone: Share::default(),
            helped: Share::default(),
            last: None,
            moved_at: Nanos::ZERO,
            unseen: 0,
            curve: Curve::default(),
            mapped,
        }
    }

    fn lead(&self) -> u64 {
        self.mapped.start % GRANULE_BYTES
    }

    /// Returns the addresses of granules.
    fn addresses(&self, granules: &Range<usize>) -> Range<u64> {
        let base = self.mapped.start - self.lead();
        let address = |granule: usize| base + granule as u64 * GRANULE_BYTES;
        address(granules.start).max(self.mapped.start)
            ..address(granules.end).min(self.mapped.start + self.mapped.length)
    }

    /// Returns the bytes of the file that granules map.
    fn bytes(&self, granules: &Range<usize>) -> Range<u64> {
        let addresses = self.addresses(granules);
        let byte = |address: u64| self.mapped.offset + (address - self.mapped.start);
        byte(addresses.start)..byte(addresses.end)
    }

    /// Scans for new touches; returns whether there were any, and whether a frontier that is known moved.
    fn scan(&mut self, pages: &mut PageMap, now: Nanos) -> (bool, bool) {
        let is_full = now >= self.full_scan_at;
        let begun = cpu::of_this_thread();
        let base = self.mapped.start - self.lead();
        let mut moved = false;
        for part in self.file.begin_poll(is_full) {
            let addresses = self.addresses(&part);
            let file = &mut self.file;
            let scanned = pages.present(addresses, |run| {
                let granule =
                    |address: u64| usize::try_from((address - base) / GRANULE_BYTES).unwrap_or(usize::MAX);
                moved |= file.touch(granule(run.start)..granule(run.end - 1) + 1);
            });
            if scanned.is_err() {
                break;
            }
        }
        if is_full {
            let took = nanos(cpu::of_this_thread().saturating_sub(begun));
            self.full_scan_at = now + Nanos(took.0 * FULL_SCAN_REST_FACTOR);
        }
        if moved {
            self.moved_at = now;
        }
        (moved, self.file.end_poll())
    }

    /// Attributes the time since the last poll, divided among the moving mappings of the program and of all programs.
    fn account(&mut self, spent: CpuIoTimes, moving: u64, all_moving: u64, now: Nanos) {
        let counts = self.file.counts();
        let (touched, ahead) = (counts.touched as u64 * GRANULE_BYTES, counts.ahead() as u64 * GRANULE_BYTES);
        let point = Point { at: now, main: touched, prefetch: touched + ahead, io_wait: spent.io_wait };
        if touched > 0 {
            self.curve.add(point);
        }
        let Some((at, before, last_touched)) = self.last.replace((now, spent, counts.touched)) else {
            return;
        };
        let time = now.saturating_sub(at);
        let share = Share {
            bytes: (counts.touched - last_touched) as u64 * GRANULE_BYTES,
            io_wait: spent.io_wait.saturating_sub(before.io_wait) / moving.max(1),
            cpu_time: spent.cpu_time.saturating_sub(before.cpu_time) / moving.max(1),
            time,
            divided: time / all_moving.max(1),
        };
        if counts.requested > 0 { self.helped.add(share) } else { self.alone.add(share) }
    }
}

/// A mapping that has ended, for the summary.
pub(super) struct Ended(Followed);

impl Ended {
    /// Returns its summary, its share of the program's time, and the elapsed time saved; `None` if the program did not
    /// wait for it.
    pub(super) fn summary(self, watched: bool) -> Option<(ReadingSummary, Share, Option<Nanos>)> {
        let Followed { mapped, file, fetches, alone, helped, curve, .. } = &self.0;
        let counts = file.counts();
        let io_wait = alone.io_wait + helped.io_wait;
        if counts.touched == 0 || counts.requested == 0 && io_wait < WAIT_MIN_TIME {
            return None;
        }
        let hidden = self.hidden();
        // The last touches were most likely in prefetched granules.
        let unseen = self.0.unseen.min(counts.ahead());
        let wasted = (counts.ahead() - unseen) as u64 * GRANULE_BYTES;
        let idle = match () {
            () if counts.requested > 0 || watched => None,
            () if fetches.is_refused => Some(Idle::Refused),
            () => Some(Idle::NotSequential),
        };
        let told = ReadingSummary {
            name: mapped.path.display().to_string(),
            files: 1,
            size: mapped.length,
            read_bytes: (counts.touched + unseen) as u64 * GRANULE_BYTES,
            prefetched_bytes: fetches.prefetched_bytes,
            wasted_bytes: wasted.min(fetches.prefetched_bytes),
            io_hidden: hidden,
            idle,
            curve: curve.points.clone(),
            advice: None,
        };
        let saved = hidden.map(|hidden| share(hidden, helped.divided.0, helped.time.0));
        Some((told, *alone, saved))
    }

    pub(super) fn file(&self) -> (u64, u64) {
        (self.0.mapped.device, self.0.mapped.inode)
    }

    /// Returns the additional time for which the program would have waited. Measured: a run of touched granules costs
    /// one wait, and one more for each 7/4 of the configured read-ahead, because the kernel reads around a fault and
    /// then reads ahead in part.
    fn hidden(&self) -> Option<Nanos> {
        let Followed { mapped, file, fetches, helped, .. } = &self.0;
        let latency = fetches.latency?;
        let counts = file.counts();
        let used = (counts.used + self.0.unseen.min(counts.ahead())) as u64 * GRANULE_BYTES;
        let used = used.min(fetches.prefetched_bytes);
        if used == 0 {
            return None;
        }
        let read_ahead = page_cache::read_ahead(mapped.device)
            .filter(|&bytes| bytes > 0)
            .unwrap_or(READ_AHEAD_DEFAULT_BYTES);
        let waits = file.used_runs() as u64 + used * 4 / (7 * read_ahead);
        Some((latency * waits).saturating_sub(helped.io_wait))
    }
}

impl Follower {
    /// Finds the mappings of a program.
    pub(super) fn find_mappings(&mut self, number: u32, now: Nanos) -> Option<()> {
        let begun = cpu::of_this_thread();
        let ended = self.mapped.find(self.programs.get_mut(&number)?, &mut self.learner, now);
        self.end_mappings(ended);
        self.apart += cpu::of_this_thread().saturating_sub(begun);
        Some(())
    }

    pub(super) fn end_mappings(&mut self, ended: Vec<Ended>) {
        for mapping in ended {
            let file = mapping.file();
            if let Some((told, share, saved)) = mapping.summary(self.options.watch_only) {
                self.tally.end_mapping(told, file, self.options.watch_only.then_some(share), saved);
            }
        }
    }

    /// Polls the followed mappings, if that is due, and fetches ahead.
    pub(super) fn follow_mappings(&mut self, now: Nanos) {
        self.mapped.take_replies();
        if self.mapped.due().is_none_or(|due| due > now) {
            return;
        }
        let begun = cpu::of_this_thread();
        let (mut moves, mut knows) = (BTreeMap::<u32, u64>::new(), false);
        for (key, file) in &mut self.mapped.files {
            let Some(views) = self.mapped.programs.get_mut(&key.0) else { continue };
            let (moved, known) = file.scan(&mut views.pages, now);
            *moves.entry(key.0).or_default() += u64::from(moved);
            knows |= known;
        }
        let all_moving: u64 = moves.values().sum();
        for (key, file) in &mut self.mapped.files {
            let Some(program) = self.programs.get_mut(&key.0) else { continue };
            program.sample(now);
            if let Some(views) = self.mapped.programs.get_mut(&key.0) {
                views.faults = program.process.all_faults().unwrap_or(views.faults);
            }
            let moving = moves.get(&key.0).copied().unwrap_or(0);
            file.account(program.spent(), moving, all_moving, now);
        }
        if !self.options.watch_only {
            let window = self.controller.memory_left();
            self.mapped.fetch(&self.programs, window, now);
        }
        let is_active = knows || self.mapped.in_flight > 0;
        let pause = match () {
            () if is_active => KNOWN_POLL_PERIOD,
            () if all_moving > 0 => MOVING_POLL_PERIOD,
            () => Nanos(self.mapped.pause.0 * 3 / 2).min(POLL_PERIOD_MAX),
        };
        let factor = if is_active || all_moving > 0 { POLL_REST_FACTORS.0 } else { POLL_REST_FACTORS.1 };
        let rest = Nanos(nanos(cpu::of_this_thread().saturating_sub(begun)).0 * factor);
        self.mapped.pause = pause;
        self.mapped.poll_at = now + pause.max(rest);
    }
}
