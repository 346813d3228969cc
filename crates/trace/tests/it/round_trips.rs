//! Written traces read back unchanged, in every output format.

use std::fs;
use std::io::{Cursor, Read};

use proptest::prelude::*;
use sakiyomi_model::{Bytes, Nanos, Op, StreamId};
use sakiyomi_testing::ScratchFile;
use sakiyomi_trace::{
    DeviceMap, Format, HitLabel, OutFormat, Packing, ReadOptions, Record, Trace, TraceError, Writer,
};

const SECTOR: u64 = 512;

fn options(format: Option<Format>) -> ReadOptions {
    ReadOptions { format, map: DeviceMap::Keep, ..ReadOptions::default() }
}

fn written(records: &[Record], format: OutFormat, packing: Packing) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), "out", format, packing).unwrap();
    records.iter().for_each(|record| writer.write(record).unwrap());
    writer.into_inner().unwrap()
}

fn read(bytes: Vec<u8>, format: Format) -> Vec<Record> {
    let trace = Trace::from_reader(Cursor::new(bytes), "in", &options(Some(format))).unwrap();
    without_lines(trace.collect::<Result<_, _>>().unwrap())
}

fn without_lines(mut records: Vec<Record>) -> Vec<Record> {
    records.iter_mut().for_each(|record| record.line = 0);
    records
}

/// Generates reads and writes of whole sectors, from time zero, in order, which every format can represent.
fn plain_records() -> impl Strategy<Value = Vec<Record>> {
    let record = (0u64..1 << 40, any::<bool>(), 0u64..1 << 40, 1u64..1 << 16, 0u32..4);
    prop::collection::vec(record, 0..40).prop_map(|fields| {
        let mut time = 0;
        let mut records = Vec::new();
        for (gap, read, sector, sectors, device) in fields {
            let op = if read { Op::Read } else { Op::Write };
            let extent = (Bytes(sector * SECTOR), Bytes(sectors * SECTOR));
            records.push(Record { device, ..Record::new(Nanos(time), op, extent.0, extent.1) });
            time += gap;
        }
        records
    })
}

/// Generates records with all fields of an open trace.
fn full_records() -> impl Strategy<Value = Vec<Record>> {
    let extras = (0u8..4, any::<bool>(), any::<u32>(), prop::option::of(0u64..1 << 50), 0u64..5);
    (plain_records(), prop::collection::vec(extras, 40)).prop_map(|(mut records, extras)| {
        for (record, (op, fua, stream, response, label)) in records.iter_mut().zip(extras) {
            record.op = [Op::Read, Op::Write, Op::Flush, Op::Discard][usize::from(op)];
            record.fua = fua;
            record.stream = StreamId(stream);
            record.response = response.map(Nanos);
            record.started = response.map(|wait| record.time + Nanos(wait));
            record.label = match label {
                0 => Some(HitLabel::Hit),
                1 => Some(HitLabel::Trip),
                _ => None,
            };
        }
        records
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn sakiyomi_csv_holds_everything(records in full_records(), packing in 0usize..3) {
        let packing = [Packing::Plain, Packing::Gzip, Packing::Zstd][packing];
        prop_assert_eq!(read(written(&records, OutFormat::Sakiyomi, packing), Format::Sakiyomi), records);
    }

    #[test]
    fn parquet_holds_everything(records in full_records()) {
        let scratch = ScratchFile::absent("round-trip.parquet");
        fs::write(scratch.path(), written(&records, OutFormat::Parquet, Packing::Plain)).unwrap();
        let trace = Trace::open(scratch.path(), &options(None)).unwrap();
        prop_assert_eq!(trace.format(), Format::Parquet);
        prop_assert_eq!(without_lines(trace.collect::<Result<_, _>>().unwrap()), records);
    }

    #[test]
    fn a_closed_loop_keeps_its_order_and_think_times(records in full_records(), think in 0u64..1 << 40) {
        let closed: Vec<_> = records
            .into_iter()
            .map(|record| Record { time: Nanos(0), started: None, think: Some(Nanos(think)), ..record })
            .collect();
        prop_assert_eq!(read(written(&closed, OutFormat::Sakiyomi, Packing::Plain), Format::Sakiyomi), closed);
    }

    #[test]
    fn the_simulators_formats_hold_reads_and_writes(records in plain_records()) {
        prop_assert_eq!(read(written(&records, OutFormat::Disksim, Packing::Gzip), Format::Disksim), records.clone());
        prop_assert_eq!(read(written(&records, OutFormat::Mqsim, Packing::Zstd), Format::Mqsim), records);
    }

    #[test]
    fn fio_holds_microseconds(records in plain_records()) {
        let mut records = records;
        let mut known = Vec::new();
        for record in &mut records {
            record.time = Nanos(record.time.0 / 1000 * 1000);
            // Files are numbered in order of appearance.
            let at = known.iter().position(|&device| device == record.device).unwrap_or_else(|| {
                known.push(record.device);
                known.len() - 1
            });
            record.device = at as u32;
        }
        prop_assert_eq!(read(written(&records, OutFormat::Fio, Packing::Plain), Format::Fio), records);
    }
}

#[test]
fn a_damaged_parquet_file_is_an_error_at_worst() {
    let records: Vec<_> =
        (0..100).map(|at| Record::new(Nanos(at), Op::Read, Bytes(at * SECTOR), Bytes(SECTOR))).collect();
    let whole = written(&records, OutFormat::Parquet, Packing::Plain);
    let scratch = ScratchFile::absent("damaged.parquet");
    for at in (0..whole.len()).step_by(7) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x55;
        fs::write(scratch.path(), damaged).unwrap();
        let options = options(Some(Format::Parquet));
        let read = Trace::open(scratch.path(), &options).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        // Damage within a value is not detected, because Parquet's checksums are optional.
        assert!(read.is_err() || read.is_ok_and(|read| read.len() <= records.len()));
    }
}

#[test]
fn what_a_format_cannot_hold_is_refused() {
    let write = |format, record: Record| {
        let mut writer = Writer::new(Vec::new(), "out", format, Packing::Plain).unwrap();
        writer.write(&record).unwrap_err().to_string()
    };
    let odd = Record::new(Nanos(0), Op::Read, Bytes(256), Bytes(512));
    assert_eq!(
        write(OutFormat::Disksim, odd),
        "cannot write record 1 to out: the format disksim counts in sectors of 512 bytes, and this covers 512 bytes \
         at byte 256; choose another, such as sakiyomi"
    );
    let flush = Record::new(Nanos(0), Op::Flush, Bytes(0), Bytes(0));
    assert!(
        write(OutFormat::Mqsim, flush).contains("holds reads and writes only, and this record is a flush")
    );
    let fua = Record { fua: true, ..Record::new(Nanos(0), Op::Write, Bytes(0), Bytes(512)) };
    assert!(write(OutFormat::Fio, fua).contains("no mark for forced unit access"));
}

#[test]
fn an_unfinished_file_is_not_there() {
    let scratch = ScratchFile::absent("unfinished.csv.gz");
    let record = Record::new(Nanos(0), Op::Read, Bytes(0), Bytes(512));
    let mut writer = Writer::create(scratch.path(), OutFormat::Sakiyomi).unwrap();
    writer.write(&record).unwrap();
    drop(writer);
    assert!(!scratch.path().exists());

    let mut writer = Writer::create(scratch.path(), OutFormat::Sakiyomi).unwrap();
    writer.write(&record).unwrap();
    assert_eq!(writer.finish().unwrap(), 1);
    let mut magic = [0; 2];
    fs::File::open(scratch.path()).unwrap().read_exact(&mut magic).unwrap();
    assert_eq!(magic, [0x1f, 0x8b]);
    assert_eq!(Trace::open(scratch.path(), &options(None)).unwrap().count(), 1);

    let missing = Writer::create("no/such/directory/out", OutFormat::Sakiyomi).unwrap_err();
    assert!(matches!(missing, TraceError::Write { .. }));
}
