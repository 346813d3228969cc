//! MSR Cambridge (SNIA IOTTA): `128166385295514663,hm,0,Write,9056014336,2048,2833`.
//!
//! Windows FILETIME (100 ns since 1601), host, disk, operation, offset in bytes, size in bytes, response in 100 ns. The
//! response time was measured in the host, through its RAID volume.

use sakiyomi_model::{Bytes, Nanos};

use super::Parser;
use crate::field::{Problem, Shown, commas, operation, whole, whole_u32};
use crate::record::Record;

/// Length of a tick of the Windows file time, in nanoseconds.
const NS_PER_TICK: u64 = 100;

#[derive(Default)]
pub(super) struct Reader {
    /// Host of the first line; a file contains one host.
    host: Option<Box<[u8]>>,
}

impl Parser for Reader {
    fn line(&mut self, line: &[u8], out: &mut Vec<Record>) -> Result<(), Problem> {
        let [time, host, disk, op, offset, size, response] = commas(line)?;
        let op = operation(op, "Read", "Write")?;
        out.push(Record {
            device: whole_u32(disk, "disk")?,
            response: Some(ticks(response, "response (100 ns)")?),
            ..Record::new(
                ticks(time, "time (FILETIME)")?,
                op,
                Bytes(whole(offset, "offset (bytes)")?),
                Bytes(whole(size, "size (bytes)")?),
            )
        });
        self.same_host(host)
    }
}

impl Reader {
    fn same_host(&mut self, host: &[u8]) -> Result<(), Problem> {
        let first = self.host.get_or_insert_with(|| host.into());
        if **first == *host {
            return Ok(());
        }
        Err(format!(
            "the host is {}, but the file began with {}; give each host's lines a file of their own",
            Shown(host),
            Shown(first)
        ))
    }
}

fn ticks(field: &[u8], column: &str) -> Result<Nanos, Problem> {
    whole(field, column)?
        .checked_mul(NS_PER_TICK)
        .map(Nanos)
        .ok_or_else(|| format!("the column {column} holds {}, which passes the year 2185", Shown(field)))
}

#[cfg(test)]
mod tests {
    use super::super::{Format, parse_text};
    use super::*;
    use sakiyomi_model::Op;

    const LINE: &str = "128166385295514663,hm,0,Write,9056014336,2048,2833";

    #[test]
    fn a_line_of_hm0() {
        let wanted = Record {
            response: Some(Nanos(283_300)),
            ..Record::new(Nanos(12_816_638_529_551_466_300), Op::Write, Bytes(9_056_014_336), Bytes(2048))
        };
        assert_eq!(parse_text(Format::Msr, LINE).unwrap(), [wanted]);
    }

    #[test]
    fn bad_lines_are_refused_by_column() {
        let error = |text: &str| parse_text(Format::Msr, text).unwrap_err();
        assert!(error(&LINE.replace("Write", "write")).contains("must be Read or Write"));
        assert!(error(&LINE.replace("128166385295514663", "328166385295514663")).contains("2185"));
        let two_hosts = format!("{LINE}\n{}", LINE.replace("hm", "prn"));
        assert!(error(&two_hosts).starts_with("the host is `prn`, but the file began with `hm`"));
    }
}
