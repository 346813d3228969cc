//! Counting of files: by blocks, several files concurrently; or by their size, if only that is requested.

use std::fs::{self, File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::Path;

use anyhow::Result;
use sakiyomi_exec::read::{self, Report};
use sakiyomi_io::file::extent_at;
use sakiyomi_text::count::{Counter, Figures, Part};

use super::lines::Shown;
use super::names::Names;
use crate::console::print_error;
use crate::reading::{Bar, ReadingArgs, describe, is_truncated, stdin};

/// The result of a file.
#[derive(Default)]
pub(super) struct Counted {
    pub(super) figures: Figures,
    pub(super) report: Report,
    pub(super) failed: bool,
}

/// The counter and its options.
pub(super) struct Tool<'w> {
    pub(super) reading: &'w ReadingArgs,
    pub(super) shown: Shown,
    pub(super) counter: Counter,
    pub(super) names: &'w Names<'w>,
    pub(super) bar: &'w Bar,
}

type Figured = Result<(Figures, Report), read::Error>;
type PartCounted = Result<(Part, Report), read::Error>;

/// Holes shorter than this are read: skipping them would take longer.
const HOLE_MIN_BYTES: u64 = 1 << 20;
/// Data between two holes up to this size is read by the calling thread: starting others would take longer.
const ISLAND_MAX_BYTES: u64 = 256 << 10;
/// Files below this size are read at once if there are no others.
const SMALL_MAX_BYTES: u64 = 256 << 10;
/// Unit of `st_blocks` in bytes.
const STAT_BLOCK_BYTES: u64 = 512;

impl Tool<'_> {
    /// Counts all files, and passes on the result of each in order; `None` if nothing is to be printed for it.
    pub(super) fn count_all(
        &self,
        mut note: impl FnMut(usize, Option<Counted>) -> io::Result<()> + Send,
    ) -> Result<()> {
        let count = self.names.all.len();
        let mut at = 0;
        while at < count {
            let many = (at..count).take_while(|&index| self.is_read_by_blocks(index)).count();
            if many > 0 {
                self.count_files(at, many, &mut note)?;
            } else {
                note(at, self.count_one(at)?)?;
            }
            at += many.max(1);
        }
        Ok(())
    }

    fn is_read_by_blocks(&self, index: usize) -> bool {
        !self.names.is_stdin(index)
            && self.names.refusal(index).is_none()
            && !self.shown.are_only_bytes(&self.counter)
            && !fs::metadata(&self.names.all[index])
                .is_ok_and(|metadata| has_holes(&metadata) || self.is_small_and_alone(&metadata))
    }

    /// Returns whether it is the only file, and so small that preparing to read it by blocks takes longer than to count
    /// it. Files without a size, such as those in `/proc`, may be large.
    fn is_small_and_alone(&self, metadata: &Metadata) -> bool {
        let is_small = metadata.is_file() && (1..SMALL_MAX_BYTES).contains(&metadata.len());
        is_small && self.names.all.len() == 1 && self.reading.is_usual()
    }

    /// Counts files, the next of which is read while the last is counted.
    fn count_files(
        &self,
        first: usize,
        many: usize,
        note: &mut (impl FnMut(usize, Option<Counted>) -> io::Result<()> + Send),
    ) -> Result<()> {
        let names = &self.names.all[first..first + many];
        let mapped = self.bar.on(self.reading.read_all(names)?).map(|block| self.counter.count(block));
        let join = |part, next| self.counter.join(part, &next);
        let counted = mapped.reduce_each(Part::default, join, |index, counted| {
            let figured = counted.map(|(part, report)| (self.counter.figures(&part), report));
            note(first + index, self.said(first + index, figured))
        });
        match counted {
            Ok(_) => Ok(()),
            Err(read::Error::Write(error)) => Err(error.into()),
            Err(error) => Err(error.into()),
        }
    }

    /// Counts a file that is not read concurrently with others.
    fn count_one(&self, index: usize) -> Result<Option<Counted>> {
        if let Some(refusal) = self.names.refusal(index) {
            print_error(&format!("wc: {refusal}"));
            return Ok(None);
        }
        let is_stdin = self.names.is_stdin(index);
        let path = Path::new(&self.names.all[index]);
        let figured = match if is_stdin { stdin() } else { File::open(path) } {
            Ok(mut file) => match self.by_size(&mut file) {
                Some(figures) => Ok((figures, Report::default())),
                None if is_stdin => self.count_stdin(file)?,
                None if is_stream(&file) => self.count_stream(path, file)?,
                None if file.metadata().is_ok_and(|metadata| self.is_small_and_alone(&metadata)) => {
                    self.count_small(path, &mut file)
                }
                None => self.count_file(path, 0)?,
            },
            Err(source) if is_stdin => Err(read::Error::Stream { path: path.into(), source }),
            Err(source) => Err(read::Error::Open { path: path.into(), source }),
        };
        Ok(self.said(index, figured))
    }

    /// Returns the figures that the file's size gives, if only that is requested.
    fn by_size(&self, file: &mut File) -> Option<Figures> {
        let bytes = if self.shown.are_only_bytes(&self.counter) { size(file)? } else { return None };
        Some(Figures { bytes, chars: bytes, ..Figures::default() })
    }

    fn count_file(&self, path: &Path, from: u64) -> Result<Figured> {
        let file = File::open(path).ok();
        let sparse = file.and_then(|file| {
            let metadata = file.metadata().ok()?;
            has_holes(&metadata).then(|| Extents { file, size: metadata.len(), at: from })
        });
        let counted = match sparse {
            None => self.count_range(path, from..u64::MAX)?,
            Some(extents) => self.count_extents(path, extents)?,
        };
        Ok(counted.map(|(part, report)| (self.counter.figures(&part), report)))
    }

    fn count_small(&self, path: &Path, file: &mut File) -> Figured {
        let mut bytes = Vec::new();
        let read = file.read_to_end(&mut bytes);
        read.map_err(|source| read::Error::Stream { path: path.into(), source })?;
        let report = Report { bytes: bytes.len() as u64, ..Report::default() };
        Ok((self.counter.figures(&self.counter.count(&bytes)), report))
    }

    fn count_range(&self, path: &Path, range: Range<u64>) -> Result<PartCounted> {
        let mapped =
            self.bar.on(self.reading.read(path)?).range(range).map(|block| self.counter.count(block));
        Ok(mapped.reduce(Part::default(), |part, next| self.counter.join(part, &next)))
    }

    /// Counts a file whose holes are not read.
    fn count_extents(&self, path: &Path, mut extents: Extents) -> Result<PartCounted> {
        let (mut whole, mut all) = (Part::default(), Report::default());
        let mut island = Vec::new();
        loop {
            let (range, is_data) = match extents.next() {
                Ok(None) => return Ok(Ok((whole, all))),
                Ok(Some(extent)) => extent,
                Err(source) => return Ok(Err(read::Error::Stream { path: path.into(), source })),
            };
            let length = range.end - range.start;
            let part = if !is_data {
                self.bar.add(length);
                self.counter.count_hole(length)
            } else if length <= ISLAND_MAX_BYTES {
                island.resize(length as usize, 0);
                if let Err(source) = extents.file.read_exact_at(&mut island, range.start) {
                    return Ok(Err(read::Error::Stream { path: path.into(), source }));
                }
                all.bytes += length;
                self.bar.add(length);
                self.counter.count(&island)
            } else {
                match self.count_range(path, range)? {
                    Err(error) => return Ok(Err(error)),
                    Ok((part, report)) => {
                        all.add(&report);
                        part
                    }
                }
            };
            whole = self.counter.join(whole, &part);
        }
    }

    fn count_stdin(&self, mut stdin: File) -> Result<Figured> {
        let own = Path::new(OWN_STDIN);
        let has_size = stdin.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() > 0);
        if has_size && let (Ok(at), Ok(_)) = (stdin.stream_position(), File::open(own)) {
            let counted = self.count_file(own, at)?;
            let _ = stdin.seek(SeekFrom::End(0));
            return Ok(counted);
        }
        self.count_stream(Path::new("-"), stdin)
    }

    /// Counts an open file that has no size and no offsets, from its position to its end.
    fn count_stream(&self, path: &Path, from: File) -> Result<Figured> {
        let mapped = self.bar.on(self.reading.read(path)?).map(|block| self.counter.count(block));
        let join = |part, next| self.counter.join(part, &next);
        let counted = mapped.reduce_stream(from, Part::default(), join);
        Ok(counted.map(|(part, report)| (self.counter.figures(&part), report)))
    }

    /// Returns the result of a file; reports its error.
    fn said(&self, index: usize, figured: Figured) -> Option<Counted> {
        let error = match figured {
            Ok((figures, report)) => return Some(Counted { figures, report, failed: false }),
            Err(error) => error,
        };
        print_error(&format!("wc: {}: {}", self.names.display(index), describe(&error)));
        if is_truncated(&error)
            && let Some(counted) = self.count_again(index)
        {
            return Some(counted);
        }
        // GNU wc prints a line for each file that it could open.
        let is_opened = !matches!(error, read::Error::Open { .. });
        is_opened.then(|| Counted { failed: true, ..Counted::default() })
    }

    /// Counts what is left of a file that was truncated while it was read: from its beginning to its end, wherever
    /// that is by then.
    fn count_again(&self, index: usize) -> Option<Counted> {
        let is_stdin = self.names.is_stdin(index);
        let path = if is_stdin { Path::new(OWN_STDIN) } else { Path::new(&self.names.all[index]) };
        let (figures, report) = self.count_stream(path, File::open(path).ok()?).ok()?.ok()?;
        Some(Counted { figures, report, failed: true })
    }
}

/// The file that is standard input, to be opened once more.
const OWN_STDIN: &str = "/proc/self/fd/0";

/// Returns whether a file has long holes, as far as its size and its storage tell.
fn has_holes(metadata: &Metadata) -> bool {
    metadata.is_file() && metadata.blocks() * STAT_BLOCK_BYTES + HOLE_MIN_BYTES <= metadata.len()
}

/// The data of a file and its long holes, in turn.
struct Extents {
    file: File,
    size: u64,
    at: u64,
}

impl Extents {
    /// Returns the next extent, and whether it is data.
    fn next(&mut self) -> io::Result<Option<(Range<u64>, bool)>> {
        let start = self.at;
        let mut is_data = false;
        while self.at < self.size {
            let (end, has_data) = extent_at(&self.file, self.size, self.at)?;
            let is_long_hole = !has_data && end - self.at >= HOLE_MIN_BYTES;
            if is_long_hole && is_data {
                break;
            }
            self.at = end;
            if is_long_hole {
                break;
            }
            is_data = true;
        }
        Ok((start < self.at).then_some((start..self.at, is_data)))
    }
}

/// Returns whether a file must be read through its existing descriptor: a FIFO that is opened a second time waits for
/// another writer, which may never come.
fn is_stream(file: &File) -> bool {
    file.metadata().is_ok_and(|metadata| {
        let kind = metadata.file_type();
        !kind.is_file() && !kind.is_block_device()
    })
}

/// Returns the bytes from a file's position to its end, if its size tells them: the sizes of files in `/proc` do not.
fn size(file: &mut File) -> Option<u64> {
    let metadata = file.metadata().ok().filter(Metadata::is_file)?;
    let (size, at) = (metadata.len(), file.stream_position().ok()?);
    if !size.is_multiple_of(sakiyomi_io::buffer::page_size() as u64) {
        return Some(size.saturating_sub(at));
    }
    let near_end = size - size % (metadata.blksize() + 1);
    let from = if at < near_end { file.seek(SeekFrom::Start(near_end)).ok()? } else { at };
    let rest = io::copy(file, &mut io::sink()).ok()?;
    Some(from - at + rest)
}
