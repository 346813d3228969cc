//! Entry points of the fuzz targets, as functions that the tests call as well. Not part of the public interface.

use std::io::Cursor;

use crate::record::{OFFSET_MAX, Record};
use crate::{DeviceMap, Format, OutFormat, Packing, ReadOptions, Trace, Writer};

/// Reads the rest of `data` as a file in the format selected by the first byte, and checks the guarantees of a trace.
///
/// # Panics
/// If a guarantee is violated, which is the finding of the fuzzer.
pub fn trace_reader(data: &[u8]) {
    let Some((&pick, file)) = data.split_first() else { return };
    let format = Format::ALL[usize::from(pick) % Format::ALL.len()];
    let options = ReadOptions { format: Some(format), map: DeviceMap::Keep, ..ReadOptions::default() };
    let Ok(mut trace) = Trace::from_reader(Cursor::new(file.to_vec()), "fuzz", &options) else { return };
    let closed_loop = trace.is_closed_loop();
    let records: Vec<Record> = trace.by_ref().map_while(Result::ok).collect();
    assert!(trace.next().is_none(), "nothing follows an error or the end");
    assert!(records.is_sorted_by_key(|record| record.time), "records are in order of time");
    assert!(records.iter().all(|record| record.end() <= OFFSET_MAX), "extents are inside the address space");
    if !closed_loop {
        assert!(records.first().is_none_or(|record| record.time.is_zero()), "the first record is at zero");
    }
    round_trip(&records);
}

/// Checks that the records can be written and read back unchanged.
fn round_trip(records: &[Record]) {
    let mut writer = Writer::new(Vec::new(), "fuzz", OutFormat::Sakiyomi, Packing::Plain)
        .expect("memory takes whatever is written");
    for record in records {
        writer.write(record).expect("sakiyomi's format holds everything");
    }
    let written = writer.into_inner().expect("memory takes whatever is written");
    let options =
        ReadOptions { format: Some(Format::Sakiyomi), map: DeviceMap::Keep, ..ReadOptions::default() };
    let again = Trace::from_reader(Cursor::new(written), "again", &options)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .expect("what was written is valid");
    assert!(again.len() == records.len(), "no record is lost");
    for (before, after) in records.iter().zip(again) {
        assert_eq!(Record { line: 0, ..*before }, Record { line: 0, ..after });
    }
}

/// Detects the format of `data` and reads it.
pub fn sniff(data: &[u8]) {
    if let Ok(trace) = Trace::from_reader(Cursor::new(data.to_vec()), "fuzz", &ReadOptions::default()) {
        let _ = trace.map_while(Result::ok).count();
    }
}
