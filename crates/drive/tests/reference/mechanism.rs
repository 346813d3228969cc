//! Naive model of arm and rotation, one sector after another: no plans, no runs, no tables.

use sakiyomi_drive::spec::{DriveSpec, SeekSpec, ServoSpec};

use crate::platter::Platter;

/// Returns the seek time, to the nearest nanosecond. (Datasheet curves have tests of their own beside the code.)
pub(crate) fn seek_time(seek: &SeekSpec, distance: u32) -> u64 {
    match seek {
        SeekSpec::Table { points } if distance == 0 => {
            points.iter().find(|point| point.0 == 0).map_or(0, |point| point.1.0)
        }
        _ if distance == 0 => 0,
        SeekSpec::Datasheet { .. } => unreachable!("the reference draws no datasheet curves"),
        SeekSpec::TwoPiece { threshold, short_base, short_per_root, long_base, long_per_cylinder, first } => {
            if let Some(time) = first.get(distance as usize - 1) {
                time.0
            } else if distance < *threshold {
                (short_base.0 as f64 + short_per_root.0 as f64 * f64::from(distance).sqrt()).round() as u64
            } else {
                long_base.0 + long_per_cylinder.0 * u64::from(distance)
            }
        }
        SeekSpec::Table { points } => {
            let points: Vec<(i128, i128)> =
                points.iter().map(|(d, t)| (i128::from(*d), i128::from(t.0))).collect();
            through(&points, i128::from(distance))
        }
    }
}

/// Interpolates linearly in integers: constant below the first point, extrapolated beyond the last.
fn through(points: &[(i128, i128)], at: i128) -> u64 {
    if at <= points[0].0 || points.len() == 1 {
        return points[0].1 as u64;
    }
    let line = points.windows(2).find(|pair| at <= pair[1].0).unwrap_or(&points[points.len() - 2..]);
    let ((x0, y0), (x1, y1)) = (line[0], line[1]);
    let (rise, run) = ((y1 - y0) * (at - x0), x1 - x0);
    // The nearest integer to y0 + rise / run; halves are rounded up.
    (2 * (y0 * run + rise) + run).div_euclid(2 * run).max(0) as u64
}

/// Mechanism of a naive drive.
#[derive(Clone, Debug)]
pub(crate) struct Mechanism {
    pub(crate) platter: Platter,
    servo: ServoSpec,
    pub(crate) cylinder: u32,
    pub(crate) head: u32,
}

/// The pass of one sector under the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pass {
    pub(crate) lba: u64,
    /// Arm movement, settling and head switch before it.
    pub(crate) travel: u64,
    pub(crate) begin: u64,
    pub(crate) end: u64,
}

impl Mechanism {
    pub(crate) fn new(spec: &DriveSpec) -> Mechanism {
        Mechanism { platter: Platter::new(spec), servo: spec.servo.clone(), cylinder: 0, head: 0 }
    }

    /// Returns the time of an access that begins at `now` until the head is on the sector's track and settled.
    pub(crate) fn travel(&self, lba: u64, now: u64, write: bool) -> u64 {
        let goes_on = self.distance(lba) == 0 && !self.changes_head(lba) && self.comes_round(lba, now) == now;
        if goes_on { 0 } else { self.moves(lba, write) }
    }

    /// Returns the time of a transfer in progress until the head is on the sector's track; zero on the same track.
    fn step(&self, lba: u64, write: bool) -> u64 {
        match (self.distance(lba), self.changes_head(lba)) {
            (0, false) => 0,
            (0, true) => self.settled(self.servo.head_switch.0, write),
            _ => self.moves(lba, write),
        }
    }

    fn distance(&self, lba: u64) -> u32 {
        self.cylinder.abs_diff(self.platter.sectors[lba as usize].cylinder)
    }

    fn changes_head(&self, lba: u64) -> bool {
        self.head != self.platter.sectors[lba as usize].head
    }

    fn moves(&self, lba: u64, write: bool) -> u64 {
        let curve = self.servo.seek_write.as_ref().filter(|_| write).unwrap_or(&self.servo.seek);
        let time = seek_time(curve, self.distance(lba));
        self.settled(if self.changes_head(lba) { time.max(self.servo.head_switch.0) } else { time }, write)
    }

    fn settled(&self, time: u64, write: bool) -> u64 {
        if write { time.saturating_add_signed(self.servo.write_settle.0) } else { time }
    }

    /// Returns when a sector's leading edge is under the head, at `from` or later.
    pub(crate) fn comes_round(&self, lba: u64, from: u64) -> u64 {
        let (angle, revolution) = (self.platter.sectors[lba as usize].angle, self.platter.revolution);
        let turn = from / revolution * revolution + angle;
        if turn >= from { turn } else { turn + revolution }
    }

    /// Returns the positioning time to a sector: arm movement and rotational latency.
    pub(crate) fn positioning(&self, lba: u64, now: u64, write: bool) -> u64 {
        self.comes_round(lba, now + self.travel(lba, now, write)) - now
    }

    /// Begins an access with a sector, which passes at `data_ready` or later: a write settles only then.
    pub(crate) fn begin(&mut self, lba: u64, now: u64, write: bool, data_ready: u64) -> Pass {
        let travel = self.travel(lba, now, write);
        let settling = if write { self.servo.write_settle.0.max(0) as u64 } else { 0 }.min(travel);
        self.pass(lba, now, (now + travel - settling).max(data_ready) + settling)
    }

    /// Continues a transfer with a sector, which passes at `data_ready` or later.
    pub(crate) fn go_on(&mut self, lba: u64, now: u64, write: bool, data_ready: u64) -> Pass {
        self.pass(lba, now, (now + self.step(lba, write)).max(data_ready))
    }

    fn pass(&mut self, lba: u64, now: u64, settled: u64) -> Pass {
        let begin = self.comes_round(lba, settled);
        let sector = self.platter.sectors[lba as usize];
        (self.cylinder, self.head) = (sector.cylinder, sector.head);
        Pass { lba, travel: settled - now, begin, end: begin + sector.width }
    }

    /// Makes an access to `first..last`, each sector passing at its `data_ready` or later.
    pub(crate) fn transfer(
        &mut self,
        (first, last): (u64, u64),
        now: u64,
        write: bool,
        data_ready: impl Fn(u64) -> u64,
    ) -> Vec<Pass> {
        let mut passes = vec![self.begin(first, now, write, data_ready(first))];
        for lba in first + 1..last {
            let end = passes[passes.len() - 1].end;
            passes.push(self.go_on(lba, end, write, data_ready(lba)));
        }
        passes
    }
}
