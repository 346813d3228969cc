//! Formats that users record on their machines: events of requests and lines of completed ones, as the tools print them.

use std::fmt::Write as _;
use std::io::Cursor;
use std::path::Path;

use proptest::prelude::*;
use sakiyomi_model::{Bytes, Nanos, Op};
use sakiyomi_trace::{DeviceChoice, DeviceMap, Format, ReadOptions, Record, Trace, TraceError};

const SECTOR: u64 = 512;

fn recorded(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    std::fs::read_to_string(path).unwrap()
}

fn read(text: &str, options: &ReadOptions) -> Result<Vec<Record>, TraceError> {
    Trace::from_reader(Cursor::new(text.as_bytes().to_vec()), "t", options)?.collect()
}

fn error(text: &str) -> String {
    read(text, &ReadOptions::default()).unwrap_err().to_string()
}

fn with_action(action: u8) -> ReadOptions {
    ReadOptions { action, ..ReadOptions::default() }
}

fn described(records: &[Record]) -> String {
    let mut text = String::new();
    for record in records {
        let Record { time, device, stream, op, fua, offset, length, response, started, .. } = *record;
        let optional = |time: Option<Nanos>| time.map_or("-".to_owned(), |time| time.0.to_string());
        writeln!(
            text,
            "{} started {} response {} device {device} stream {} {op:?}{} {} + {}",
            time.0,
            optional(started),
            optional(response),
            stream.0,
            if fua { " FUA" } else { "" },
            offset.0 / SECTOR,
            length.0 / SECTOR
        )
        .unwrap();
    }
    text
}

#[test]
fn formats_are_detected() {
    for (name, format) in [
        ("recorded.ftrace", Format::Ftrace),
        ("recorded.blkparse", Format::Blkparse),
        ("recorded.biosnoop", Format::Biosnoop),
        ("recorded.biosnoop-libbpf", Format::Biosnoop),
    ] {
        let text = recorded(name);
        let trace = Trace::from_reader(Cursor::new(text.into_bytes()), "t", &ReadOptions::default()).unwrap();
        assert_eq!(trace.format(), format, "{name}");
    }
}

/// The same events, as tracefs printed them and as blkparse prints them.
#[test]
fn requests_of_a_recorded_trace_have_their_times() {
    for action in [b'Q', b'I', b'D'] {
        let options = with_action(action);
        let records = read(&recorded("recorded.ftrace"), &options).unwrap();
        insta::assert_snapshot!(format!("recorded_{}", char::from(action)), described(&records));
        let of_blkparse = read(&recorded("recorded.blkparse"), &options).unwrap();
        let without_lines = |records: Vec<Record>| {
            records.into_iter().map(|record| Record { line: 0, ..record }).collect::<Vec<_>>()
        };
        assert_eq!(without_lines(of_blkparse), without_lines(records), "{}", char::from(action));
    }
}

#[test]
fn lines_of_biosnoop_are_requests() {
    let read = |name: &str| described(&read(&recorded(name), &ReadOptions::default()).unwrap());
    insta::assert_snapshot!("biosnoop", read("recorded.biosnoop"));
    insta::assert_snapshot!("biosnoop_libbpf", read("recorded.biosnoop-libbpf"));
}

#[test]
fn a_trace_without_bios_is_one_of_requests() {
    let text = recorded("recorded.ftrace");
    let requests: String =
        text.lines().filter(|line| !line.contains("bio_queue")).map(|line| format!("{line}\n")).collect();
    let by_default = read(&requests, &ReadOptions::default()).unwrap();
    assert_eq!(by_default, read(&requests, &with_action(b'I')).unwrap());
    assert!(by_default.iter().any(|record| record.started.is_some() && record.response.is_some()));
}

#[test]
fn a_last_line_that_was_cut_off_is_ignored() {
    for name in ["recorded.ftrace", "recorded.blkparse", "recorded.biosnoop", "recorded.biosnoop-libbpf"] {
        let text = recorded(name);
        let lines: Vec<&str> =
            text.lines().filter(|line| line.contains("254,0") || line.contains("vda")).collect();
        let head = text.split_inclusive('\n').take_while(|line| !line.contains(lines[0])).collect::<String>();
        let whole = format!("{head}{}\n{}\n", lines[0], lines[1]);
        let records = read(&whole, &ReadOptions::default()).unwrap();
        for cut in 1..lines[1].len() {
            let cut = format!("{head}{}\n{}", lines[0], &lines[1][..cut]);
            // A latency may have lost its last digit.
            let found = read(&cut, &ReadOptions::default()).unwrap_or_else(|error| panic!("{cut}: {error}"));
            assert!(found.len() <= records.len() && !found.is_empty(), "{cut}");
        }
        let ended = format!("{head}{}\n{}\n", lines[0], &lines[1][..lines[1].len() / 3]);
        assert!(error(&ended).starts_with("t"), "a whole line that is wrong is not ignored");
    }
}

#[test]
fn devices_are_chosen_and_refused_by_their_names() {
    let biosnoop = "\
TIME(s)     COMM           PID     DISK      T SECTOR     BYTES  LAT(ms)
1.000000    dd             1       sda       W 8          4096      0.50
2.000000    dd             1       nvme0n1   R 16         4096      0.50
";
    assert_eq!(
        error(biosnoop),
        "t:3: device nvme0n1 appears beside device sda, and a drive is one device; take one of them with --device sda, \
         or put all on one address space with --map concat"
    );
    let of = |name: &str| ReadOptions { device: Some(name.parse().unwrap()), ..ReadOptions::default() };
    let chosen = read(biosnoop, &of("nvme0n1")).unwrap();
    assert_eq!(chosen.iter().map(|record| record.offset).collect::<Vec<_>>(), [Bytes(16 * SECTOR)]);
    let missing = read(biosnoop, &of("sdb")).unwrap_err().to_string();
    assert_eq!(missing, "t has no record of device sdb; it has records of sda, nvme0n1");
    let events = "8,0 0 1 0.1 5 D R 8 + 8 [a]\n8,16 0 2 0.2 5 D R 8 + 8 [a]\n";
    assert!(error(events).starts_with("t:2: device 8,16 appears beside device 8,0"));
    assert_eq!(of("8,16").device, Some(DeviceChoice::Number(8 << 20 | 16)));
    assert_eq!(read(events, &of("8,16")).unwrap().len(), 1);
    let missing = read(events, &of("8,32")).unwrap_err().to_string();
    assert!(missing.ends_with("it has records of 8,0, 8,16"), "{missing}");
}

#[test]
fn bad_lines_are_refused_with_their_number() {
    let ftrace = recorded("recorded.ftrace").replacen("350519296 +", "x350519296 +", 1);
    assert!(
        error(&ftrace).contains("ftrace comes closest, but at line 12: the column sector holds `x350519296`")
    );
    let late = "8,0 0 1 5.0 5 D R 8 + 8 [a]\n8,0 0 2 0.2 5 C R 8 + 8 [0]\n";
    assert_eq!(
        error(late),
        "t:2: the event lies 4.8s before one already read, and events are put in order within 1s only; raise \
         --sort-window to 4.8s or more, or sort the file by time"
    );
    let bpftrace =
        error("Attaching 6 probes...\nTIME(ms)     DISK    COMM             PID    LAT(ms)\n12 sda dd 5 1\n");
    assert!(bpftrace.contains("bpftrace's biosnoop.bt prints neither addresses nor lengths"), "{bpftrace}");
}

/// A request that the generator of texts knows, with times in microseconds.
#[derive(Clone, Debug)]
struct Known {
    op: Op,
    sector: u64,
    sectors: u64,
    inserted: u64,
    issued: u64,
    completed: u64,
    process: u32,
}

fn known() -> impl Strategy<Value = Vec<Known>> {
    let request = (0u64..5000, 0u8..4, 1u64..2048, 0u64..3000, 1u64..30_000, 1u32..99_999);
    prop::collection::vec(request, 1..60).prop_map(|all| {
        let mut inserted = 7;
        let all = all.into_iter().enumerate();
        all.map(|(number, (gap, op, sectors, wait, service, process))| {
            inserted += gap + 1;
            let op = [Op::Read, Op::Write, Op::Discard, Op::Read][usize::from(op)];
            let (issued, sector) = (inserted + wait, number as u64 * 4096);
            Known { op, sector, sectors, inserted, issued, completed: issued + service, process }
        })
        .collect()
    })
}

fn rwbs(op: Op) -> &'static str {
    match op {
        Op::Read => "RA",
        Op::Write => "WSM",
        Op::Flush => "FF",
        Op::Discard => "DS",
    }
}

/// Returns the records that are to be read, in order of arrival from zero.
fn wanted(known: &[Known], device: u32) -> Vec<Record> {
    let base = known.iter().map(|request| request.inserted).min().unwrap();
    let mut records: Vec<Record> = known
        .iter()
        .map(|request| Record {
            device,
            stream: sakiyomi_model::StreamId(request.process),
            response: Some(Nanos((request.completed - request.inserted) * 1000)),
            started: Some(Nanos((request.issued - base) * 1000)),
            ..Record::new(
                Nanos((request.inserted - base) * 1000),
                request.op,
                Bytes(request.sector * SECTOR),
                Bytes(request.sectors * SECTOR),
            )
        })
        .collect();
    records.sort_by_key(|record| record.time);
    records
}

fn without_lines(records: Vec<Record>) -> Vec<Record> {
    records.into_iter().map(|record| Record { line: 0, ..record }).collect()
}

/// Returns the events of the requests, in order of time: microseconds, stage, request.
fn events(known: &[Known]) -> Vec<(u64, u8, &Known)> {
    let mut all: Vec<_> = known
        .iter()
        .flat_map(|of| [(of.inserted, b'I', of), (of.issued, b'D', of), (of.completed, b'C', of)])
        .collect();
    all.sort_by_key(|&(time, stage, of)| (time, stage == b'C', of.inserted));
    all
}

fn blkparse(known: &[Known], order: &[(u64, u8, &Known)]) -> String {
    assert!(!known.is_empty());
    let mut text = String::new();
    for (number, (time, stage, of)) in order.iter().enumerate() {
        let (seconds, fraction) = (time / 1_000_000, time % 1_000_000 * 1000);
        let process = if *stage == b'I' { of.process } else { 44 };
        let end = if *stage == b'C' { "0" } else { "k worker" };
        writeln!(
            text,
            "{:3},{:<3} {:2} {:8} {seconds:5}.{fraction:09} {process:5} {:>2} {:>3} {} + {} [{end}]",
            8,
            16,
            1,
            number + 1,
            char::from(*stage),
            rwbs(of.op),
            of.sector,
            of.sectors
        )
        .unwrap();
    }
    text + "CPU0 (sdb):\n Reads Queued:           0,        0KiB\n"
}

fn ftrace(order: &[(u64, u8, &Known)]) -> String {
    let mut text = String::new();
    for (time, stage, of) in order {
        let (seconds, fraction) = (time / 1_000_000, time % 1_000_000);
        let process = if *stage == b'I' { of.process } else { 44 };
        let (name, command, end) = match stage {
            b'I' => ("insert", format!("{} ()", of.sectors * SECTOR), "be,0,4 [k w]"),
            b'D' => ("issue", format!("{} (2a 00 + 1)", of.sectors * SECTOR), "[k w]"),
            _ => ("complete", "()".to_owned(), "none,0,0 [0]"),
        };
        writeln!(
            text,
            "{:>16}-{process:<7} [000] d.h1. {seconds}.{fraction:06}: block_rq_{name}: 8,16 {} {command} {} + {} {end}",
            "k [w] x",
            rwbs(of.op),
            of.sector,
            of.sectors
        )
        .unwrap();
    }
    text
}

fn biosnoop(known: &[Known]) -> String {
    let mut text =
        "TIME(s)     COMM           PID     DISK    T    SECTOR     BYTES   QUE(ms) LAT(ms)\n".to_owned();
    let mut all: Vec<&Known> = known.iter().collect();
    all.sort_by_key(|of| of.completed);
    let base = all[0].completed;
    for of in all {
        writeln!(
            text,
            "{:<11.6} {:<14} {:<7} {:<7} {:<4} {:<10} {:<7} {:7.3} {:7.3}",
            (of.completed - base) as f64 / 1e6,
            "a b",
            of.process,
            "sdb",
            rwbs(of.op),
            of.sector,
            of.sectors * SECTOR,
            (of.issued - of.inserted) as f64 / 1e3,
            (of.completed - of.issued) as f64 / 1e3
        )
        .unwrap();
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn printed_events_are_read_back(known in known(), swaps in prop::collection::vec(any::<u16>(), 0..40)) {
        let options = ReadOptions { action: b'I', map: DeviceMap::Keep, ..ReadOptions::default() };
        let mut order = events(&known);
        let wanted = wanted(&known, 8 << 20 | 16);
        prop_assert_eq!(without_lines(read(&blkparse(&known, &order), &options).unwrap()), wanted.clone());
        prop_assert_eq!(without_lines(read(&ftrace(&order), &options).unwrap()), wanted.clone());
        // Lines of other CPUs come late, by less than the window.
        for swap in swaps {
            let at = usize::from(swap) % order.len();
            let next = (at + 1).min(order.len() - 1);
            if order[at].0 != order[next].0 {
                order.swap(at, next);
            }
        }
        prop_assert_eq!(without_lines(read(&blkparse(&known, &order), &options).unwrap()), wanted);
    }

    #[test]
    fn printed_completions_are_read_back(known in known()) {
        let records = without_lines(read(&biosnoop(&known), &ReadOptions::default()).unwrap());
        prop_assert_eq!(records, wanted(&known, 0));
    }
}
