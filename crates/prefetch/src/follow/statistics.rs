//! Statistics of a reading for the report: what was prefetched, and what the program did.

use std::collections::BTreeMap;
use std::ops::Range;

use sakiyomi_io::page_cache;
use sakiyomi_model::Nanos;

use super::times::CpuIoTimes;
use crate::{Idle, State};

/// Points of a curve. At this number every second point is dropped, and the sampling interval doubles.
const POINTS_MAX: usize = 800;

/// Positions of program and prefetcher at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Point {
    /// Time since the start of the run.
    pub at: Nanos,
    /// The program's position, in bytes.
    pub main: u64,
    /// End of the requested data, in bytes.
    pub prefetch: u64,
    /// Time that the program had waited for I/O.
    pub io_wait: Nanos,
}

/// Positions over time, of bounded length.
#[derive(Clone, Debug, Default)]
pub(super) struct Curve {
    pub(super) points: Vec<Point>,
    apart: Nanos,
}

impl Curve {
    pub(super) fn add(&mut self, point: Point) {
        if self.points.last().is_some_and(|last| point.at.saturating_sub(last.at) < self.apart) {
            return;
        }
        self.points.push(point);
        if self.points.len() >= POINTS_MAX {
            let mut index = 0;
            self.points.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            let span =
                self.points.last().map_or(Nanos::ZERO, |last| last.at.saturating_sub(self.points[0].at));
            self.apart = span / self.points.len() as u64;
        }
    }
}

/// Statistics of a reading.
#[derive(Clone, Debug, Default)]
pub(super) struct Account {
    /// Bytes prefetched that were not cached before; and those that the program has not passed yet, as a number per
    /// range of the sequence.
    pub(super) prefetched_bytes: u64,
    waiting: Vec<(Range<u64>, u64)>,
    /// Prefetched bytes of files that the program has skipped.
    pub(super) passed_over: u64,
    /// Bytes that the program read with and without prefetching, with its waiting time.
    pub(super) helped: Share,
    pub(super) alone: Share,
    /// Time spent in each idle state.
    pub(super) idle: BTreeMap<Idle, Nanos>,
    pub(super) curve: Curve,
    /// Bytes of the kernel's read-ahead found ahead of the program when it was first helped.
    pub(super) window_seen: Option<u64>,
    /// Read-ahead size of the kernel, in bytes; 0 if it is unknown.
    pub(super) read_ahead: u64,
    /// Duration of the fastest of the follower's first accesses.
    latency: Option<Nanos>,
    /// With `watch_only`: the share that would have been read ahead.
    pub(super) would_help: Share,
    last: Option<ReadingState>,
    /// Time spent since it last moved, and whether it was helped when it arrived there, or would have been.
    spot: (Share, Help),
    /// The current file.
    visit: Visit,
    /// Stretches of files at the beginning that it read without prefetching.
    alone_in: Vec<Stretch>,
    /// Bytes of files that it has passed since its last observed move.
    passed: u64,
    /// Files that were opened before the program did; those among them that are longer than the kernel's first window;
    /// and bytes that the program would have read by whole windows.
    opened: u64,
    long: u64,
    steady: u64,
}

/// State of a reading at an instant.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReadingState {
    pub(super) at: Nanos,
    /// Position of the program in the sequence.
    pub(super) position: u64,
    /// End of the requested data.
    pub(super) prefetch: u64,
    /// Total bytes that it has read through.
    pub(super) gone: u64,
    /// Number of files visited, and whether the current one was prefetched before the program opened it.
    pub(super) files: u64,
    pub(super) was_begun: bool,
    /// Time spent by its program, and the number of concurrent readings among which it is divided.
    pub(super) spent: CpuIoTimes,
    pub(super) readings: u64,
    /// Number of concurrent readings of all programs.
    pub(super) all_readings: u64,
}

/// Whether data is read ahead of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Help {
    #[default]
    No,
    /// It would be without `watch_only`.
    Would,
    Yes,
}

impl Help {
    fn of(state: Option<State>, has_more_ahead: bool, watch_only: bool) -> Help {
        match state {
            // Also during a pause of prefetching, until the program has consumed the data ahead.
            _ if has_more_ahead && !watch_only => Help::Yes,
            Some(State::Ahead | State::Idle(Idle::Done)) if !watch_only => Help::Yes,
            // Without actual reading ahead, it cannot be observed whether that helps.
            Some(State::Ahead | State::Probation | State::Idle(Idle::Done | Idle::IoBound)) if watch_only => {
                Help::Would
            }
            _ => Help::No,
        }
    }
}

/// A file visited by the program.
#[derive(Clone, Copy, Debug, Default)]
struct Visit {
    was_begun: bool,
    /// Whether nothing of it has been read yet.
    is_new: bool,
    /// Bytes read with prefetching.
    helped: u64,
    /// Position in the file.
    offset: u64,
}

/// A stretch of a file that the program read without prefetching, from a position at which it may have waited.
#[derive(Clone, Debug)]
struct Stretch {
    bytes: Range<u64>,
    /// Whether it is the first stretch of the first file, before which the program may have waited for other things;
    /// and whether it includes the opening of a file.
    is_first: bool,
    is_open: bool,
    io_wait: Nanos,
    busy: Nanos,
}

/// Progress and its cost: waiting and computing time, divided among the readings of the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) bytes: u64,
    pub(super) io_wait: Nanos,
    pub(super) cpu_time: Nanos,
    pub(super) time: Nanos,
    /// The time, divided among the readings of all programs.
    pub(super) divided: Nanos,
}

impl Share {
    pub(super) fn add(&mut self, other: Share) {
        self.bytes += other.bytes;
        self.divided += other.divided;
        self.io_wait += other.io_wait;
        self.cpu_time += other.cpu_time;
        self.time += other.time;
    }
}

/// Size of the kernel's first read of a file.
const FIRST_WINDOW_BYTES: u64 = 64 << 10;

impl Account {
    /// Records an observation, in the state of the reading since the previous one.
    pub(super) fn see(&mut self, sight: ReadingState, state: Option<State>, watch_only: bool) {
        let ReadingState { at, position: main, prefetch, spent, .. } = sight;
        let helps = Help::of(state, prefetch > main, watch_only);
        self.waiting.retain(|(range, _)| range.end > main);
        self.curve.add(Point { at, main, prefetch, io_wait: spent.io_wait });
        let Some(last) = self.last.replace(sight) else {
            (self.spot.1, self.visit.is_new) = (helps, true);
            return;
        };
        let time = at.saturating_sub(last.at);
        let went = sight.gone.saturating_sub(last.gone);
        let readings = sight.readings.max(1);
        self.spot.0.add(Share {
            bytes: went,
            io_wait: spent.io_wait.saturating_sub(last.spent.io_wait) / readings,
            cpu_time: spent.cpu_time.saturating_sub(last.spent.cpu_time) / readings,
            time,
            divided: time / sight.all_readings.max(1),
        });
        if let Some(State::Idle(idle)) = state
            && helps == Help::No
        {
            *self.idle.entry(idle).or_default() += time;
        }
        if went > 0 || self.passed > 0 {
            self.leave_spot(helps);
        }
        if sight.files != last.files {
            self.end_visit();
            self.visit = Visit { was_begun: sight.was_begun, is_new: true, ..Visit::default() };
            self.spot.1 = if sight.was_begun { helps } else { Help::No };
        }
    }

    /// Records the duration of an access by the follower.
    pub(super) fn time(&mut self, latency: Nanos) {
        self.latency = Some(self.latency.map_or(latency, |quickest| quickest.min(latency)));
    }

    /// Records that `bytes` bytes of a range were not cached, and have been prefetched.
    pub(super) fn add_prefetched(&mut self, range: Range<u64>, bytes: u64) {
        self.prefetched_bytes += bytes;
        if bytes > 0 {
            self.waiting.push((range, bytes));
        }
    }

    /// Returns the prefetched bytes that a program at `position` has not reached. Bytes fetched by another program, or
    /// for another place in the same file, do not count: in a partly cached range they are assumed to be at the end.
    pub(super) fn wasted(&self, position: u64) -> u64 {
        let passed = |range: &Range<u64>| position.saturating_sub(range.start);
        self.waiting.iter().map(|(range, bytes)| bytes.saturating_sub(passed(range))).sum()
    }

    /// Records that the program has skipped this part of the sequence. Prefetched bytes are assumed to be evenly
    /// distributed in each range.
    pub(super) fn pass_over(&mut self, part: &Range<u64>) {
        for (range, bytes) in &mut self.waiting {
            let both = part.end.min(range.end).saturating_sub(part.start.max(range.start));
            let prefetched_bytes =
                u128::from(both) * u128::from(*bytes) / u128::from((range.end - range.start).max(1));
            let prefetched_bytes = u64::try_from(prefetched_bytes).unwrap_or(*bytes);
            (*bytes, self.passed_over) = (*bytes - prefetched_bytes, self.passed_over + prefetched_bytes);
        }
    }

    /// Records a move. The waiting time is attributed to the state in which the program arrived at the previous
    /// position.
    fn leave_spot(&mut self, helps: Help) {
        let (spent, help) = std::mem::replace(&mut self.spot, (Share::default(), helps));
        /// Stretches read without prefetching that are remembered: enough for the latencies that are derived from them.
        const STRETCHES_MAX: usize = 512;
        let is_first = self.alone.bytes + self.helped.bytes == 0;
        let is_open = std::mem::take(&mut self.visit.is_new);
        let passed = std::mem::take(&mut self.passed);
        let from = self.visit.offset;
        self.visit.offset += spent.bytes;
        if help == Help::Yes {
            self.helped.add(spent);
            self.visit.helped += spent.bytes.saturating_sub(passed);
            return;
        }
        if help == Help::Would {
            self.would_help.add(spent);
        }
        self.alone.add(spent);
        if self.alone_in.len() < STRETCHES_MAX && passed == 0 {
            let Share { io_wait, time, .. } = spent;
            let busy = time.saturating_sub(io_wait);
            self.alone_in.push(Stretch { bytes: from..self.visit.offset, is_first, is_open, io_wait, busy });
        }
    }

    /// Ends the visit of a file.
    fn end_visit(&mut self) {
        let Visit { was_begun, helped, .. } = std::mem::take(&mut self.visit);
        if helped == 0 {
            return;
        }
        // The first windows are short: the program waits twice for them, the first time for the file's first bytes.
        self.opened += u64::from(was_begun);
        self.long += u64::from(was_begun && helped > FIRST_WINDOW_BYTES);
        self.steady += if was_begun { helped.saturating_sub(self.ramp()) } else { helped };
    }

    /// Records that it has read a whole file of the sequence between two polls.
    pub(super) fn pass_by(&mut self, size: u64) {
        self.passed += size;
        if self.spot.1 == Help::Yes {
            self.opened += 1;
            self.long += u64::from(size > FIRST_WINDOW_BYTES);
            self.steady += size.saturating_sub(self.ramp());
        }
    }

    /// Ends the statistics.
    pub(super) fn end(&mut self) {
        self.end_visit();
        let (rest, help) = std::mem::take(&mut self.spot);
        let share = if help == Help::Yes { &mut self.helped } else { &mut self.alone };
        // The time for which it kept the file open afterwards is irrelevant.
        share.io_wait += rest.io_wait;
    }

    /// Returns the kernel's read-ahead window: twice the configured size for programs that announce sequential reading.
    /// Two such windows are in flight, so in that case more than two of the configured size were found.
    fn window(&self) -> u64 {
        let set = self.read_ahead;
        let is_double = self.window_seen.is_some_and(|seen| seen > 2 * set + set / 4);
        if is_double { 2 * set } else { set }
    }

    /// Derives the size of the kernel's windows from its first read for a call of `wants` bytes, if that is conclusive.
    pub(super) fn window_by_first(&mut self, wants: u64, found: u64) -> Option<u64> {
        let set = self.read_ahead;
        let mut fitting =
            [set, 2 * set].into_iter().filter(|&most| page_cache::first_window(wants, most) == found);
        let window = fitting.next().filter(|_| fitting.next().is_none())?;
        self.window_seen = Some(2 * window);
        Some(window)
    }

    /// Returns the offset up to which windows grow.
    fn ramp(&self) -> u64 {
        FIRST_WINDOW_BYTES + (2 * FIRST_WINDOW_BYTES).min(self.window()) + self.window()
    }

    /// Returns how often a program that reads from the beginning has waited before it reaches `offset`: before the
    /// first window; before the second, which arrives together with the third; then before every second one.
    fn waits(&self, offset: u64) -> u64 {
        match offset {
            0 => 0,
            1..=FIRST_WINDOW_BYTES => 1,
            _ => 2 + offset.saturating_sub(self.ramp()).div_ceil(2 * self.window()),
        }
    }

    /// Returns the latency of an access, measured by the follower or else in the program, and the time from one file to
    /// the first bytes of the next, as far as the program was observed without prefetching.
    fn latencies(&self) -> Option<(Nanos, Nanos)> {
        // The computing time between two waits has shortened the second one; half of it was spent on the window that
        // was available before the next one was requested.
        let (mut waits, mut io_wait) = (0, Nanos::ZERO);
        let first = self.alone_in.iter().find(|stretch| stretch.is_first);
        for stretch in self.alone_in.iter().filter(|stretch| !stretch.is_first && !stretch.is_open) {
            waits += self.waits(stretch.bytes.end) - self.waits(stretch.bytes.start);
            io_wait += stretch.io_wait + Nanos(stretch.busy.0 / 2);
        }
        let one = match (waits, first) {
            (0, first) => {
                let first = first.or_else(|| self.alone_in.iter().find(|stretch| stretch.is_open))?;
                Nanos(first.io_wait.0 / self.waits(first.bytes.end).max(1))
            }
            _ => Nanos(io_wait.0 / waits),
        };
        let one = self.latency.unwrap_or(one);
        let (mut opens, mut opening) = (0, Nanos::ZERO);
        for open in self.alone_in.iter().filter(|stretch| stretch.is_open && !stretch.is_first) {
            opens += 1;
            opening += open.io_wait.saturating_sub(Nanos(one.0 * (self.waits(open.bytes.end).max(1) - 1)));
        }
        Some((one, one.max(Nanos(opening.0 / opens.max(1)))))
    }

    /// Returns the elapsed time saved by the hidden waiting: a fraction of it that decreases with the number of
    /// concurrent readings.
    pub(super) fn saved(&self) -> Option<Nanos> {
        Some(share(self.hidden()?, self.helped.divided.0, self.helped.time.0))
    }

    /// Returns the additional time for which the program would have waited; `None` if nothing was prefetched, or
    /// nothing is known about its waits.
    ///
    /// The kernel requests a window when the program reaches the previous one, so two are in flight. A program that
    /// computes for `c` on one and waits for it `l` in total reaches the next one after `max(c, (c + l) / 2)`.
    pub(super) fn hidden(&self) -> Option<Nanos> {
        /// Windows that a program must have read without prefetching for this observation to take precedence over the
        /// model.
        const OBSERVED_WINDOWS_MIN: u64 = 16;
        if self.prefetched_bytes == 0 || self.helped.bytes == 0 {
            return None;
        }
        if self.alone_in.is_empty() {
            return None;
        }
        let Share { bytes, io_wait, time, .. } = self.helped;
        let window = self.window();
        let latencies = (window > 0).then(|| self.latencies()).flatten();
        let by_model = latencies.map(|(one, open)| {
            let busy = time.saturating_sub(io_wait);
            let computes = |part| share(busy, part, bytes);
            let opens = Nanos(open.0 * self.opened);
            let seconds = Nanos(one.saturating_sub(computes(FIRST_WINDOW_BYTES / 2)).0 * self.long);
            opens + seconds + share(one.saturating_sub(computes(window)), self.steady, 2 * window)
        });
        let as_alone = || (self.alone.bytes > 0).then(|| share(self.alone.io_wait, bytes, self.alone.bytes));
        // A long enough observation takes precedence over the model.
        let seen = || {
            as_alone().filter(|_| self.alone.bytes >= OBSERVED_WINDOWS_MIN * window.max(FIRST_WINDOW_BYTES))
        };
        let expected = seen().or(by_model).or_else(as_alone)?;
        // Other bytes were cached, or the kernel read them first and the program waited as without prefetching.
        let of_brought = share(expected, self.prefetched_bytes.min(bytes), bytes);
        Some(of_brought.min(expected.saturating_sub(io_wait)))
    }
}

/// Returns the fraction `part / whole` of a time; `part` may exceed `whole`.
pub(super) fn share(time: Nanos, part: u64, whole: u64) -> Nanos {
    let nanos = u128::from(time.0) * u128::from(part) / u128::from(whole.max(1));
    Nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
