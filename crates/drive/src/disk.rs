//! The device that a [`DriveSpec`] describes: one drive, or an array of equal drives.

use sakiyomi_model::{Bytes, Completion, Device, Full, Nanos, Request, Sectors};

use crate::array::Array;
use crate::controller::Drive;
use crate::spec::{DriveSpec, SpecError};
use crate::usage::{DiskTime, Seeks, Usage};

/// A simulated device that accounts for the time of its mechanism.
pub trait Simulated: Device {
    /// Returns the mechanism's time and seek counts from 0 until `now`; the sum over the drives of an array.
    fn usage(&self, now: Nanos) -> Usage;

    /// Returns the number of requests in the device.
    fn outstanding(&self) -> usize;
}

impl Simulated for Drive {
    fn usage(&self, now: Nanos) -> Usage {
        Drive::usage(self, now)
    }

    fn outstanding(&self) -> usize {
        Drive::outstanding(self)
    }
}

impl<D: Simulated> Simulated for Array<D> {
    fn usage(&self, now: Nanos) -> Usage {
        let none = Usage { time: DiskTime::default(), seeks: Seeks::default() };
        self.members().map(|member| member.usage(now)).fold(none, |sum, usage| sum + usage)
    }

    fn outstanding(&self) -> usize {
        Array::outstanding(self)
    }
}

/// A drive, or an array of drives.
#[derive(Clone, Debug)]
pub enum Disk {
    /// A single drive.
    Drive(Box<Drive>),
    /// An array.
    Array(Box<Array<Drive>>),
}

impl Disk {
    /// Creates what `spec` describes, as [`Drive::new`] does. The spindles of an array are evenly spread over a
    /// revolution, because nothing synchronizes them.
    ///
    /// # Errors
    /// [`SpecError::Impossible`] if the parameters are inconsistent.
    pub fn new(spec: &DriveSpec) -> Result<Disk, SpecError> {
        spec.check()?;
        let Some(array) = &spec.array else { return Ok(Disk::Drive(Box::new(Drive::new(spec)?))) };
        let single = DriveSpec { array: None, ..spec.clone() };
        let drive = Drive::new(&single)?;
        let members = (0..u64::from(array.members)).map(|number| {
            let mut member = drive.clone();
            member.turn_spindle(drive.revolution() * number / u64::from(array.members));
            member
        });
        Ok(Disk::Array(Box::new(Array::new(array, members.collect()))))
    }

    /// Returns the time of one revolution.
    #[must_use]
    pub fn revolution(&self) -> Nanos {
        match self {
            Disk::Drive(drive) => drive.revolution(),
            Disk::Array(array) => array.members().map(Drive::revolution).max().unwrap_or_default(),
        }
    }

    /// Sets the phase of the first spindle, as [`Drive::turn_spindle`] does; those of an array keep their distances.
    pub fn turn_spindle(&mut self, lead: Nanos) {
        match self {
            Disk::Drive(drive) => drive.turn_spindle(lead),
            Disk::Array(array) => {
                let members = array.members().count() as u64;
                for (number, member) in (0..).zip(array.members_mut()) {
                    member.turn_spindle(lead + member.revolution() * number / members);
                }
            }
        }
    }
}

/// Evaluates an expression for the drive or the array.
macro_rules! either {
    ($disk:expr, $device:ident => $result:expr) => {
        match $disk {
            Disk::Drive($device) => $result,
            Disk::Array($device) => $result,
        }
    };
}

impl Simulated for Disk {
    fn usage(&self, now: Nanos) -> Usage {
        match self {
            Disk::Drive(drive) => Drive::usage(drive, now),
            Disk::Array(array) => array.as_ref().usage(now),
        }
    }

    fn outstanding(&self) -> usize {
        either!(self, device => device.outstanding())
    }
}

impl Device for Disk {
    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Full> {
        either!(self, device => device.submit(now, request))
    }

    fn next_event(&self) -> Option<Nanos> {
        either!(self, device => device.next_event())
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        either!(self, device => device.advance(now, done));
    }

    fn capacity(&self) -> Sectors {
        either!(self, device => device.capacity())
    }

    fn sector(&self) -> Bytes {
        either!(self, device => device.sector())
    }

    fn depth(&self) -> u32 {
        either!(self, device => device.depth())
    }

    fn busy(&self, now: Nanos) -> Nanos {
        either!(self, device => device.busy(now))
    }
}
