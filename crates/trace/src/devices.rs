//! Selection of a trace's devices, and their position in the common address space.

use std::collections::BTreeMap;

use sakiyomi_model::{Bytes, StreamId};

use crate::error::TraceError;
use crate::options::{DeviceChoice, DeviceMap, ReadOptions};
use crate::record::{OFFSET_MAX, Record};
use crate::source::Source;

/// Alignment of the devices in the common address space.
const DEVICE_ALIGN_BYTES: u64 = 1 << 20;
/// Maximum number of devices listed in the error message if the requested device does not occur.
const OTHER_DEVICES_MAX: usize = 32;

/// Treatment of devices, decided when the trace is opened.
pub(crate) enum Devices {
    /// Only the requested device; `others` lists some of the other devices seen.
    Only { wanted: DeviceChoice, found: bool, others: Vec<u32> },
    /// The first device; a second one is an error.
    Single(Option<u32>),
    /// All devices in one address space: each device's start, and whether its number becomes the stream.
    Concat { starts: BTreeMap<u32, Bytes>, to_stream: bool },
    /// All devices, unchanged.
    Keep,
}

impl Devices {
    /// Returns the treatment by `options`, for a trace that needs no first pass.
    pub(crate) fn new(options: &ReadOptions) -> Devices {
        match (&options.device, options.map) {
            (Some(wanted), _) => Devices::Only { wanted: wanted.clone(), found: false, others: Vec::new() },
            (None, DeviceMap::Keep) => Devices::Keep,
            (None, _) => Devices::Single(None),
        }
    }

    /// Reads `source` to its end to determine the size of each device, and concatenates the devices.
    pub(crate) fn concat(mut source: Source) -> Result<Devices, TraceError> {
        let mut ends: BTreeMap<u32, u64> = BTreeMap::new();
        while let Some(record) = source.next()? {
            let end = ends.entry(record.device).or_default();
            *end = record.end().0.max(*end);
        }
        let mut starts = BTreeMap::new();
        let mut next = 0u64;
        for (device, end) in ends {
            starts.insert(device, Bytes(next));
            next = end
                .checked_next_multiple_of(DEVICE_ALIGN_BYTES)
                .and_then(|size| next.checked_add(size))
                .filter(|&end| end <= OFFSET_MAX.0)
                .ok_or_else(|| TraceError::ConcatTooLarge { path: source.path().to_owned() })?;
        }
        Ok(Devices::Concat { starts, to_stream: !source.format().has_streams() })
    }

    /// Returns the record to deliver, or `None` to skip it.
    pub(crate) fn apply(
        &mut self,
        mut record: Record,
        source: &Source,
    ) -> Result<Option<Record>, TraceError> {
        match self {
            Devices::Keep => {}
            Devices::Only { wanted, found, others } => {
                let is_wanted = match wanted {
                    DeviceChoice::Number(number) => record.device == *number,
                    DeviceChoice::Name(name) => source.device_name(record.device) == *name,
                };
                if !is_wanted {
                    if !*found && others.len() < OTHER_DEVICES_MAX && !others.contains(&record.device) {
                        others.push(record.device);
                    }
                    return Ok(None);
                }
                *found = true;
            }
            Devices::Single(known) => {
                let first = *known.get_or_insert(record.device);
                if first != record.device {
                    let (path, line) = (source.path().to_owned(), record.line);
                    let (first, second) = (source.device_name(first), source.device_name(record.device));
                    return Err(TraceError::SecondDevice { path, line, first, second });
                }
            }
            Devices::Concat { starts, to_stream } => {
                if *to_stream {
                    record.stream = StreamId(record.device);
                }
                let start = starts.get(&record.device).copied().unwrap_or_default();
                // A file that grew since the first pass may extend beyond the size determined then.
                record.offset = record.offset.saturating_add(start);
                record.device = 0;
            }
        }
        Ok(Some(record))
    }

    /// Checks at the end of the trace that the requested device has occurred.
    pub(crate) fn finish(&mut self, source: &Source) -> Result<(), TraceError> {
        match self {
            Devices::Only { wanted, found: false, others } if !others.is_empty() => {
                others.sort_unstable();
                let more = if others.len() == OTHER_DEVICES_MAX { " and more" } else { "" };
                let present: Vec<String> = others.iter().map(|&device| source.device_name(device)).collect();
                Err(TraceError::NoSuchDevice {
                    path: source.path().to_owned(),
                    device: wanted.to_string(),
                    present: format!("{}{more}", present.join(", ")),
                })
            }
            _ => Ok(()),
        }
    }
}
