//! Positioning: seek, head switch, settling and rotational latency.

use sakiyomi_model::Nanos;

use crate::geometry::{Run, revolution};
use crate::seek;
use crate::spec::ServoSpec;

/// Position of the arm: a cylinder and the selected head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Arm {
    pub(crate) cylinder: u32,
    pub(crate) head: u32,
}

/// Start of a transfer: all that positioning depends on, kept small because thousands are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) cylinder: u32,
    pub(crate) head: u32,
    /// Angle in nanoseconds, below one revolution.
    pub(crate) angle: u32,
}

impl From<&Run> for Target {
    fn from(run: &Run) -> Target {
        Target { cylinder: run.cylinder, head: run.head, angle: run.angle.0 as u32 }
    }
}

/// Timing of the mechanism.
#[derive(Clone, Debug)]
pub(crate) struct Servo {
    revolution: u32,
    head_switch: u32,
    write_settle: i64,
    read: Vec<u32>,
    write: Option<Vec<u32>>,
    /// Shortest travel over the distances of a block of [`BLOCK_CYLINDERS_MIN`] and all longer ones.
    least: Vec<u32>,
    /// Angle under the heads at time 0.
    lead: u32,
    /// Number of arm movements out of 2³² that lose a revolution.
    lost_turns: u64,
    /// Low-discrepancy sequence of arm movements: each advances by the golden section of 2³², which spreads the lost
    /// revolutions evenly.
    moved: u32,
}

/// 2³² divided by the golden ratio.
const GOLDEN_SECTION: u32 = 0x9E37_79B9;

/// Distances per entry of [`Servo::least`].
const BLOCK_CYLINDERS_MIN: u32 = 64;

impl Servo {
    pub(crate) fn new(spec: &ServoSpec, cylinders: u32) -> Servo {
        let mut servo = Servo {
            least: Vec::new(),
            revolution: revolution(spec.rpm).0 as u32,
            head_switch: spec.head_switch.0 as u32,
            write_settle: spec.write_settle.0,
            read: seek::table(&spec.seek, cylinders),
            write: spec.seek_write.as_ref().map(|curve| seek::table(curve, cylinders)),
            lead: 0,
            lost_turns: (spec.lost_turns * (1u64 << 32) as f64).round() as u64,
            moved: 0,
        };
        servo.least = servo.least_travels();
        servo
    }

    fn least_travels(&self) -> Vec<u32> {
        let blocks = |table: &[u32], write| {
            let times = table.chunks(BLOCK_CYLINDERS_MIN as usize);
            times.map(|block| self.settled(block.iter().copied().min().unwrap_or(0), write)).collect()
        };
        let (mut least, write): (Vec<u32>, Vec<u32>) =
            (blocks(self.curve(false), false), blocks(self.curve(true), true));
        let mut shortest = u32::MAX;
        for (read, write) in least.iter_mut().zip(write).rev() {
            shortest = shortest.min(*read).min(write);
            *read = shortest;
        }
        least
    }

    /// Returns a lower bound of [`travel`](Self::travel) over at least `distance` cylinders, which does not fall with the
    /// distance.
    #[inline]
    pub(crate) fn least_travel(&self, distance: u32) -> u32 {
        // On its own cylinder an access that continues another takes no time.
        if distance == 0 { 0 } else { self.least[(distance / BLOCK_CYLINDERS_MIN) as usize] }
    }

    pub(crate) fn revolution(&self) -> Nanos {
        Nanos(u64::from(self.revolution))
    }

    /// Returns the time until the head is on track for a new access: the longer of seek and head switch, plus settling
    /// for a write. `phase` is the angle under the heads now. If the head stands on the very edge of the sector, the
    /// access continues another and takes no time.
    #[inline]
    pub(crate) fn travel(&self, phase: u32, from: Arm, to: Target, write: bool) -> u32 {
        if phase == to.angle && from.cylinder == to.cylinder && from.head == to.head {
            return 0;
        }
        let time = self.curve(write)[from.cylinder.abs_diff(to.cylinder) as usize];
        self.settled(if from.head == to.head { time } else { time.max(self.head_switch) }, write)
    }

    pub(crate) fn loses_turns(&self) -> bool {
        self.lost_turns > 0
    }

    /// Returns the revolution lost by an arm movement that does not settle on track at first, or zero.
    pub(crate) fn lost(&mut self) -> Nanos {
        self.moved = self.moved.wrapping_add(GOLDEN_SECTION);
        if u64::from(self.moved) < self.lost_turns { self.revolution() } else { Nanos::ZERO }
    }

    /// Returns the time that a transfer takes to move to the next track.
    pub(crate) fn step(&self, from: Arm, to: Target, write: bool) -> u32 {
        let distance = from.cylinder.abs_diff(to.cylinder);
        if distance > 0 {
            let time = self.curve(write)[distance as usize];
            self.settled(if from.head == to.head { time } else { time.max(self.head_switch) }, write)
        } else if from.head != to.head {
            self.settled(self.head_switch, write)
        } else {
            0
        }
    }

    /// Returns the settling time for writing that is contained in a write's travel, at its end.
    pub(crate) fn write_settle(&self) -> u32 {
        self.write_settle.clamp(0, i64::from(u32::MAX / 2)) as u32
    }

    fn curve(&self, write: bool) -> &[u32] {
        if write { self.write.as_ref().unwrap_or(&self.read) } else { &self.read }
    }

    fn settled(&self, time: u32, write: bool) -> u32 {
        if !write {
            return time;
        }
        (i64::from(time) + self.write_settle).clamp(0, i64::from(u32::MAX / 2)) as u32
    }

    /// Returns the rotational latency after the arm arrives. `phase` is the angle under the heads when it started.
    #[inline]
    pub(crate) fn rotational_latency(&self, phase: u32, travel: u32, to: Target) -> u32 {
        let arrival = (phase + travel) % self.revolution;
        if to.angle >= arrival { to.angle - arrival } else { to.angle + self.revolution - arrival }
    }

    /// Sets the angle under the heads at time 0, in nanoseconds.
    pub(crate) fn turn(&mut self, lead: Nanos) {
        self.lead = (lead.0 % u64::from(self.revolution)) as u32;
    }

    /// Returns the angle under the heads at an instant.
    #[inline]
    pub(crate) fn phase(&self, now: Nanos) -> u32 {
        ((now.0 + u64::from(self.lead)) % u64::from(self.revolution)) as u32
    }
}
