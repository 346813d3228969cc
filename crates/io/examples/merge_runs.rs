//! Sorts a file of 64-bit numbers by merging 500 sorted runs within a budget of 64 MiB: `merge_runs INPUT OUTPUT`.

use std::io::{self, Write};
use std::{cmp::Reverse, collections::BinaryHeap, sync::Arc};

use sakiyomi_io::{Access, AtomicFile, Block, Error, Io, IoFile, IoOptions, ReadStream, Run};
use sakiyomi_io::{SharedOptions, Spill, WriteOptions, WriteStream};

type File = Arc<IoFile>;

/// Sorts with `runs` runs, and returns the number of bytes written.
pub(crate) fn sort(io: &Io, input: &File, spill: &Spill, output: &File, runs: u64) -> io::Result<u64> {
    let (size, length) = (input.size(), (input.size() / 8).div_ceil(runs).max(1) * 8);
    let starts = (0..size).step_by(length as usize);
    let parts: Vec<_> = starts.map(|at| (Arc::clone(input), at..size.min(at + length))).collect();
    let mut sorted = Vec::new();
    for part in ReadStream::ranges(io, parts, &SharedOptions::default())? {
        let mut numbers: Vec<u64> = numbers_of(part?).collect();
        numbers.sort_unstable();
        let mut run = spill.run(&WriteOptions::default())?;
        numbers.iter().try_for_each(|number| run.write_all(&number.to_le_bytes()))?;
        sorted.push(run.finish()?);
    }
    // Opened before the readers, so that its memory is guaranteed however much they read ahead.
    let mut writer = WriteStream::shared(io, output, &WriteOptions::default())?;
    let drain = |run: Run| run.drain(&SharedOptions::default()).map(|blocks| blocks.flat_map(numbers));
    let mut runs = sorted.into_iter().map(drain).collect::<Result<Vec<_>, Error>>()?;
    let mut heap = BinaryHeap::new();
    for (at, run) in runs.iter_mut().enumerate() {
        heap.extend(run.next().transpose()?.map(|number| Reverse((number, at))));
    }
    while let Some(Reverse((number, at))) = heap.pop() {
        writer.write_all(&number.to_le_bytes())?;
        heap.extend(runs[at].next().transpose()?.map(|number| Reverse((number, at))));
    }
    Ok(writer.finish()?.bytes)
}

/// Returns the numbers of a block, which is released after the last of them.
fn numbers_of(block: Block) -> impl Iterator<Item = u64> {
    (0..block.len() / 8).map(move |at| u64::from_le_bytes(block.as_chunks().0[at]))
}

fn numbers(block: Result<Block, Error>) -> Box<dyn Iterator<Item = Result<u64, Error>>> {
    match block {
        Ok(block) => Box::new(numbers_of(block).map(Ok)),
        Err(error) => Box::new([Err(error)].into_iter()),
    }
}

fn main() -> io::Result<()> {
    let paths: Vec<_> = std::env::args_os().skip(1).collect();
    let [input, output] = &paths[..] else { return Err(io::Error::other("usage: merge_runs INPUT OUTPUT")) };
    let io = Io::open(&IoOptions { budget: 64 << 20, ..IoOptions::default() })?;
    let input = Arc::new(IoFile::open(input.as_ref(), Access::Direct)?);
    let output = AtomicFile::create_for(output, Access::Direct)?;
    sort(&io, &input, &Spill::create(&io, &std::env::temp_dir())?, output.file()?, 500)?;
    output.commit()
}
