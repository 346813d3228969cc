//! Detection of a trace's format from its first lines.
//!
//! One rule applies to all formats: a format matches if its parser accepts every line of the sample. If exactly one
//! matches, it is the result. If several match, the error lists them, without guessing. DiskSim's and MQSim's
//! lines, for example, both have five columns of numbers, and only evidence that excludes one decides: MQSim has no
//! decimal point in its first column and no operation but 0 and 1, whereas any line of MQSim is also valid in DiskSim.

use sakiyomi_model::Nanos;

use crate::error::TraceError;
use crate::field::Shown;
use crate::format::{Format, parquet};
use crate::options::ReadOptions;

/// Number of non-blank lines in the sample.
const SAMPLE_LINES: usize = 50;

/// Detects the format of a trace that begins with `sample`, unpacked; `complete` means that it is the whole trace.
pub(crate) fn sniff(path: &str, sample: &[u8], complete: bool) -> Result<Format, TraceError> {
    let refuse = |problem| TraceError::Unrecognized { path: path.to_owned(), problem };
    if sample.starts_with(parquet::MAGIC) {
        return Ok(Format::Parquet);
    }
    let lines = sample_lines(sample, complete);
    if lines.is_empty() {
        let nothing = if complete { "it holds no line" } else { "its first 64 KiB hold no whole line" };
        return Err(refuse(nothing.to_owned()));
    }
    if sample.contains(&0) {
        return Err(refuse("it is binary, and neither gzip, zstd nor Parquet".to_owned()));
    }
    // The last line that a tool wrote before it was killed may be cut off.
    let unended = complete && !sample.ends_with(b"\n");
    let verdicts: Vec<_> =
        Format::ALL.into_iter().filter_map(|format| Some((format, fit(format, &lines, unended)?))).collect();
    let mut fitting = verdicts.iter().filter(|(_, fit)| fit.problem.is_none()).map(|&(format, _)| format);
    match (fitting.next(), fitting.next()) {
        (Some(format), None) => Ok(format),
        (Some(first), Some(second)) => Err(TraceError::Ambiguous {
            path: path.to_owned(),
            candidates: [first, second].into_iter().chain(fitting).collect(),
        }),
        (None, _) => Err(refuse(closest(&verdicts, &lines))),
    }
}

/// Progress of a format's parser.
struct Fit {
    lines: usize,
    /// First error; `None` if there is none.
    problem: Option<String>,
}

fn fit(format: Format, lines: &[(usize, &[u8])], unended: bool) -> Option<Fit> {
    // Any order of events will do.
    let options = ReadOptions { sort_window: Nanos::MAX, ..ReadOptions::default() };
    let mut parser = format.parser(&options)?;
    let mut records = Vec::new();
    for (read, &(number, line)) in lines.iter().enumerate() {
        let is_last = read > 0 && read + 1 == lines.len() && lines.len() < SAMPLE_LINES;
        if unended && is_last && !parser.is_whole(line) {
            break;
        }
        if let Err(problem) = parser.line(line, &mut records) {
            return Some(Fit { lines: read, problem: Some(format!("line {number}: {problem}")) });
        }
    }
    Some(Fit { lines: lines.len(), problem: None })
}

/// Describes the error of the format that accepted most lines.
fn closest(verdicts: &[(Format, Fit)], lines: &[(usize, &[u8])]) -> String {
    let furthest = verdicts.iter().max_by_key(|(_, fit)| fit.lines).filter(|(_, fit)| fit.lines > 0);
    match furthest {
        Some((format, Fit { problem: Some(problem), .. })) => {
            format!("{format} comes closest, but at {problem}")
        }
        _ => format!("it begins with {}", lines.first().map_or(Shown(b""), |&(_, line)| Shown(line))),
    }
}

/// Returns the first non-blank lines with their numbers, without a line cut off by the sample's end.
fn sample_lines(sample: &[u8], complete: bool) -> Vec<(usize, &[u8])> {
    let sample = sample.strip_prefix(b"\xef\xbb\xbf").unwrap_or(sample);
    let end =
        if complete { sample.len() } else { sample.iter().rposition(|&byte| byte == b'\n').unwrap_or(0) };
    sample[..end]
        .split(|&byte| byte == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
        .enumerate()
        .map(|(at, line)| (at + 1, line))
        .filter(|(_, line)| !line.trim_ascii().is_empty())
        .take(SAMPLE_LINES)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(sample: &str) -> Format {
        sniff("t", sample.as_bytes(), true).unwrap()
    }

    fn error(sample: &[u8], complete: bool) -> String {
        sniff("t", sample, complete).unwrap_err().to_string()
    }

    #[test]
    fn each_format_is_recognized_by_its_lines() {
        assert_eq!(format("13.191135\t30\t0\t5\t1\n"), Format::Disksim);
        assert_eq!(format("13 30 0 5 13\n"), Format::Disksim);
        assert_eq!(format("R Hit 1975456 4 15362.0 56074.0\n"), Format::DisksimValidation);
        assert_eq!(format("128166385295514663,hm,0,Write,9056014336,2048,2833\n"), Format::Msr);
        assert_eq!(format("0,303567,3584,w,0.000000\n"), Format::Spc);
        assert_eq!(format("Timestamp,Response,IOType,LUN,Offset,Size\n"), Format::Systor17);
        assert_eq!(format("1455591804.3,0.006,R,0,203468398592,32768\n"), Format::Systor17);
        assert_eq!(format("  8,0 1 1 0.000000000 697 G W 223490 + 8 [kjournald]\n"), Format::Blkparse);
        assert_eq!(
            format("dd-1 [000] ..... 1.5: block_rq_issue: 8,0 R 4096 () 64 + 8 [dd]\n"),
            Format::Ftrace
        );
        assert_eq!(format("TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)\n"), Format::Biosnoop);
        assert_eq!(format("fio version 2 iolog\n/f add\n"), Format::Fio);
        assert_eq!(format("time_us,scsi_op_hex,bytes,lba512\n0,2a,512,4\n"), Format::Cloudphysics);
        assert_eq!(format("issue_us,lba512,sectors,op\n"), Format::Hadoop);
        assert_eq!(
            format("enqueue_us,start_us,stop_us,bytes,lba256,disk,cylinder,op,queuelen,flags_hex\n"),
            Format::Hplajw
        );
        assert_eq!(format("time_ns,op,offset_bytes,length_bytes\n"), Format::Sakiyomi);
        assert_eq!(format("PAR1"), Format::Parquet);
    }

    #[test]
    fn five_whole_numbers_stay_ambiguous() {
        assert_eq!(
            error(b"0 0 303567 7 0\n26214000 1 240840 6 1\n", true),
            "t fits more than one trace format: disksim (arrival in ms, device, LBN, sectors, flags with bit 0 \
             for a read) and mqsim (arrival in ns, device, LBA, sectors, 1 for a read); say which it is with \
             --format"
        );
    }

    #[test]
    fn what_fits_nothing_is_refused_with_the_closest() {
        assert_eq!(
            error(b"hello\n", true),
            "t is not in a known trace format: it begins with `hello`; `sakiyomi trace formats` lists them, and --format names one"
        );
        let broken = b"issue_us,lba512,sectors,op\n0,1,8,R\n\n0,1,8,X\n";
        assert!(error(broken, true).contains("hadoop comes closest, but at line 4: the operation is `X`"));
        assert!(error(b"", true).contains("it holds no line"));
        assert!(error(b"1 2 3", false).contains("hold no whole line"));
        assert!(error(b"\0\x01\n", true).contains("it is binary"));
    }

    #[test]
    fn a_line_cut_off_by_the_end_of_the_sample_is_left_out() {
        assert_eq!(sniff("t", b"0,303567,3584,w,0.0\n0,30", false).unwrap(), Format::Spc);
    }
}
