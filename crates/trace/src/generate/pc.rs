//! A desktop workload: a structured imitation of the disk accesses of desktop programs.
//!
//! Modeled on the storage suite of PC benchmarks such as PCMark 7: rounds of application starts, media import, virus
//! scan, video editing and gaming. Files lie in extents on a large disk; a phase reads and writes its own files, a few
//! of them at a time, in bursts with pauses between. The workload is designed for studies of read-ahead, so reads are
//! of four explicit kinds, whose shares are parameters ([`PcParams`]):
//!
//! - *sequential*: begins where the file's last read ended. Any read-ahead makes it a hit.
//! - *skip*: begins further on in the same extent, by a distance from `skip_min` to `skip_max`. A read-ahead longer
//!   than the distance makes it a hit, a shorter one a near miss.
//! - *metadata*: rereads one of a few positions of directories and allocation tables.
//! - *jump*, the rest: a random position of a file. No read-ahead helps.
//!
//! A read that would reach the end of its extent jumps instead, so jumps are slightly more frequent than the shares
//! imply.

mod layout;
mod phase;

use std::collections::VecDeque;

use sakiyomi_model::{Bytes, Nanos, Op, StreamId};

use super::require;
use super::sample::{Sampler, Sizes};
use crate::error::TraceError;
use crate::record::Record;
use layout::Layout;
use phase::{PHASES, Phase, Reader};

/// Minimum size of the disk on which the files are laid out.
pub const SPAN_MIN: Bytes = Bytes(16 << 30);
/// Maximum number of rounds of a trace.
const ROUNDS_MAX: u32 = 10_000;

/// Parameters of the desktop workload.
#[derive(Clone, Debug, PartialEq)]
pub struct PcParams {
    /// Size of the disk, over which the files are spread. At least [`SPAN_MIN`].
    pub span: Bytes,
    /// Duration of the trace; the last command is issued shortly before its end. In a closed loop, the sum of the think
    /// times.
    pub duration: Nanos,
    /// Whether the times between commands are think times: the benchmark waits for each command, then computes, and
    /// issues the next one.
    pub closed_loop: bool,
    /// Number of commands, reads and writes.
    pub commands: u64,
    /// Number of rounds of the five phases, from 1 to 10,000.
    pub rounds: u32,
    /// Mean time between the commands of a burst.
    pub command_gap: Nanos,
    /// Mean number of commands in a burst.
    pub burst_commands: u32,
    /// Sizes of reads.
    pub read_sizes: Sizes,
    /// Sizes of data writes.
    pub write_sizes: Sizes,
    /// Share of writes among the commands, from 0 to below 1; it varies between phases. One write in four goes to the
    /// file system's log.
    pub write_share: f64,
    /// Share of reads that begin where the last one of the same file ended.
    pub sequential: f64,
    /// Share of reads that skip forward in the same extent.
    pub skip: f64,
    /// Minimum skip.
    pub skip_min: Bytes,
    /// Maximum skip; skips are log-uniformly distributed.
    pub skip_max: Bytes,
    /// Share of reads that reread metadata.
    pub metadata: f64,
    /// Share of reads at which a phase switches to another of its open files.
    pub turn: f64,
    /// Share of files with several extents.
    pub fragmented: f64,
    /// Mean extent size of such a file.
    pub fragment: Bytes,
}

/// Calibrated so that on a 7200 rpm drive with 16 segments of 512 KiB a read-ahead of 64 KiB hits about 39 % of the
/// reads and one of 384 KiB about 72 %, as published (Hosogi 2013, table 4); the other parameters are plausible
/// guesses.
impl Default for PcParams {
    fn default() -> PcParams {
        PcParams {
            span: Bytes(200_000_000_000),
            duration: Nanos::SECOND * 1020,
            closed_loop: false,
            commands: 11_500,
            rounds: 2,
            command_gap: Nanos::MILLISECOND * 14,
            burst_commands: 24,
            read_sizes: Sizes::Weighted(vec![
                (Bytes(16 << 10), 2),
                (Bytes(32 << 10), 3),
                (Bytes(64 << 10), 4),
                (Bytes(128 << 10), 1),
            ]),
            write_sizes: Sizes::Weighted(vec![(Bytes(16 << 10), 1), (Bytes(64 << 10), 3)]),
            write_share: 0.15,
            sequential: 0.52,
            skip: 0.25,
            skip_min: Bytes(64 << 10),
            skip_max: Bytes(112 << 10),
            metadata: 0.03,
            turn: 0.1,
            fragmented: 0.25,
            fragment: Bytes(8 << 20),
        }
    }
}

impl PcParams {
    /// Returns the records generated with `seed`, in order of time; stream k is phase k.
    ///
    /// # Errors
    /// [`TraceError::Parameter`] if a parameter is out of range.
    pub fn records(&self, seed: u64) -> Result<PcRecords, TraceError> {
        self.check()?;
        let mut sampler = Sampler::new(seed);
        let layout = Layout::new(self, &mut sampler);
        let readers = PHASES.iter().map(|phase| Reader::new(phase, &layout, &mut sampler)).collect();
        Ok(PcRecords {
            params: self.clone(),
            layout,
            readers,
            sampler,
            written: 0,
            now: Nanos::ZERO,
            burst: VecDeque::new(),
        })
    }

    fn check(&self) -> Result<(), TraceError> {
        let share = |value: f64| (0.0..=1.0).contains(&value);
        require(self.span >= SPAN_MIN, "the span", self.span, "at least 16 GiB")?;
        require(self.span.0 <= 1 << 50, "the span", self.span, "at most 1 PiB")?;
        require(
            (1..=ROUNDS_MAX).contains(&self.rounds),
            "the number of rounds",
            self.rounds,
            "from 1 to 10,000",
        )?;
        require(self.burst_commands > 0, "the commands of a burst", self.burst_commands, "at least 1")?;
        for sizes in [&self.read_sizes, &self.write_sizes] {
            sizes.check()?;
            let longest = sizes.longest();
            require(longest <= layout::COMMAND_MAX, "the command's size", longest, "at most 256 KiB")?;
        }
        let reads = self.sequential + self.skip + self.metadata;
        let kinds = [self.sequential, self.skip, self.metadata].into_iter().all(share) && share(reads);
        require(
            kinds,
            "the sum of sequential, skip and metadata reads",
            reads,
            "of shares from 0 to 1, at most 1",
        )?;
        let others = share(self.write_share) && share(self.turn) && share(self.fragmented);
        let shown = format!("{}, {}, {}", self.write_share, self.turn, self.fragmented);
        require(others, "one of the shares of writes, turns and fragmented files", shown, "from 0 to 1")?;
        let skips = self.skip_min <= self.skip_max && !self.skip_min.is_zero();
        require(skips, "the shortest skip", self.skip_min, "longer than 0 and no longer than the longest")?;
        let fragment = self.fragment >= layout::COMMAND_MAX;
        require(fragment, "the size of a fragment", self.fragment, "at least 256 KiB")
    }
}

/// The records of [`PcParams`].
pub struct PcRecords {
    params: PcParams,
    layout: Layout,
    readers: Vec<Reader>,
    sampler: Sampler,
    /// Number of commands generated.
    written: u64,
    now: Nanos,
    /// Remaining commands of the current burst.
    burst: VecDeque<Record>,
}

impl std::fmt::Debug for PcRecords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PcRecords").field("written", &self.written).finish_non_exhaustive()
    }
}

impl PcRecords {
    /// Generates the next burst if the current one has ended and commands are left.
    fn fill_empty(&mut self) {
        if self.burst.is_empty() && self.written < self.params.commands {
            self.fill();
        }
    }

    /// Generates the next burst, which begins at its share of the duration by number of commands, or at the end of the
    /// previous burst if that is later.
    fn fill(&mut self) {
        let due = self.params.duration.as_secs_f64() * self.written as f64 / self.params.commands as f64;
        self.now = self.now.max(Nanos::from_secs_f64(due));
        let (at, left) = self.phase();
        let mean = f64::from(self.params.burst_commands);
        let wanted = self.sampler.exponential(mean).ceil().max(1.0) as u64;
        for _ in 0..wanted.min(left) {
            let record = self.command(at);
            self.burst.push_back(record);
            let gap = self.sampler.exponential(self.params.command_gap.as_secs_f64());
            self.now = self.now.saturating_add(Nanos::from_secs_f64(gap));
        }
        self.written += wanted.min(left);
    }

    /// Returns the current phase, and the number of its commands left in this round.
    fn phase(&self) -> (usize, u64) {
        let total = u128::from(self.params.commands);
        let slots = u128::from(self.params.rounds) * u128::from(phase::WEIGHT_TOTAL);
        // Number of commands before a phase boundary, given in hundredths of a round.
        let boundary = |slot: u128| (total * slot / slots) as u64;
        // The current round, or the previous one if the boundaries were rounded.
        let round = u128::from(self.written) * u128::from(self.params.rounds) / total.max(1);
        let mut slot = round.saturating_sub(1) * u128::from(phase::WEIGHT_TOTAL);
        loop {
            for (at, phase) in PHASES.iter().enumerate() {
                slot += u128::from(phase.weight);
                let end = boundary(slot);
                if self.written < end || slot >= slots {
                    return (at, end.saturating_sub(self.written).max(1));
                }
            }
        }
    }

    fn command(&mut self, at: usize) -> Record {
        let phase: &Phase = &PHASES[at];
        let write_share = (self.params.write_share * phase.write_factor).min(1.0);
        let (op, offset, length) = if self.sampler.chance(write_share) {
            let (offset, length) = self.write();
            (Op::Write, offset, length)
        } else {
            let (offset, length) = self.readers[at].read(&self.params, &self.layout, &mut self.sampler);
            (Op::Read, offset, length)
        };
        Record { stream: StreamId(at as u32), ..Record::new(self.now, op, offset, length) }
    }

    /// Returns the extent of a write: to the log, or to the area for new files.
    fn write(&mut self) -> (Bytes, Bytes) {
        /// Share of writes that go to the file system's log.
        const LOG_WRITE_RATIO: f64 = 0.25;
        /// Size of a write to the log: one file system block.
        const LOG_WRITE_BYTES: Bytes = Bytes(4096);
        if self.sampler.chance(LOG_WRITE_RATIO) {
            return (self.layout.log.advance(LOG_WRITE_BYTES), LOG_WRITE_BYTES);
        }
        let length = self.params.write_sizes.sample(&mut self.sampler);
        (self.layout.output.advance(length), length)
    }
}

impl Iterator for PcRecords {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        self.fill_empty();
        let record = self.burst.pop_front()?;
        if !self.params.closed_loop {
            return Some(record);
        }
        self.fill_empty();
        let next = self.burst.front().map_or(record.time, |next| next.time);
        let think = Some(next.saturating_sub(record.time));
        Some(Record { time: Nanos::ZERO, think, ..record })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(seed: u64) -> Vec<Record> {
        PcParams::default().records(seed).unwrap().collect()
    }

    #[test]
    fn a_run_has_its_commands_duration_and_span() {
        let params = PcParams::default();
        for seed in 0..3 {
            let records = records(seed);
            assert_eq!(records.len() as u64, params.commands);
            assert!(records.is_sorted_by_key(|record| record.time));
            assert!(records.iter().all(|record| record.end() <= params.span));
            let last = records.last().unwrap().time;
            assert!(last > params.duration * 95 / 100 && last < params.duration * 105 / 100, "{last}");
        }
        assert_eq!(records(1), records(1));
        assert_ne!(records(1), records(2));
    }

    #[test]
    fn a_closed_loop_has_the_same_commands_and_thinks_as_long_as_the_run() {
        let timed = records(1);
        let params = PcParams { closed_loop: true, ..PcParams::default() };
        let closed: Vec<_> = params.records(1).unwrap().collect();
        let mut issued = Nanos::ZERO;
        assert_eq!(closed.len(), timed.len());
        for (closed, timed) in closed.iter().zip(&timed) {
            assert_eq!(issued, timed.time);
            assert_eq!((closed.time, closed.op, closed.offset), (Nanos::ZERO, timed.op, timed.offset));
            issued += closed.think.unwrap();
        }
    }

    #[test]
    fn reads_are_of_the_kinds_asked_for() {
        let params = PcParams { turn: 0.0, metadata: 0.0, write_share: 0.0, ..PcParams::default() };
        let records: Vec<_> = params.records(4).unwrap().collect();
        // A read that reaches the end of its extent jumps instead, which reduces either share by a few hundredths.
        const LOST_MAX: f64 = 0.05;
        let share = |wanted: &dyn Fn(i128) -> bool| {
            let distance = |pair: &[Record]| i128::from(pair[1].offset.0) - i128::from(pair[0].end().0);
            records.windows(2).filter(|pair| wanted(distance(pair))).count() as f64 / records.len() as f64
        };
        let skips = i128::from(params.skip_min.0)..=i128::from(params.skip_max.0);
        let lost = params.sequential - share(&|distance| distance == 0);
        assert!((-0.02..LOST_MAX).contains(&lost), "{lost}");
        let lost = params.skip - share(&|distance| skips.contains(&distance));
        assert!((-0.02..LOST_MAX).contains(&lost), "{lost}");
    }

    #[test]
    fn odd_parameters_end_all_the_same() {
        let base = PcParams { span: SPAN_MIN, ..PcParams::default() };
        for (commands, rounds) in [(0, 1), (1, 1), (3, 7), (100, 1000), (100, ROUNDS_MAX)] {
            let params = PcParams { commands, rounds, fragmented: 1.0, ..base.clone() };
            assert_eq!(params.records(0).unwrap().count() as u64, commands);
        }
        assert!(PcParams { skip: 0.9, ..base.clone() }.records(0).is_err());
        assert!(PcParams { span: Bytes(1 << 30), ..base }.records(0).is_err());
    }
}
