//! Order, devices, compression and errors, as seen by a user.

use std::io::{Cursor, Write};

use proptest::prelude::*;
use sakiyomi_model::{Bytes, Nanos, StreamId};
use sakiyomi_testing::ScratchFile;
use sakiyomi_trace::{DeviceChoice, DeviceMap, Format, ReadOptions, Record, Trace, TraceError};

fn open(text: impl Into<Vec<u8>>, options: &ReadOptions) -> Result<Vec<Record>, TraceError> {
    Trace::from_reader(Cursor::new(text.into()), "t", options)?.collect()
}

fn of(format: Format) -> ReadOptions {
    ReadOptions { format: Some(format), ..ReadOptions::default() }
}

fn error(text: &str, options: &ReadOptions) -> String {
    open(text, options).unwrap_err().to_string()
}

fn times(records: &[Record]) -> Vec<u64> {
    records.iter().map(|record| record.time.0).collect()
}

#[test]
fn records_come_in_order_from_time_zero() {
    let text =
        "Timestamp,Response,IOType,LUN,Offset,Size\n10.5,,R,0,0,512\n10.2,,R,0,512,512\n10.3,,R,0,0,512\n";
    let records = open(text, &ReadOptions::default()).unwrap();
    assert_eq!(times(&records), [0, 100_000_000, 300_000_000]);
    assert_eq!(records.iter().map(|record| record.line).collect::<Vec<_>>(), [3, 4, 2]);
}

#[test]
fn a_late_record_is_refused_with_its_remedy() {
    let text = "5000000000 0 0 8 1\n1 0 0 8 1\n";
    assert_eq!(
        error(text, &of(Format::Mqsim)),
        "t:2: the record lies 4999999.999us before one already read, and records are put in order within 1s only; \
         raise --sort-window to 4999999.999us or more, or sort the file by time"
    );
    let options = ReadOptions { sort_window: Nanos::SECOND * 5, ..of(Format::Mqsim) };
    assert_eq!(times(&open(text, &options).unwrap()), [0, 4_999_999_999]);
}

#[test]
fn times_are_scaled_but_measured_waits_are_not() {
    let text = "enqueue_us,start_us,stop_us,bytes,lba256,disk,cylinder,op,queuelen,flags_hex\n\
                100,5,10,256,0,0,0,R,0,0\n300,7,10,256,0,0,0,R,0,0\n";
    let options = ReadOptions { time_scale: 0.5, ..ReadOptions::default() };
    let last = open(text, &options).unwrap()[1];
    assert_eq!((last.time, last.started), (Nanos(100_000), Some(Nanos(107_000))));
    assert_eq!(last.response, Some(Nanos(10_000)));
    let options = ReadOptions { time_scale: -1.0, ..ReadOptions::default() };
    assert_eq!(error(text, &options), "the time scale is -1, but must be a number of at least 0");
}

#[test]
fn a_closed_loop_stays_in_the_files_order_at_time_zero() {
    let text = "R Hit 8 4 10.0 20.0\nW Hit 0 4 10.0 30.0\n";
    let trace = Trace::from_reader(text.as_bytes(), "t", &ReadOptions::default()).unwrap();
    assert!(trace.is_closed_loop());
    let records: Vec<_> = trace.map(Result::unwrap).collect();
    assert_eq!(times(&records), [0, 0]);
    assert_eq!(records[1].think, Some(Nanos(30_000)));
}

#[test]
fn several_devices_need_a_choice() {
    let text = "0 3 0 8 1\n1 5 16 8 1\n2 3 8 8 1\n";
    assert_eq!(
        error(text, &of(Format::Mqsim)),
        "t:2: device 5 appears beside device 3, and a drive is one device; take one of them with --device 3, or put \
         all on one address space with --map concat"
    );
    let one = |device| {
        let device = Some(DeviceChoice::Number(device));
        open(text, &ReadOptions { device, ..of(Format::Mqsim) })
    };
    assert_eq!(one(5).unwrap().len(), 1);
    assert_eq!(one(4).unwrap_err().to_string(), "t has no record of device 4; it has records of 3, 5");
    let kept = open(text, &ReadOptions { map: DeviceMap::Keep, ..of(Format::Mqsim) }).unwrap();
    assert_eq!(kept.iter().map(|record| record.device).collect::<Vec<_>>(), [3, 5, 3]);
}

#[test]
fn devices_are_put_one_behind_the_other() {
    let text = b"0 5 0 8 1\n1 3 2040 16 1\n2 5 8 8 1\n3 9 0 8 1\n";
    let scratch = ScratchFile::named("concat.trace", text);
    let options = ReadOptions { map: DeviceMap::Concat, ..of(Format::Mqsim) };
    let trace = Trace::open(scratch.path(), &options).unwrap();
    assert_eq!(trace.total_bytes(), Some(text.len() as u64));
    let records: Vec<_> = trace.map(Result::unwrap).collect();
    // Device 3 ends at sector 2056, so device 5 begins at 2 MiB, and device 9 at 3 MiB.
    let mib = 1 << 20;
    let offsets: Vec<u64> = records.iter().map(|record| record.offset.0).collect();
    assert_eq!(offsets, [2 * mib, 2040 * 512, 2 * mib + 4096, 3 * mib]);
    assert_eq!(records[3].stream, StreamId(9));
    assert!(records.iter().all(|record| record.device == 0));
    assert!(error("0 1 0 8 1", &options).contains("--map concat needs a file that can be read twice"));
}

#[test]
fn impossible_commands_are_refused_with_their_line() {
    let text = |line| format!("0 0 0 8 1\n\n{line}\n");
    let error = |line| error(&text(line), &of(Format::Mqsim));
    assert!(error("1 0 0 0 1").starts_with("t:3: the read has no length"));
    assert!(
        error("1 0 0 8388609 1").starts_with("t:3: the read of 4294967808 bytes is longer than any command")
    );
    assert!(error("1 0 18014398509481983 8 1").contains("ends beyond 2^63"));
    assert!(error("x 0 0 8 1").starts_with("t:3: the column time (ns) holds `x`"));
}

#[test]
fn truncated_and_damaged_files_say_so() {
    let mut text = String::new();
    for line in 0..20_000u64 {
        text += &format!("{line} 0 {} 8 1\n", line * 7919 % 100_003);
    }
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    let gzip = encoder.finish().unwrap();
    let zstd = zstd::encode_all(text.as_bytes(), 1).unwrap();
    for (name, packed) in [("gzip", gzip), ("zstd", zstd)] {
        assert_eq!(open(packed.clone(), &of(Format::Mqsim)).unwrap().len(), 20_000);
        let message = open(&packed[..packed.len() / 2], &of(Format::Mqsim)).unwrap_err().to_string();
        assert!(message.starts_with(&format!("t: the {name} data ends early after line ")), "{message}");
        assert!(message.ends_with("the file is truncated: fetch or copy it again"), "{message}");
        let mut damaged = packed;
        let middle = damaged.len() / 2;
        damaged[middle..middle + 64].fill(0xa5);
        assert!(open(damaged, &of(Format::Mqsim)).is_err(), "{name}");
    }
}

#[test]
fn a_missing_file_and_a_directory_are_named() {
    let error = |path: &std::path::Path| Trace::open(path, &ReadOptions::default()).unwrap_err().to_string();
    assert_eq!(error("no-such.trace".as_ref()), "cannot open the trace no-such.trace");
    assert!(error(sakiyomi_testing::directory()).starts_with("cannot open the trace "));
    let scratch = ScratchFile::named("broken.parquet", b"PAR1 and no more");
    assert!(error(scratch.path()).ends_with("as a Parquet trace"));
    assert!(
        open(*b"PAR1", &ReadOptions::default()).unwrap_err().to_string().contains("Parquet needs a file")
    );
}

proptest! {
    #[test]
    fn disorder_within_the_window_comes_out_as_a_stable_sort(
        steps in prop::collection::vec((0u64..40, 0u64..100), 1..100),
    ) {
        let mut base = 0;
        let mut lines: Vec<(u64, usize)> = Vec::new();
        for (at, (gap, ahead)) in steps.into_iter().enumerate() {
            base += gap;
            lines.push((base + ahead, at));
        }
        let text: String = lines.iter().map(|(time, at)| format!("{time} 0 {at} 8 1\n")).collect();
        let options = ReadOptions { sort_window: Nanos(100), ..of(Format::Mqsim) };
        let found = open(text, &options).unwrap();
        lines.sort_by_key(|&(time, _)| time);
        let first = lines[0].0;
        let wanted: Vec<_> = lines.iter().map(|&(time, at)| (Nanos(time - first), Bytes(at as u64 * 512))).collect();
        prop_assert_eq!(found.iter().map(|record| (record.time, record.offset)).collect::<Vec<_>>(), wanted);
    }

    #[test]
    fn any_bytes_are_read_or_refused_without_panic(bytes: Vec<u8>, at in 0..Format::ALL.len()) {
        let _ = open(bytes.clone(), &of(Format::ALL[at]));
        let _ = open(bytes, &ReadOptions::default());
    }
}
