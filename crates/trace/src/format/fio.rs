//! fio's I/O log (`write_iolog`, `read_iolog`), versions 2 and 3.
//!
//! Version 2 has lines `file action` and `file action offset length`, and `file wait microseconds`: time advances only
//! by the waits, which add up. Version 3 has a timestamp before each line. The manual does not state its unit; fio 3.33
//! writes microseconds from the start of the job. Each file is a device, numbered in order of appearance.

use std::collections::BTreeMap;

use sakiyomi_model::{Bytes, Nanos, Op};

use super::Parser;
use crate::field::{NANOS_PER_US, Problem, Shown, nanos, whole, words};
use crate::record::Record;

/// First line of version 2.
const HEADER_V2: &[u8] = b"fio version 2 iolog";
/// First line of version 3.
pub(crate) const HEADER_V3: &str = "fio version 3 iolog";
/// Maximum number of files in a log, whose names are kept in memory.
const FILES_MAX: usize = 1 << 16;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    Two,
    Three,
}

#[derive(Default)]
pub(super) struct Reader {
    version: Option<Version>,
    clock: Nanos,
    files: BTreeMap<Box<[u8]>, u32>,
}

impl Parser for Reader {
    fn line(&mut self, line: &[u8], out: &mut Vec<Record>) -> Result<(), Problem> {
        let Some(version) = self.version else {
            self.version = Some(header(line)?);
            return Ok(());
        };
        let mut fields = words(line);
        if version == Version::Three {
            self.clock = nanos(fields.next().unwrap_or_default(), NANOS_PER_US, "timestamp (us)")?;
        }
        let (Some(file), Some(action)) = (fields.next(), fields.next()) else {
            return Err(format!("{} ends early; a line is `file action [offset length]`", Shown(line)));
        };
        let op = match action {
            b"add" | b"open" | b"close" | b"sync_file_range" => return Ok(()),
            b"wait" if version == Version::Two => return self.wait(fields.next().unwrap_or_default()),
            b"read" => Op::Read,
            b"write" => Op::Write,
            b"trim" => Op::Discard,
            b"sync" | b"datasync" => Op::Flush,
            other => return Err(unknown_action(other, version)),
        };
        let device = self.device(file)?;
        let (mut offset, mut length) = (Bytes::ZERO, Bytes::ZERO);
        if op != Op::Flush {
            offset = Bytes(whole(fields.next().unwrap_or_default(), "offset")?);
            length = Bytes(whole(fields.next().unwrap_or_default(), "length")?);
        }
        out.push(Record { device, ..Record::new(self.clock, op, offset, length) });
        Ok(())
    }
}

impl Reader {
    fn wait(&mut self, field: &[u8]) -> Result<(), Problem> {
        let wait = nanos(field, NANOS_PER_US, "wait (us)")?;
        let clock = self.clock.0.checked_add(wait.0);
        self.clock = clock.map(Nanos).ok_or("the waits together pass 2^64 ns; check their unit (us)")?;
        Ok(())
    }

    fn device(&mut self, file: &[u8]) -> Result<u32, Problem> {
        if let Some(&device) = self.files.get(file) {
            return Ok(device);
        }
        if self.files.len() == FILES_MAX {
            return Err(format!("the log names more than {FILES_MAX} files; split it"));
        }
        let device = self.files.len() as u32;
        self.files.insert(file.into(), device);
        Ok(device)
    }
}

fn header(line: &[u8]) -> Result<Version, Problem> {
    match line.trim_ascii() {
        HEADER_V2 => Ok(Version::Two),
        other if other == HEADER_V3.as_bytes() => Ok(Version::Three),
        other => Err(format!(
            "the file begins with {}, but must with `fio version 2 iolog` or `{HEADER_V3}`",
            Shown(other)
        )),
    }
}

fn unknown_action(action: &[u8], version: Version) -> Problem {
    let wait = if version == Version::Two { ", wait" } else { "" };
    format!(
        "the action is {}, but must be add, open, close, read, write, sync, datasync, sync_file_range, trim{wait}",
        Shown(action)
    )
}

/// Appends `record` as a line of version 3; the file is named after the device.
pub(crate) fn write(record: &Record, out: &mut Vec<u8>) -> Result<(), Problem> {
    if record.fua {
        return Err("has no mark for forced unit access".to_owned());
    }
    let action = match record.op {
        Op::Read => "read",
        Op::Write => "write",
        Op::Flush => "sync",
        Op::Discard => "trim",
    };
    let (time, offset, length) = (record.time.0 / NANOS_PER_US, record.offset.0, record.length.0);
    out.extend_from_slice(format!("{time} device{} {action} {offset} {length}\n", record.device).as_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{Format, parse_text};
    use super::*;

    #[test]
    fn waits_of_version_2_add_up() {
        let text = "fio version 2 iolog\n/f add\n/f open\n/f read 61440 4096\n/f wait 250 0\n/g write 0 512\n\
                    /f wait 100\n/f datasync 0 0\n/f close\n";
        let wanted = [
            Record::new(Nanos::ZERO, Op::Read, Bytes(61_440), Bytes(4096)),
            Record { device: 1, ..Record::new(Nanos(250_000), Op::Write, Bytes(0), Bytes(512)) },
            Record::new(Nanos(350_000), Op::Flush, Bytes(0), Bytes(0)),
        ];
        assert_eq!(parse_text(Format::Fio, text).unwrap(), wanted);
    }

    #[test]
    fn version_3_is_stamped_in_microseconds() {
        let text =
            "fio version 3 iolog\n16 /f add\n111 /f open\n116 /f read 61440 4096\n100279 /f trim 0 1024\n";
        let wanted = [
            Record::new(Nanos(116_000), Op::Read, Bytes(61_440), Bytes(4096)),
            Record::new(Nanos(100_279_000), Op::Discard, Bytes(0), Bytes(1024)),
        ];
        assert_eq!(parse_text(Format::Fio, text).unwrap(), wanted);
    }

    #[test]
    fn bad_lines_are_refused_by_column() {
        let error = |text| parse_text(Format::Fio, text).unwrap_err();
        assert!(error("fio version 4 iolog").starts_with("the file begins with `fio version 4 iolog`"));
        assert!(error("fio version 3 iolog\n5 /f wait 10").starts_with("the action is `wait`"));
        assert!(error("fio version 2 iolog\n/f").contains("ends early"));
        assert!(error("fio version 2 iolog\n/f read 1").starts_with("the column length holds ``"));
    }
}
