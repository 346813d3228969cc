//! Detects programs that appear to read without moving a position. Pure.
//!
//! A program that receives bytes, or waits for I/O, while no position moves that would explain it, reads by `pread` or
//! through a mapping.

use sakiyomi_model::Nanos;

use super::times::CpuIoTimes;

/// Signs that a program reads without moving a position.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PositionlessDetector {
    /// The last state without a sign, and the first sign since then.
    from: ProgramTotals,
    first: Option<(ApparentActivity, ProgramTotals)>,
}

/// Totals of a program.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ProgramTotals {
    pub(super) at: Nanos,
    pub(super) spent: CpuIoTimes,
    /// Bytes by which it has moved positions.
    pub(super) moved: u64,
    /// Page faults.
    pub(super) faults: u64,
}

/// Apparent activity of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ApparentActivity {
    /// It reads bytes.
    Reads,
    /// It waits for pages.
    Faults,
}

/// Waiting time between two polls below which there is nothing to explain.
const WAIT_MIN_TIME: Nanos = Nanos(8_000_000);

impl PositionlessDetector {
    /// Returns whether there may be a sign, for which the number of faults is needed.
    pub(super) fn waits(&self, spent: CpuIoTimes) -> bool {
        spent.io_wait.saturating_sub(self.from.spent.io_wait) >= WAIT_MIN_TIME
    }

    /// Returns a sign, and the time since which it holds. It must be confirmed: positions and totals are not sampled at
    /// the same instant, and a program that waits for the first bytes of a file has none yet.
    pub(super) fn see(&mut self, sight: ProgramTotals) -> Option<(ApparentActivity, Nanos)> {
        /// Time within which a sign must be confirmed by another of its kind.
        const CONFIRMATION_TIMEOUT: Nanos = Nanos(200_000_000);
        /// Major faults that confirm that a program waits for pages.
        const FAULTS_MIN: u64 = 2;
        let sign = sight.sign_since(&self.from);
        let since = self.from.at;
        let (mut goes_on, mut is_over) = (false, sight.at.saturating_sub(since) > CONFIRMATION_TIMEOUT);
        if let Some((before, first)) = self.first.filter(|(before, _)| sign == Some(*before)) {
            let more = match before {
                ApparentActivity::Reads => sight.spent.read > first.spent.read,
                ApparentActivity::Faults => sight.faults.saturating_sub(first.faults) >= FAULTS_MIN,
            };
            let io_wait = sight.spent.io_wait.saturating_sub(first.spent.io_wait) >= WAIT_MIN_TIME / 2;
            goes_on = io_wait && more;
            // Bytes read before the waiting began are no evidence.
            is_over |= io_wait && before == ApparentActivity::Reads;
        } else {
            self.first = sign.map(|sign| (sign, sight));
        }
        if goes_on || is_over {
            *self = PositionlessDetector { from: sight, first: None };
        }
        sign.filter(|_| goes_on).map(|sign| (sign, since))
    }
}

impl ProgramTotals {
    fn sign_since(&self, from: &ProgramTotals) -> Option<ApparentActivity> {
        /// Bytes that no followed position accounts for, from which a sign is given.
        const UNEXPLAINED_MIN_BYTES: u64 = 64 << 10;
        let got = |sight: &ProgramTotals| sight.spent.read.unwrap_or(0);
        let read = got(self).saturating_sub(got(from));
        let went = self.moved.saturating_sub(from.moved);
        let unexplained = read.saturating_sub(went);
        match () {
            () if self.spent.io_wait.saturating_sub(from.spent.io_wait) < WAIT_MIN_TIME => None,
            () if unexplained >= UNEXPLAINED_MIN_BYTES && unexplained >= read / 2 => {
                Some(ApparentActivity::Reads)
            }
            () if read < UNEXPLAINED_MIN_BYTES && went == 0 => Some(ApparentActivity::Faults),
            () => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: u64 = 1_000_000;

    fn sight(at: u64, io_wait: u64, read: u64, moved: u64, faults: u64) -> ProgramTotals {
        let spent = CpuIoTimes {
            io_wait: Nanos(io_wait * MILLISECOND),
            read: Some(read << 10),
            ..CpuIoTimes::default()
        };
        ProgramTotals { at: Nanos(at * MILLISECOND), spent, moved: moved << 10, faults }
    }

    /// Runs the detector with samples every 5 ms of a program with these amounts per sample.
    fn first_sign(io_wait: u64, read: u64, moved: u64, faults: u64) -> Option<ApparentActivity> {
        let mut signs = PositionlessDetector::default();
        (1..400u64).find_map(|step| {
            let seen = signs.see(sight(5 * step, step * io_wait, step * read, step * moved, step * faults));
            seen.map(|(sign, _)| sign)
        })
    }

    #[test]
    fn only_who_waits_for_what_no_position_explains_gives_a_sign() {
        assert_eq!(first_sign(3, 64, 0, 0), Some(ApparentActivity::Reads));
        assert_eq!(first_sign(3, 64, 64, 0), None, "by read");
        assert_eq!(first_sign(0, 64, 0, 0), None, "it does not wait");
        assert_eq!(
            first_sign(3, 0, 0, 1),
            Some(ApparentActivity::Faults),
            "it gets nothing and waits all the same"
        );
        assert_eq!(first_sign(3, 0, 0, 0), None, "it does not wait for a mapping");
        assert_eq!(first_sign(3, 64, 64, 9), None, "it needs memory");
        assert_eq!(first_sign(3, 64, 60, 0), None, "a little goes through a pipe");
    }

    #[test]
    fn who_waits_for_the_first_bytes_of_a_file_gives_no_sign() {
        let mut signs = PositionlessDetector::default();
        // A hundred pages of the program itself.
        assert!(signs.see(sight(1, 1, 4, 0, 100)).is_none());
        for at in 9..12 {
            assert!(signs.see(sight(at, at - 1, 4, 0, 100)).is_none());
        }
        assert!(signs.see(sight(12, 10, 128, 128, 101)).is_none());
        assert!(signs.see(sight(22, 20, 256, 256, 102)).is_none());
    }

    #[test]
    fn what_was_got_at_the_start_does_not_hide_who_waits_for_pages() {
        let mut signs = PositionlessDetector::default();
        assert!((0..10).all(|at| signs.see(sight(at, 0, at * 100, 0, at * 50)).is_none()));
        let found = (10..60).find_map(|at| signs.see(sight(at, at - 10, 900, 0, 450 + at / 5)));
        assert_eq!(found.map(|(sign, _)| sign), Some(ApparentActivity::Faults));
    }

    #[test]
    fn a_position_that_is_seen_late_is_no_sign() {
        let mut signs = PositionlessDetector::default();
        assert!(signs.see(sight(1, 10, 128, 0, 0)).is_none());
        assert!(signs.see(sight(2, 10, 128, 128, 0)).is_none());
        assert!(signs.see(sight(3, 20, 256, 128, 0)).is_none());
    }
}
