//! Counting of files: by blocks, several files concurrently; or by their size, if only that is requested.

use std::fs::{File, Metadata};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use anyhow::Result;
use sakiyomi_exec::read::{self, Report};
use sakiyomi_text::count::{Counter, Figures, Part};

use super::lines::Shown;
use super::names::Names;
use crate::console::print_error;
use crate::reading::{ReadingArgs, describe, stdin};

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
}

type Figured = Result<(Figures, Report), read::Error>;

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
    }

    /// Counts files, the next of which is read while the last is counted.
    fn count_files(
        &self,
        first: usize,
        many: usize,
        note: &mut (impl FnMut(usize, Option<Counted>) -> io::Result<()> + Send),
    ) -> Result<()> {
        let names = &self.names.all[first..first + many];
        let mapped = self.reading.read_all(names)?.map(|block| self.counter.count(block));
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
        let mapped = self.reading.read(path)?.range(from..u64::MAX).map(|block| self.counter.count(block));
        let counted = mapped.reduce(Part::default(), |part, next| self.counter.join(part, &next));
        Ok(counted.map(|(part, report)| (self.counter.figures(&part), report)))
    }

    fn count_stdin(&self, mut stdin: File) -> Result<Figured> {
        let own = Path::new("/proc/self/fd/0");
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
        let mapped = self.reading.read(path)?.map(|block| self.counter.count(block));
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
        // GNU wc prints a line for each file that it could open.
        let is_opened = !matches!(error, read::Error::Open { .. });
        is_opened.then(|| Counted { failed: true, ..Counted::default() })
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
