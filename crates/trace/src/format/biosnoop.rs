//! Output of biosnoop: `0.004134   dd   22892   sda   R   350521336  8192   0.00   0.86`, under a header.
//!
//! BCC's program and that of libbpf-tools print a line when a request completes: the time of its completion in seconds
//! from the first line, the thread that asked, the disk, the operation (BCC: `R` or `W`, which makes a discard a read;
//! libbpf-tools: RWBS), the first sector of 512 bytes, the length in bytes, and milliseconds in the queue of the I/O
//! scheduler (`QUE`, with `-Q`) and in the driver (`LAT`). The header says which columns there are. Requests of which
//! biosnoop has missed the beginning, whose disk it does not know, are left out, and so are commands without an address and
//! operations on zones. bpftrace's biosnoop.bt prints neither
//! addresses nor lengths, and is refused.

use std::collections::BTreeMap;

use sakiyomi_model::{Bytes, Nanos, Op, StreamId};

use super::blkparse::is_attached;
use super::{Parser, SECTOR_BYTES};
use crate::block::BlockOp;
use crate::field::{NANOS_PER_MS, NANOS_PER_S, Problem, Shown, blocks, nanos, whole, whole_u32, words};
use crate::record::Record;

/// The time of the first line on the time line of the records, before which the first requests began: longer than any
/// request takes.
const FIRST_LINE_TIME: Nanos = Nanos(3600 * Nanos::SECOND.0);
/// The sector of a command that has none, such as one of SCSI that a program sends: −1, as the tools print it.
const NO_SECTOR: &[u8] = b"18446744073709551615";
/// Maximum number of disks, whose names are kept in memory.
const DISKS_MAX: usize = 1 << 12;

/// A column of biosnoop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Time,
    Comm,
    Process,
    Disk,
    Op,
    Sector,
    Bytes,
    Pattern,
    Queue,
    Latency,
}

/// Columns behind the name of the thread, which may hold spaces, so that they are counted from the end.
#[derive(Default)]
pub(super) struct Reader {
    columns: Vec<Column>,
    disks: BTreeMap<Box<[u8]>, u32>,
}

impl Parser for Reader {
    fn line(&mut self, line: &[u8], out: &mut Vec<Record>) -> Result<(), Problem> {
        if self.columns.is_empty() && is_attached(line) {
            return Ok(());
        }
        if self.columns.is_empty() {
            self.columns = header(line)?;
            return Ok(());
        }
        let all: Vec<&[u8]> = words(line).collect();
        let name_at = self.position(Column::Comm);
        // BCC leaves the disk empty where it has missed the beginning of a request.
        let is_unknown = all.len() + 1 == self.columns.len()
            && all.get(name_at) == Some(&&b"?"[..])
            && all.get(self.position(Column::Process)) == Some(&&b"0"[..]);
        if is_unknown {
            return Ok(());
        }
        // The name of the thread has one word at least.
        let Some(spare) = all.len().checked_sub(self.columns.len()) else {
            return Err(format!(
                "{} has {} columns, but the header has {}; very long lines of biosnoop run together",
                Shown(line),
                all.len(),
                self.columns.len()
            ));
        };
        let field = |wanted: Column| {
            let at = self.columns.iter().position(|&column| column == wanted)?;
            all.get(if at > name_at { at + spare } else { at }).copied()
        };
        let required = |wanted: Column| field(wanted).unwrap_or_default();
        let disk = required(Column::Disk);
        if matches!(disk, b"<unknown>" | b"Unknown") {
            return Ok(());
        }
        let length = Bytes(whole(required(Column::Bytes), "BYTES")?);
        let BlockOp { op, fua, preflush } = BlockOp::parse(required(Column::Op))?;
        let has_address = length.is_zero() || required(Column::Sector) != NO_SECTOR;
        if op.is_none() && !preflush || !has_address {
            return Ok(());
        }
        let op = if length.is_zero() { Op::Flush } else { op.unwrap_or(Op::Flush) };
        let (offset, length) = match op {
            Op::Flush => (Bytes::ZERO, Bytes::ZERO),
            _ => (blocks(required(Column::Sector), SECTOR_BYTES, "SECTOR")?, length),
        };
        let completed = nanos(required(Column::Time), NANOS_PER_S, "TIME(s)")?;
        let latency = nanos(required(Column::Latency), NANOS_PER_MS, "LAT(ms)")?;
        // libbpf-tools prints -1 for a request that was never in the queue.
        let queued = field(Column::Queue).filter(|text| !text.starts_with(b"-"));
        let waited = queued.map(|text| nanos(text, NANOS_PER_MS, "QUE(ms)")).transpose()?;
        let response = latency.saturating_add(waited.unwrap_or_default());
        let ended = completed.saturating_add(FIRST_LINE_TIME);
        let Some(time) = ended.0.checked_sub(response.0).map(Nanos) else {
            return Err(format!(
                "the request took {response}, longer than any; check that LAT is in milliseconds"
            ));
        };
        let process = whole_u32(required(Column::Process), "PID")?;
        // If the queue is reported, it is of all requests.
        let started = field(Column::Queue).map(|_| time.saturating_add(waited.unwrap_or_default()));
        out.push(Record {
            device: self.disk(disk)?,
            stream: StreamId(process),
            fua: fua && op == Op::Write,
            response: Some(response),
            started,
            ..Record::new(time, op, offset, length)
        });
        Ok(())
    }

    fn is_whole(&self, line: &[u8]) -> bool {
        // The latency has two decimals, of libbpf-tools three.
        let last = words(line).last().unwrap_or_default();
        let decimals = last.iter().rev().position(|&byte| byte == b'.');
        self.columns.is_empty()
            || words(line).count() >= self.columns.len() && decimals.is_some_and(|count| count >= 2)
    }

    fn device_name(&self, device: u32) -> Option<String> {
        let name = self.disks.iter().find(|&(_, &number)| number == device)?.0;
        Some(String::from_utf8_lossy(name).into_owned())
    }
}

impl Reader {
    /// Returns the position of a column that every header has.
    fn position(&self, wanted: Column) -> usize {
        self.columns.iter().position(|&column| column == wanted).unwrap_or_default()
    }

    fn disk(&mut self, name: &[u8]) -> Result<u32, Problem> {
        if let Some(&number) = self.disks.get(name) {
            return Ok(number);
        }
        if self.disks.len() == DISKS_MAX {
            return Err(format!("the trace names more than {DISKS_MAX} disks; check its columns"));
        }
        let number = self.disks.len() as u32;
        self.disks.insert(name.into(), number);
        Ok(number)
    }
}

fn header(line: &[u8]) -> Result<Vec<Column>, Problem> {
    let column = |word: &[u8]| {
        Some(match word {
            b"TIME(s)" => Column::Time,
            b"COMM" => Column::Comm,
            b"PID" => Column::Process,
            b"DISK" => Column::Disk,
            b"T" => Column::Op,
            b"SECTOR" => Column::Sector,
            b"BYTES" => Column::Bytes,
            b"P" => Column::Pattern,
            b"QUE(ms)" => Column::Queue,
            b"LAT(ms)" => Column::Latency,
            _ => return None,
        })
    };
    let wanted = "the header of biosnoop: `TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)`";
    if words(line).next() == Some(b"TIME(ms)") && words(line).last() == Some(b"LAT(ms)") {
        return Err("bpftrace's biosnoop.bt prints neither addresses nor lengths; record with `sakiyomi trace record`, \
                    with biosnoop of BCC or libbpf-tools, or with the script for bpftrace in the documentation"
            .to_owned());
    }
    let columns: Option<Vec<Column>> = words(line).map(column).collect();
    let Some(columns) = columns else {
        return Err(format!("the line begins with {}, but must be {wanted}", Shown(line)));
    };
    const REQUIRED: [Column; 8] = [
        Column::Time,
        Column::Comm,
        Column::Process,
        Column::Disk,
        Column::Op,
        Column::Sector,
        Column::Bytes,
        Column::Latency,
    ];
    let is_once = |wanted: Column| columns.iter().filter(|&&column| column == wanted).count() == 1;
    if !REQUIRED.into_iter().all(is_once) {
        return Err(format!("{} lacks or repeats a column of {wanted}", Shown(line)));
    }
    Ok(columns)
}

#[cfg(test)]
mod tests {
    use super::super::{Format, parse_text};
    use super::*;

    const BCC: &str = "\
TIME(s)     COMM           PID     DISK      T SECTOR     BYTES  LAT(ms)
0.000000    ?              0                 R 0          8192      0.29
0.000000    opt cgu.0      22876   sda       W 350521336  8192      0.86
0.300000    jbd2/sda1-8    300     sdb       W 64         1048576   1.25
";

    fn record(time: u64, op: Op, sector: u64, bytes: u64) -> Record {
        Record::new(Nanos(time), op, Bytes(sector * 512), Bytes(bytes))
    }

    #[test]
    fn requests_begin_before_their_lines() {
        let unknown = BCC.replace("0                 R", "0       <unknown> R");
        let first = FIRST_LINE_TIME.0;
        let wanted = [
            Record {
                stream: StreamId(22_876),
                response: Some(Nanos(860_000)),
                ..record(first - 860_000, Op::Write, 350_521_336, 8192)
            },
            Record {
                device: 1,
                stream: StreamId(300),
                response: Some(Nanos(1_250_000)),
                ..record(first + 298_750_000, Op::Write, 64, 1 << 20)
            },
        ];
        assert_eq!(parse_text(Format::Biosnoop, &unknown).unwrap(), wanted);
        assert_eq!(parse_text(Format::Biosnoop, BCC).unwrap(), wanted, "the column may be empty");
        let cut = BCC.replace("300     sdb", "300");
        assert!(parse_text(Format::Biosnoop, &cut).unwrap_err().contains("run together"));
    }

    #[test]
    fn commands_without_an_address_and_operations_on_zones_are_left_out() {
        let text = "\
Attached 6 probes
TIME(s)     COMM           PID     DISK      T    SECTOR     BYTES  LAT(ms)
1.000000    smartctl       7       sda       N    18446744073709551615 512 0.50
1.000000    smartctl       7       sda       R    18446744073709551615 512 0.50
1.000000    mkfs           7       sda       N    0          0      0.50
1.000000    mkfs           7       sda       ZRA  524288     0      0.50
2.000000    dd             7       sda       FF   18446744073709551615 0 0.25
3.000000    dd             7       sda       R    8          4096   0.25
";
        let ops: Vec<Op> =
            parse_text(Format::Biosnoop, text).unwrap().iter().map(|record| record.op).collect();
        assert_eq!(ops, [Op::Flush, Op::Read]);
    }

    #[test]
    fn the_queue_of_the_scheduler_comes_first() {
        let text = "\
TIME(s)     COMM           PID     DISK    T    SECTOR     BYTES   QUE(ms) LAT(ms)
1.000000    dd             7       vda     WFS  8          4096      0.500   1.500
2.000000    dd             7       vda     FF   18446744073709551615 0        -1.000   0.250
";
        let first = FIRST_LINE_TIME.0;
        let wanted = [
            Record {
                stream: StreamId(7),
                fua: true,
                response: Some(Nanos(2_000_000)),
                started: Some(Nanos(first + 998_500_000)),
                ..record(first + 998_000_000, Op::Write, 8, 4096)
            },
            Record {
                stream: StreamId(7),
                response: Some(Nanos(250_000)),
                started: Some(Nanos(first + 1_999_750_000)),
                ..record(first + 1_999_750_000, Op::Flush, 0, 0)
            },
        ];
        assert_eq!(parse_text(Format::Biosnoop, text).unwrap(), wanted);
    }

    #[test]
    fn bad_lines_are_refused_by_column() {
        let header = "TIME(s)     COMM           PID     DISK      T SECTOR     BYTES  LAT(ms)";
        let error = |line: &str| parse_text(Format::Biosnoop, &format!("{header}\n{line}")).unwrap_err();
        assert!(error("0.1 dd x sda R 8 4096 1.00").starts_with("the column PID holds `x`"));
        assert!(error("0.1 dd 1 sda R 8 4096 -1.00").starts_with("the column LAT(ms) holds"));
        assert!(error("0.1 dd 1 sda R 8 4096 9999999.00").contains("longer than any"));
        assert!(error("0.1 dd 1 sda X 8 4096 1.00").starts_with("the operation is `X`"));
        let error = |text: &str| parse_text(Format::Biosnoop, text).unwrap_err();
        assert!(
            error("TIME(ms)     DISK    COMM             PID    LAT(ms)")
                .starts_with("bpftrace's biosnoop.bt")
        );
        assert!(error("TIME(s) COMM PID DISK T SECTOR LAT(ms)").contains("lacks or repeats"));
    }
}
