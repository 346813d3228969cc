//! Serialization of a layout as text, so that files keep their places from mount to mount.
//!
//! ```text
//! sakiyomi layout 1
//! blocks 61049646
//! file 0 131074
//! 0 100 64
//! ```
//!
//! The drive's size in blocks is followed by the files. Each has its device and inode number and then its pieces: the
//! file's block number, the drive's block number, and the number of blocks.

use std::io::{self, BufRead, Write};

use super::{BLOCK_BYTES, FileId, Layout, Placed, Run};

const HEADER: &str = "sakiyomi layout 1";

/// A layout that cannot be read or written, or does not belong to this drive.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// Reading failed.
    #[error("the layout cannot be read")]
    Read(#[from] io::Error),
    /// Writing failed.
    #[error("the layout cannot be written")]
    Write(#[source] io::Error),
    /// A line is invalid.
    #[error("line {line} of the layout {problem}; remove the file to start with a new one")]
    Line {
        /// Line number, from 1.
        line: usize,
        /// The error, as the rest of a sentence.
        problem: String,
    },
    /// The layout belongs to a drive of another size.
    #[error(
        "the layout is for a drive of {found} blocks, and this one has {blocks}; name the drive that it was created with, or another file"
    )]
    OtherDrive {
        /// Blocks according to the layout.
        found: u64,
        /// Blocks of the drive.
        blocks: u64,
    },
}

impl Layout {
    /// Writes all places except reserved blocks.
    ///
    /// # Errors
    /// Returns the errors of `out`.
    pub fn store(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "{HEADER}\nblocks {}", self.blocks)?;
        for (file, placed) in &self.files {
            writeln!(out, "file {} {}", file.device, file.inode)?;
            for (at, run) in placed.pieces.runs_in(0..placed.wanted) {
                writeln!(out, "{at} {} {}", run.start, run.blocks)?;
            }
        }
        Ok(())
    }

    /// Reads the output of [`store`](Layout::store) into an empty layout.
    ///
    /// # Errors
    /// [`LayoutError`]; the layout must then not be used.
    pub fn load(&mut self, text: impl BufRead) -> Result<(), LayoutError> {
        let mut file = None;
        for (number, line) in text.lines().enumerate() {
            let read = self.load_line(number, &line?, &mut file);
            read.map_err(|problem| match problem {
                Problem::Line(problem) => LayoutError::Line { line: number + 1, problem },
                Problem::OtherDrive(found) => LayoutError::OtherDrive { found, blocks: self.blocks },
            })?;
        }
        Ok(())
    }

    fn load_line(&mut self, number: usize, line: &str, file: &mut Option<FileId>) -> Result<(), Problem> {
        let words: Vec<&str> = line.split(' ').collect();
        match (number, words.as_slice()) {
            (0, _) if line == HEADER => Ok(()),
            (0, _) => Err(wrong(format!("is not `{HEADER}`"))),
            (1, ["blocks", found]) => match whole(found)? {
                found if found == self.blocks => Ok(()),
                found => Err(Problem::OtherDrive(found)),
            },
            (1, _) => Err(wrong("should say how many blocks the drive has")),
            (_, ["file", device, inode]) => {
                let new = FileId { device: whole(device)?, inode: whole(inode)? };
                if self.files.insert(new, Placed::default()).is_some() {
                    return Err(wrong("names a file for the second time"));
                }
                *file = Some(new);
                Ok(())
            }
            (_, [at, start, blocks]) => {
                let file = file.ok_or_else(|| wrong("belongs to no file"))?;
                self.load_piece(file, whole(at)?, Run { start: whole(start)?, blocks: whole(blocks)? })
            }
            _ => Err(wrong("is neither a file nor a piece of one")),
        }
    }

    fn load_piece(&mut self, file: FileId, at: u64, run: Run) -> Result<(), Problem> {
        let fits = run.start.checked_add(run.blocks).is_some()
            && at.checked_add(run.blocks).is_some_and(|end| end <= i64::MAX as u64 / BLOCK_BYTES);
        if run.blocks == 0 || !fits || !self.free.holds(run) {
            return Err(wrong("gives a location that is in use, reserved for metadata or beyond the drive"));
        }
        let placed = self.files.entry(file).or_default();
        if at < placed.wanted {
            return Err(wrong("places a block for the second time, or not in order"));
        }
        self.free.take_at(run.start, run.blocks);
        placed.pieces.insert(at, run);
        placed.wanted = at + run.blocks;
        Ok(())
    }
}

enum Problem {
    Line(String),
    OtherDrive(u64),
}

fn wrong(problem: impl Into<String>) -> Problem {
    Problem::Line(problem.into())
}

fn whole(text: &str) -> Result<u64, Problem> {
    text.parse().map_err(|_| wrong(format!("has `{text}` where a whole number belongs")))
}
