//! Sums columns of a file that holds 40 columns of 64-bit numbers, in row groups whose column chunks of 256 KiB lie
//! one after the other: `column_ranges FILE [COLUMN ...]`. Only the bytes of the requested columns are read.

use std::io::{self, Write};
use std::sync::Arc;

use sakiyomi_io::{Access, Error, Io, IoFile, IoOptions, ReadStream, SharedOptions};

const COLUMNS: u64 = 40;
const CHUNK_BYTES: u64 = 256 << 10;

/// Returns the sums of some columns, which are in ascending order.
pub(crate) fn sums(
    io: &Io,
    file: &Arc<IoFile>,
    columns: &[u64],
    chunk_bytes: u64,
) -> Result<Vec<u64>, Error> {
    let groups = file.size() / (COLUMNS * chunk_bytes);
    let chunks = (0..groups).flat_map(|group| columns.iter().map(move |column| group * COLUMNS + column));
    let ranges: Vec<_> =
        chunks.map(|chunk| (Arc::clone(file), chunk * chunk_bytes..(chunk + 1) * chunk_bytes)).collect();
    let mut sums = vec![0u64; columns.len()];
    // Adjacent columns are read in one operation, yet each is returned as one block.
    let options = SharedOptions { block: 4 << 20, ..SharedOptions::default() };
    for (at, chunk) in ReadStream::ranges(io, ranges, &options)?.enumerate() {
        let chunk = chunk?;
        let numbers = chunk.chunks_exact(8).map(|bytes| u64::from_le_bytes(bytes.try_into().expect("eight")));
        let sum = &mut sums[at % columns.len()];
        *sum = numbers.fold(*sum, u64::wrapping_add);
    }
    Ok(sums)
}

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let usage = || io::Error::other("usage: column_ranges FILE [COLUMN ...], columns from 0 to 39");
    let (path, columns) = arguments.split_first().ok_or_else(usage)?;
    let columns: Result<Vec<u64>, _> = columns.iter().map(|column| column.parse()).collect();
    let mut columns = columns.map_err(|_| usage())?;
    columns.sort_unstable();
    columns.dedup();
    match columns.last() {
        None => columns.extend(0..COLUMNS),
        Some(last) if *last >= COLUMNS => return Err(usage()),
        Some(_) => {}
    }
    let io = Io::open(&IoOptions::default())?;
    let file = Arc::new(IoFile::open(path.as_ref(), Access::Direct)?);
    for (column, sum) in columns.iter().zip(sums(&io, &file, &columns, CHUNK_BYTES)?) {
        writeln!(io::stdout(), "{column}\t{sum}")?;
    }
    Ok(())
}
