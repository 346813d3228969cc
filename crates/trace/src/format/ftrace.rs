//! The kernel's block events as text: `dd-22892 [001] ..... 70399.630501: block_rq_issue: 254,0 WS 8192 () 350521336 + 16
//! be,0,4 [dd]`.
//!
//! Printed by tracefs (`trace`, `trace_pipe`), `trace-cmd report` and `perf script`: thread, CPU, sometimes flags, time in
//! seconds, event, and its fields by the event's format (include/trace/events/block.h), with the extent in sectors of 512
//! bytes. Events are paired as those of blkparse; other events, comments and notes of the tools are skipped.

use sakiyomi_model::{Op, StreamId};

use super::Parser;
use super::blkparse::{device_field, extent, has_error, unpaired};
use super::events::Events;
use crate::block::{BlockEvent, BlockOp, BlockStage, device_text};
use crate::field::{NANOS_PER_S, Problem, Shown, nanos, whole_u32, words};
use crate::options::ReadOptions;
use crate::record::Record;

pub(super) struct Reader {
    action: u8,
    /// `None` if commands of the action are not paired.
    events: Option<Events>,
    line: u64,
    /// Whether the file begins with a comment of tracefs.
    has_header: bool,
}

impl Reader {
    pub(super) fn new(options: &ReadOptions) -> Reader {
        Reader { action: options.action, events: Events::new(options), line: 0, has_header: false }
    }

    /// Returns whether the line is a note of a tool instead of an event; one such note says that events are missing.
    fn note(&mut self, line: &[u8], out: &mut Vec<Record>) -> bool {
        // `CPU:1 [LOST 42 EVENTS]`; of trace-cmd `CPU:1 [42 EVENTS DROPPED]`, or without the number.
        if line.starts_with(b"CPU:") && (line.ends_with(b"EVENTS]") || line.ends_with(b"EVENTS DROPPED]")) {
            if let Some(events) = &mut self.events {
                events.lost(out);
            }
            return true;
        }
        self.has_header |= line.starts_with(b"# tracer:");
        self.has_header && line.starts_with(b"#") || line.starts_with(b"cpus=")
    }
}

impl Parser for Reader {
    fn at(&mut self, line: u64) {
        self.line = line;
    }

    fn line(&mut self, line: &[u8], out: &mut Vec<Record>) -> Result<(), Problem> {
        let line = line.trim_ascii();
        if self.note(line, out) {
            return Ok(());
        }
        let Printed { process, time, name, fields } = printed(line).ok_or_else(|| unknown(line))?;
        let time = nanos(time, NANOS_PER_S, "time (s)")?;
        let Some((stage, letter)) = stage(name) else { return Ok(()) };
        if self.events.is_none() && letter != self.action {
            return Ok(());
        }
        let process = process.map_or(Ok(0), |process| whole_u32(process, "process"))?;
        let mut first = words(fields);
        let (Some(device), Some(rwbs)) = (first.next(), first.next()) else { return Err(unknown(line)) };
        let device = device_field(device)?;
        let op = BlockOp::parse(rwbs)?;
        let (sector, count) = sectors(fields).ok_or_else(|| unknown(line))?;
        let (offset, length) = extent(op, sector, count)?;
        let (is_failed, line) = (stage == BlockStage::Completed && has_error(fields), self.line);
        match &mut self.events {
            Some(events) => events
                .push(BlockEvent { time, device, stage, op, offset, length, is_failed, process, line }, out),
            None => {
                let stream = StreamId(process);
                unpaired(op, Record { device, stream, ..Record::new(time, Op::Flush, offset, length) }, out);
                Ok(())
            }
        }
    }

    fn finish(&mut self, out: &mut Vec<Record>) {
        if let Some(events) = &mut self.events {
            events.finish(out);
        }
    }

    fn is_whole(&self, line: &[u8]) -> bool {
        // The brackets of the CPU end no line.
        line.trim_ascii_end().ends_with(b"]") && printed(line.trim_ascii()).is_some()
    }

    fn device_name(&self, device: u32) -> Option<String> {
        Some(device_text(device))
    }
}

/// A printed event.
struct Printed<'a> {
    process: Option<&'a [u8]>,
    time: &'a [u8],
    name: &'a [u8],
    fields: &'a [u8],
}

/// Splits a line at ` [CPU] `, which a thread's name is unlikely to hold, and then at the colons behind the time and the
/// name of the event.
fn printed(line: &[u8]) -> Option<Printed<'_>> {
    let (open, close) = cpu(line)?;
    let thread = line[..open].trim_ascii_end();
    // `dd-22892`, or of perf `dd 22892` or `dd 22892/22892`; tracefs can show the thread group behind it.
    let thread = thread
        .strip_suffix(b")")
        .and_then(|rest| rest.rsplitn(2, |&byte| byte == b'(').nth(1))
        .unwrap_or(thread);
    let thread = thread.trim_ascii_end();
    let process = thread.rsplit(|byte| matches!(byte, b'-' | b' ' | b'/')).next();
    let process = process.filter(|word| !word.is_empty() && word.iter().all(u8::is_ascii_digit));
    let mut rest = line[close + 1..].trim_ascii_start();
    // Flags of the event, if any, and its time.
    let time = loop {
        let end = rest.iter().position(|&byte| byte == b' ')?;
        let word = &rest[..end];
        rest = rest[end..].trim_ascii_start();
        if let Some(time) = word.strip_suffix(b":") {
            break time;
        }
    };
    let end = rest.windows(2).position(|pair| pair == b": ")?;
    let (name, fields) = (&rest[..end], rest[end + 2..].trim_ascii_start());
    let name = name.strip_prefix(b"block:").unwrap_or(name);
    (time.contains(&b'.') && !name.contains(&b' ')).then_some(Printed { process, time, name, fields })
}

/// Returns the positions of the brackets around the CPU.
fn cpu(line: &[u8]) -> Option<(usize, usize)> {
    let mut from = 0;
    loop {
        let open = from + line[from..].iter().position(|&byte| byte == b'[')?;
        let close = open + line[open..].iter().position(|&byte| byte == b']')?;
        let number = &line[open + 1..close];
        if open > 0 && !number.is_empty() && number.iter().all(u8::is_ascii_digit) {
            return Some((open, close));
        }
        from = open + 1;
    }
}

fn stage(name: &[u8]) -> Option<(BlockStage, u8)> {
    Some(match name {
        b"block_bio_queue" => (BlockStage::Queued, b'Q'),
        b"block_rq_insert" => (BlockStage::Inserted, b'I'),
        b"block_rq_issue" => (BlockStage::Issued, b'D'),
        b"block_rq_requeue" => (BlockStage::Requeued, b'R'),
        b"block_rq_complete" => (BlockStage::Completed, b'C'),
        _ => return None,
    })
}

/// Returns the words around the plus sign, which is behind the command in parentheses.
fn sectors(fields: &[u8]) -> Option<(&[u8], &[u8])> {
    let command = fields.windows(2).position(|pair| pair == b") ").map_or(0, |at| at + 2);
    let mut before = None;
    let mut words = words(&fields[command..]);
    while let Some(word) = words.next() {
        if word == b"+" {
            return Some((before?, words.next()?));
        }
        before = Some(word);
    }
    None
}

fn unknown(line: &[u8]) -> Problem {
    format!(
        "{} is not an event as tracefs prints it: `thread-process [CPU] flags time: block_rq_issue: major,minor RWBS \
         bytes () sector + count [thread]`",
        Shown(line)
    )
}

#[cfg(test)]
mod tests {
    use sakiyomi_model::{Bytes, Nanos};

    use super::super::{Format, parse_text};
    use super::*;

    const TEXT: &str = "\
# tracer: nop
#
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
              dd-22892   [001] ...1. 70399.630725: block_rq_insert: 254,0 WS 8192 () 350521336 + 16 be,0,4 [dd]
              dd-22892   [001] ..... 70399.630729: block_rq_issue: 254,0 WS 8192 () 350521336 + 16 be,0,4 [dd]
              dd-22892   [001] ..... 70399.630764: block_rq_requeue: 254,0 WS () 350521336 + 16 be,0,4 [0]
    kworker/1:1H-44      [001] ..... 70399.631454: block_rq_issue: 254,0 WS 8192 () 350521336 + 16 be,0,4 [kworker/1:1H]
       opt cgu.0-22876   [001] .Ns.. 70399.631595: block_rq_complete: 254,0 WS () 350521336 + 16 be,0,4 [0]
       opt cgu.0-22876   [001] .Ns.. 70399.631605: block_io_done: 254,0 WS 0 () 350521336 + 0 none,0,0 [opt cgu.0]
    kworker/1:1H-44      [001] ..... 70399.657483: block_rq_issue: 254,0 FF 0 () 0 + 0 none,0,0 [kworker/1:1H]
           rustc-22031   [001] ..s.. 70399.657515: block_rq_complete: 254,0 FF () 18446744073709551615 + 0 none,0,0 [0]
";

    #[test]
    fn a_request_that_was_inserted_and_requeued_has_the_times_of_its_last_issue() {
        let base = 70_399_000_000_000;
        let device = 254 << 20;
        let wanted = [
            Record {
                device,
                stream: StreamId(22_892),
                started: Some(Nanos(base + 631_454_000)),
                response: Some(Nanos(870_000)),
                ..Record::new(Nanos(base + 630_725_000), Op::Write, Bytes(350_521_336 * 512), Bytes(8192))
            },
            Record {
                device,
                stream: StreamId(44),
                started: Some(Nanos(base + 657_483_000)),
                response: Some(Nanos(32_000)),
                ..Record::new(Nanos(base + 657_483_000), Op::Flush, Bytes::ZERO, Bytes::ZERO)
            },
        ];
        assert_eq!(parse_text(Format::Ftrace, TEXT).unwrap(), wanted);
    }

    #[test]
    fn lines_of_other_tools_are_read() {
        let trace_cmd = "cpus=2\n   dd-22892 [001] 70399.630729: block_rq_issue:       8,0 R 4096 (28 00 + 1) 64 + 8 [a [b]\n";
        assert_eq!(parse_text(Format::Ftrace, trace_cmd).unwrap()[0].offset, Bytes(64 * 512));
        let perf =
            "  a b c  22892/22893 [001] 70399.630729: block:block_rq_issue: 8,0 R 4096 () 64 + 8 [a b c]\n";
        assert_eq!(parse_text(Format::Ftrace, perf).unwrap()[0].stream, StreamId(22_893));
        let group =
            "  dd-22892 (  22890) [001] ..... 70399.630729: block_rq_issue: 8,0 R 4096 () 64 + 8 [dd]\n";
        assert_eq!(parse_text(Format::Ftrace, group).unwrap()[0].stream, StreamId(22_892));
        let other = "  dd-22892 [001] d.... 70399.6: sched_switch: prev_comm=a ==> next_comm=b\n";
        assert_eq!(parse_text(Format::Ftrace, other).unwrap(), []);
    }

    #[test]
    fn completions_after_lost_events_are_not_those_of_earlier_requests() {
        for note in ["CPU:1 [LOST 42 EVENTS]", "CPU:1 [42 EVENTS DROPPED]", "CPU:1 [EVENTS DROPPED]"] {
            let text = format!(
                "dd-1 [000] 1.0: block_rq_issue: 8,0 R 4096 () 64 + 8 [dd]\n{note}\n\
                 dd-1 [000] 9.0: block_rq_complete: 8,0 R () 64 + 8 [0]\n"
            );
            assert_eq!(parse_text(Format::Ftrace, &text).unwrap()[0].response, None, "{note}");
        }
    }

    #[test]
    fn a_completion_with_an_error_gives_no_response_time() {
        let text = |error| {
            format!(
                "dd-1 [000] 1.0: block_rq_issue: 8,0 R 4096 () 64 + 8 [dd]\n\
                 dd-1 [000] 9.0: block_rq_complete: 8,0 R () 64 + 8 be,0,4 [{error}]\n"
            )
        };
        let response = |error| parse_text(Format::Ftrace, &text(error)).unwrap()[0].response;
        assert_eq!((response("0"), response("-5")), (Some(Nanos(8_000_000_000)), None));
    }

    #[test]
    fn bad_lines_are_refused() {
        let error = |line| parse_text(Format::Ftrace, line).unwrap_err();
        assert!(error("# a comment without the header").contains("is not an event"));
        assert!(error("dd-1 [000] 1.0: block_rq_issue: 8,0 R 4096 () 64").contains("is not an event"));
        assert!(error("dd-1 [000] 1.0: block_rq_issue: 8,0 X 4096 () 64 + 8").starts_with("the operation"));
        assert!(error("dd-1 [000] 1.0: block_rq_issue: 8:0 R 4096 () 64 + 8").contains("major,minor"));
        assert!(error("dd-1 [000] 1.x: block_rq_issue: 8,0 R 4096 () 64 + 8").contains("time (s)"));
    }
}
