//! Asks the kernel to fetch ahead on devices for which its own read-ahead is too short.

use std::fs::{File, Metadata};
use std::ops::Range;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::time::Duration;

use sakiyomi_io::page_cache;

/// Bytes that the kernel is asked to fetch ahead of the position.
pub(super) const FETCH_AHEAD_BYTES: u64 = 8 << 20;
/// Size of a single request to the kernel in bytes, except at the end.
const FETCH_MIN_BYTES: u64 = 1 << 20;
/// Size in bytes of the kernel's own read-ahead that suffices for any device without a very long latency.
const READ_AHEAD_ENOUGH: u64 = 2 << 20;

/// Time of 128 KiB, the kernel's usual round of read-ahead, above which it is latency that is waited for: that of a transfer
/// at 131 MB/s. A longer round may take longer in proportion.
const ROUND_TIME_MAX: Duration = Duration::from_millis(1);
/// Bytes of a round that may take [`ROUND_TIME_MAX`], as a shorter one may.
const ROUND_BYTES: u64 = 128 << 10;
/// Slow loads one after another by which a device is known to be slow: a single one may have waited for other programs.
const SLOW_LOADS_MIN: u8 = 2;

/// Parameters of the kernel's reads from a device, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Device {
    /// Bytes that the kernel fetches per request.
    pub(super) piece: u64,
    /// The kernel's own read-ahead; `None` if it is not reported.
    read_ahead: Option<u64>,
    /// Loads in a row in which the kernel's own read-ahead has waited for latency, up to [`SLOW_LOADS_MIN`], where the
    /// number stays.
    slow_loads: u8,
}

impl Device {
    /// Returns whether to ask the kernel to fetch ahead; `work_is_low` tells that compute threads may soon starve.
    /// The kernel's own read-ahead uses larger folios, and costs less CPU.
    pub(super) fn needs_help(&self, work_is_low: bool) -> bool {
        (work_is_low || self.slow_loads == SLOW_LOADS_MIN)
            && self.read_ahead.is_none_or(|bytes| bytes < READ_AHEAD_ENOUGH)
    }

    /// Records that `bytes` were loaded by the kernel's own read-ahead alone. If the rounds of two loads waited for latency,
    /// the device is helped from now on: compute threads starve during such a load, however much work they had before.
    pub(super) fn loaded_without_help(&mut self, bytes: u64, took: Duration) {
        if self.slow_loads == SLOW_LOADS_MIN {
            return;
        }
        let round = self.read_ahead.unwrap_or(self.piece).max(self.piece).max(1);
        let rounds = bytes.div_ceil(round).max(1);
        let units = rounds.saturating_mul(round.div_ceil(ROUND_BYTES));
        let is_slow = took > ROUND_TIME_MAX.saturating_mul(u32::try_from(units).unwrap_or(u32::MAX));
        self.slow_loads = if is_slow { self.slow_loads + 1 } else { 0 };
    }
}

/// The devices of consecutive files, which are mostly the same.
#[derive(Default)]
pub(super) struct Devices {
    last: Option<(u64, Device)>,
}

impl Devices {
    pub(super) fn of(&mut self, file: &File, metadata: &Metadata) -> Device {
        let is_device = metadata.file_type().is_block_device();
        let number = if is_device { metadata.rdev() } else { metadata.dev() };
        let device = match self.last {
            Some((last, device)) if last == number => device,
            _ => Device {
                piece: page_cache::piece(file).unwrap_or(128 << 10),
                read_ahead: page_cache::read_ahead(number),
                slow_loads: 0,
            },
        };
        self.last = Some((number, device));
        device
    }

    /// Keeps what was learned of the device of the last file.
    pub(super) fn keep(&mut self, device: Device) {
        self.last.iter_mut().for_each(|(_, last)| *last = device);
    }
}

/// Progress of fetching ahead through a range.
pub(super) struct Ahead<'f> {
    file: &'f File,
    piece: u64,
    /// The part not yet fetched.
    rest: Range<u64>,
}

impl<'f> Ahead<'f> {
    pub(super) fn new(file: &'f File, device: Device, range: Range<u64>) -> Ahead<'f> {
        Ahead { file, piece: device.piece, rest: range }
    }

    /// Fetches ahead of offset `at`, up to which the range has been read.
    pub(super) fn keep(&mut self, at: u64) {
        // The pages in between may have been read without being fetched ahead.
        self.rest.start = self.rest.start.max(at).min(self.rest.end);
        let to = (at + FETCH_AHEAD_BYTES).min(self.rest.end);
        if to == self.rest.end || to >= self.rest.start + FETCH_MIN_BYTES {
            let range = self.rest.start..to;
            // A fetch is only advice: if it is refused, the range is read all the same.
            if !range.is_empty() && page_cache::fetch_in_pieces(self.file, range, self.piece).is_err() {
                self.rest.start = self.rest.end;
            }
            self.rest.start = self.rest.start.max(to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(read_ahead: Option<u64>) -> Device {
        Device { piece: 128 << 10, read_ahead, slow_loads: 0 }
    }

    #[test]
    fn a_device_whose_rounds_wait_for_latency_is_helped_from_then_on() {
        let is_helped = |read_ahead, bytes, ms| {
            let mut device = device(read_ahead);
            device.loaded_without_help(bytes, Duration::from_millis(ms));
            assert!(!device.needs_help(false), "a single load may have waited for others");
            device.loaded_without_help(bytes, Duration::from_millis(ms));
            device.loaded_without_help(2 << 20, Duration::ZERO);
            device.needs_help(false)
        };
        // 16 rounds of 10 ms; the same bytes at 200 MB/s; at 1 GB/s.
        assert!(is_helped(Some(128 << 10), 2 << 20, 160));
        assert!(!is_helped(Some(128 << 10), 2 << 20, 10));
        assert!(!is_helped(Some(128 << 10), 2 << 20, 2));
        // Rounds of 1 MiB at 500 MB/s, and with a latency of 10 ms.
        assert!(!is_helped(Some(1 << 20), 8 << 20, 17));
        assert!(is_helped(Some(1 << 20), 8 << 20, 96));
        // A single round; no read-ahead at all; long rounds, which are the kernel's own.
        assert!(!is_helped(Some(1 << 20), 256 << 10, 5));
        assert!(is_helped(Some(1 << 20), 256 << 10, 10));
        assert!(is_helped(Some(0), 2 << 20, 160));
        assert!(is_helped(None, 0, 2));
        assert!(!is_helped(Some(READ_AHEAD_ENOUGH), 2 << 20, 160));
    }

    #[test]
    fn slow_loads_that_are_not_in_a_row_do_not_make_a_device_slow() {
        let mut device = device(Some(128 << 10));
        for ms in [160, 2, 160, 2] {
            device.loaded_without_help(2 << 20, Duration::from_millis(ms));
            assert!(!device.needs_help(false));
        }
    }

    #[test]
    fn the_kernel_is_asked_where_it_reads_little_ahead_and_work_is_low() {
        for (read_ahead, helped) in
            [(None, true), (Some(0), true), (Some(128 << 10), true), (Some(READ_AHEAD_ENOUGH), false)]
        {
            assert_eq!(device(read_ahead).needs_help(true), helped);
            assert!(!device(read_ahead).needs_help(false), "{read_ahead:?}");
        }
    }
}
