//! Options for reading a trace.

use sakiyomi_model::Nanos;

use crate::error::TraceError;
use crate::format::kind::Format;

/// Treatment of several devices in a trace if none of them is selected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceMap {
    /// Return an error at the second device.
    #[default]
    Refuse,
    /// Concatenate the devices in one address space, in order of their numbers, each rounded up to 1 MiB. Needs a first
    /// pass over the file to determine their sizes. The records' device becomes zero; in formats without streams the
    /// device number becomes the stream.
    Concat,
    /// Keep the device numbers and separate address spaces, for statistics and conversion.
    Keep,
}

/// Options for reading a trace; the defaults are for a trace of one device in any detectable format.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// Format, or `None` to detect it from the first lines.
    pub format: Option<Format>,
    /// Maximum distance in time over which records are re-ordered. Default 1 s.
    pub sort_window: Nanos,
    /// Device to read. In a blkparse trace a device is major × 2^20 + minor; see [`parse_device`](crate::parse_device).
    pub device: Option<u32>,
    /// Treatment of several devices if none is selected.
    pub map: DeviceMap,
    /// Factor on arrival and think times: 0.5 replays the trace twice as fast. Measured response times are unchanged.
    /// Default 1.
    pub time_scale: f64,
    /// blkparse only: the event that stands for a command, as blkparse's letter: `Q` queued (default), `D` issued to
    /// the driver, `C` completed, and others.
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
    /// Checks the range of the options.
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
                wanted: "one of blkparse's action letters, such as Q, D or C".to_owned(),
            });
        }
        Ok(())
    }
}
