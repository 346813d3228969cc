//! The arm and the platters: how long until the head is over a sector.

use sakiyomi_model::Nanos;

use crate::geometry::{Run, revolution};
use crate::seek;
use crate::spec::ServoSpec;

/// Where the arm stands: on a cylinder, with a head selected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Arm {
    pub(crate) cylinder: u32,
    pub(crate) head: u32,
}

/// Where a transfer would begin: all that positioning depends on, small enough to be weighed by the thousand.
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

/// The mechanism's times.
#[derive(Clone, Debug)]
pub(crate) struct Servo {
    revolution: u32,
    head_switch: u32,
    write_settle: i64,
    read: Vec<u32>,
    write: Option<Vec<u32>>,
    /// The angle under the heads at time 0.
    lead: u32,
    /// Of 2³² movements of the arm, so many lose a turn.
    lost_turns: u64,
    /// Movements so far, each a golden section of 2³² on: their places in it spread evenly, whatever follows what.
    moved: u32,
}

/// 2³² divided by the golden ratio.
const GOLDEN_SECTION: u32 = 0x9E37_79B9;

impl Servo {
    pub(crate) fn new(spec: &ServoSpec, cylinders: u32) -> Servo {
        Servo {
            revolution: revolution(spec.rpm).0 as u32,
            head_switch: spec.head_switch.0 as u32,
            write_settle: spec.write_settle.0,
            read: seek::table(&spec.seek, cylinders),
            write: spec.seek_write.as_ref().map(|curve| seek::table(curve, cylinders)),
            lead: 0,
            lost_turns: (spec.lost_turns * (1u64 << 32) as f64).round() as u64,
            moved: 0,
        }
    }

    pub(crate) fn revolution(&self) -> Nanos {
        Nanos(u64::from(self.revolution))
    }

    /// How long an access that begins anew takes until the head is on track: arm movement or head switch, whichever
    /// takes longer, settled for what follows. `phase` is the angle under the heads now. Where the head stands on the
    /// very edge of the sector already, the access goes on where another ended, and waits for nothing.
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

    /// What is lost when the arm, which has moved, is not on track at first.
    pub(crate) fn lost(&mut self) -> Nanos {
        self.moved = self.moved.wrapping_add(GOLDEN_SECTION);
        if u64::from(self.moved) < self.lost_turns { self.revolution() } else { Nanos::ZERO }
    }

    /// How long a transfer takes to the next track.
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

    /// What a write's travel holds for settling to write, at its end.
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

    /// How long after the arm arrives the sector comes round. `phase` is the angle under the heads when it set out.
    #[inline]
    pub(crate) fn wait(&self, phase: u32, travel: u32, to: Target) -> u32 {
        let arrival = (phase + travel) % self.revolution;
        if to.angle >= arrival { to.angle - arrival } else { to.angle + self.revolution - arrival }
    }

    /// Sets the angle under the heads at time 0, in nanoseconds.
    pub(crate) fn turn(&mut self, lead: Nanos) {
        self.lead = (lead.0 % u64::from(self.revolution)) as u32;
    }

    /// The angle under the heads at an instant.
    #[inline]
    pub(crate) fn phase(&self, now: Nanos) -> u32 {
        ((now.0 + u64::from(self.lead)) % u64::from(self.revolution)) as u32
    }
}
