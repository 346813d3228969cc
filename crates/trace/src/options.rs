//! Options for reading a trace.

use std::fmt;
use std::str::FromStr;

use sakiyomi_model::Nanos;

use crate::block::device_number;
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

/// A device of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceChoice {
    /// Its number; the kernel's numbers are major × 2^20 + minor.
    Number(u32),
    /// Its name, in a format that has names.
    Name(String),
}

impl FromStr for DeviceChoice {
    type Err = TraceError;

    /// Parses a number such as `3`, the kernel's notation such as `8,16`, or a name such as `sda`.
    fn from_str(text: &str) -> Result<DeviceChoice, TraceError> {
        let text = text.trim();
        let wanted = || TraceError::Parameter {
            name: "the device",
            value: format!("`{text}`"),
            wanted: "a number such as 3, the kernel's major,minor such as 8,16, or a name such as sda"
                .to_owned(),
        };
        if text.is_empty() {
            return Err(wanted());
        }
        if let Ok(number) = text.parse() {
            return Ok(DeviceChoice::Number(number));
        }
        let pair = text.split_once(',').map(|(major, minor)| (major.trim().parse(), minor.trim().parse()));
        match pair {
            Some((Ok(major), Ok(minor))) => {
                device_number(major, minor).map(DeviceChoice::Number).map_err(|_| wanted())
            }
            _ => Ok(DeviceChoice::Name(text.to_owned())),
        }
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceChoice::Number(number) => number.fmt(f),
            DeviceChoice::Name(name) => name.fmt(f),
        }
    }
}

/// Options for reading a trace; the defaults are for a trace of one device in any detectable format.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// Format, or `None` to detect it from the first lines.
    pub format: Option<Format>,
    /// Maximum distance in time over which records are re-ordered. Default 1 s.
    pub sort_window: Nanos,
    /// Device to read.
    pub device: Option<DeviceChoice>,
    /// Treatment of several devices if none is selected.
    pub map: DeviceMap,
    /// Factor on arrival and think times: 0.5 replays the trace twice as fast. Measured response times are unchanged.
    /// Default 1.
    pub time_scale: f64,
    /// blkparse and ftrace only: the event that stands for a command, as blkparse's letter: `Q` queued (default), `I`
    /// inserted into the queue of the I/O scheduler, `D` issued to the driver, `C` completed, and others (blkparse). With
    /// `Q`, `I` and `D` commands have the response times that the completions give them. A trace in which nothing is
    /// queued is read as with `I`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_numbers_or_major_and_minor_or_names() {
        let parse = |text: &str| text.parse::<DeviceChoice>().unwrap();
        assert_eq!(parse("3"), DeviceChoice::Number(3));
        assert_eq!(parse("8,16"), DeviceChoice::Number((8 << 20) + 16));
        assert_eq!(parse("sda"), DeviceChoice::Name("sda".to_owned()));
        assert!("".parse::<DeviceChoice>().is_err());
        assert!("9999,1".parse::<DeviceChoice>().is_err());
    }
}
