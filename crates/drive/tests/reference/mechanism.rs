//! Arm and rotation, one sector after another: no plans, no runs, no tables.

use sakiyomi_drive::spec::{DriveSpec, SeekSpec, ServoSpec};

use crate::platter::Platter;

/// Time over a distance, to the nearest nanosecond. (Datasheet curves have tests of their own beside the code.)
pub(crate) fn seek_time(seek: &SeekSpec, distance: u32) -> u64 {
    match seek {
        _ if distance == 0 => 0,
        SeekSpec::Datasheet { .. } => unreachable!("the reference draws no datasheet curves"),
        SeekSpec::TwoPiece { threshold, short_base, short_per_root, long_base, long_per_cylinder } => {
            if distance < *threshold {
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

/// Straight lines through points, in whole numbers; flat before the first, the last line goes on beyond the last.
fn through(points: &[(i128, i128)], at: i128) -> u64 {
    if at <= points[0].0 || points.len() == 1 {
        return points[0].1 as u64;
    }
    let line = points.windows(2).find(|pair| at <= pair[1].0).unwrap_or(&points[points.len() - 2..]);
    let ((x0, y0), (x1, y1)) = (line[0], line[1]);
    let (rise, run) = ((y1 - y0) * (at - x0), x1 - x0);
    // The nearest whole number to y0 + rise / run; halves go up.
    (2 * (y0 * run + rise) + run).div_euclid(2 * run).max(0) as u64
}

/// The moving parts of a naive drive.
#[derive(Clone, Debug)]
pub(crate) struct Mechanism {
    pub(crate) platter: Platter,
    servo: ServoSpec,
    pub(crate) cylinder: u32,
    pub(crate) head: u32,
}

/// One sector's way past the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pass {
    pub(crate) lba: u64,
    /// Arm movement, settling, head switch before it.
    pub(crate) travel: u64,
    pub(crate) begin: u64,
    pub(crate) end: u64,
}

impl Mechanism {
    pub(crate) fn new(spec: &DriveSpec) -> Mechanism {
        Mechanism { platter: Platter::new(spec), servo: spec.servo.clone(), cylinder: 0, head: 0 }
    }

    /// How long the arm takes to a sector.
    pub(crate) fn travel(&self, lba: u64, write: bool) -> u64 {
        let to = &self.platter.sectors[lba as usize];
        let distance = self.cylinder.abs_diff(to.cylinder);
        if distance == 0 && self.head == to.head {
            return 0;
        }
        let curve = self.servo.seek_write.as_ref().filter(|_| write).unwrap_or(&self.servo.seek);
        let mut time = seek_time(curve, distance);
        if self.head != to.head {
            time = time.max(self.servo.head_switch.0);
        }
        if write { time.saturating_add_signed(self.servo.write_settle.0) } else { time }
    }

    /// When a sector's leading edge is under the head, at `from` or after.
    pub(crate) fn comes_round(&self, lba: u64, from: u64) -> u64 {
        let (angle, revolution) = (self.platter.sectors[lba as usize].angle, self.platter.revolution);
        let turn = from / revolution * revolution + angle;
        if turn >= from { turn } else { turn + revolution }
    }

    /// Arm movement and rotational wait to a sector.
    pub(crate) fn positioning(&self, lba: u64, now: u64, write: bool) -> u64 {
        self.comes_round(lba, now + self.travel(lba, write)) - now
    }

    /// The arm goes to a sector and lets it pass, not before `data_ready`.
    pub(crate) fn pass(&mut self, lba: u64, now: u64, write: bool, data_ready: u64) -> Pass {
        let travel = (now + self.travel(lba, write)).max(data_ready) - now;
        let begin = self.comes_round(lba, now + travel);
        let sector = self.platter.sectors[lba as usize];
        (self.cylinder, self.head) = (sector.cylinder, sector.head);
        Pass { lba, travel, begin, end: begin + sector.width }
    }

    /// A whole transfer of `first..last`.
    pub(crate) fn transfer(&mut self, (first, last): (u64, u64), now: u64, write: bool) -> Vec<Pass> {
        let mut at = now;
        let mut one = |lba| {
            let pass = self.pass(lba, at, write, 0);
            at = pass.end;
            pass
        };
        (first..last).map(&mut one).collect()
    }
}
