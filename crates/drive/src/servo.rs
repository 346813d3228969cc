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
}

impl Servo {
    pub(crate) fn new(spec: &ServoSpec, cylinders: u32) -> Servo {
        Servo {
            revolution: revolution(spec.rpm).0 as u32,
            head_switch: spec.head_switch.0 as u32,
            write_settle: spec.write_settle.0,
            read: seek::table(&spec.seek, cylinders),
            write: spec.seek_write.as_ref().map(|curve| seek::table(curve, cylinders)),
        }
    }

    pub(crate) fn revolution(&self) -> Nanos {
        Nanos(u64::from(self.revolution))
    }

    /// Arm movement or head switch, whichever takes longer, settled for what follows.
    #[inline]
    pub(crate) fn travel(&self, from: Arm, to: Target, write: bool) -> u32 {
        let distance = from.cylinder.abs_diff(to.cylinder);
        let curve = if write { self.write.as_ref().unwrap_or(&self.read) } else { &self.read };
        let mut time = curve[distance as usize];
        if from.head != to.head {
            time = time.max(self.head_switch);
        }
        if write && (distance > 0 || from.head != to.head) {
            time = (i64::from(time) + self.write_settle).clamp(0, i64::from(u32::MAX / 2)) as u32;
        }
        time
    }

    /// How long after the arm arrives the sector comes round. `phase` is the angle under the heads when it set out.
    #[inline]
    pub(crate) fn wait(&self, phase: u32, travel: u32, to: Target) -> u32 {
        let arrival = (phase + travel) % self.revolution;
        if to.angle >= arrival { to.angle - arrival } else { to.angle + self.revolution - arrival }
    }

    /// The angle under the heads at an instant.
    #[inline]
    pub(crate) fn phase(&self, now: Nanos) -> u32 {
        (now.0 % u64::from(self.revolution)) as u32
    }
}
