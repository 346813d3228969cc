//! How a trace is to be read.

use sakiyomi_model::Nanos;

use crate::error::TraceError;
use crate::format::kind::Format;

/// What to do with a trace of several devices when none of them is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceMap {
    /// Stop with an error at the second device.
    #[default]
    Refuse,
    /// Put the devices one behind the other on one address space, in order of their numbers, each rounded up to
    /// 1 MiB. Needs a first pass over the file to learn how far each reaches. The records' device becomes zero; in
    /// formats without streams the device's number becomes the stream.
    Concat,
    /// Keep every device's number and own address space: for statistics and conversion.
    Keep,
}

/// How a trace is to be read; the default suits a trace of one device in any recognisable format.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// The format, or `None` to recognise it from the first lines.
    pub format: Option<Format>,
    /// How far back in time a record may lie and still be put in its place. Default 1 s.
    pub sort_window: Nanos,
    /// The one device to read. In a blkparse trace a device is major × 2^20 + minor; see
    /// [`parse_device`](crate::parse_device).
    pub device: Option<u32>,
    /// What to do with several devices when none is chosen.
    pub map: DeviceMap,
    /// Factor on arrival and think times: 0.5 plays the trace twice as fast. Measured responses stay as they are.
    /// Default 1.
    pub time_scale: f64,
    /// blkparse only: which event stands for the command, as blkparse's letter: `Q` queued (default), `D` handed to
    /// the driver, `C` completed, and the others.
    pub action: u8,
}

impl Default for ReadOptions {
    fn default() -> ReadOptions {
        ReadOptions {
            format: None,
            sort_window: Nanos::SECOND,
            device: None,
            map: DeviceMap::Refuse,
            time_scale: 1.0,
            action: b'Q',
        }
    }
}

impl ReadOptions {
    /// Refuses values that no trace could be read with.
    pub(crate) fn check(&self) -> Result<(), TraceError> {
        if !(self.time_scale.is_finite() && self.time_scale >= 0.0) {
            return Err(TraceError::Parameter {
                name: "the time scale",
                value: self.time_scale.to_string(),
                wanted: "a number of at least 0".to_owned(),
            });
        }
        if !self.action.is_ascii_alphabetic() {
            return Err(TraceError::Parameter {
                name: "the action",
                value: format!("`{}`", self.action.escape_ascii()),
                wanted: "one of blkparse's letters, such as Q, D or C".to_owned(),
            });
        }
        Ok(())
    }
}
