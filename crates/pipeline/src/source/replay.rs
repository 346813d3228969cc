//! Inputs that are read again from a position.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use super::mark::Mark;
use crate::Error;
use crate::input::{Queue, Start, candidates};

/// How an input is read again.
pub(crate) struct Replay {
    pub(crate) reopen: Reopen,
    pub(crate) path: PathBuf,
    /// Checksums of its start and, until something is read, of the bytes before the position.
    pub(crate) mark: Mark,
}

/// Opens the input of a source again.
pub(crate) type Reopen = Box<dyn FnMut(Start) -> Result<Queue, Error> + Send>;

/// A position in an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    /// In bytes, or in rows if the input needs no parsing.
    pub(super) at: u64,
    /// Number of the file in the file system, if the input is a tail.
    pub(super) inode: Option<u64>,
}

impl Replay {
    /// Returns where to open the input for a position, if it has the same bytes before it.
    ///
    /// # Errors
    /// The difference, or why the file cannot be read.
    pub(super) fn start(
        &self,
        position: Option<Position>,
        mark: Mark,
        is_text: bool,
    ) -> Result<Start, String> {
        match position {
            // The file of a tail did not exist.
            None => Ok(Start::At(0)),
            Some(Position { at, inode: Some(inode) }) => {
                let mut start = Err(String::new());
                for file in candidates(&self.path, inode) {
                    let is_other = std::fs::metadata(&file).is_ok_and(|found| found.ino() != inode);
                    if is_other && at > 0 && !mark.has_tail() {
                        // Any file would have what was read before the position.
                        let shown = file.display();
                        start = Err(format!(
                            "{shown} is not the file of the snapshot, of which no line had been read"
                        ));
                        continue;
                    }
                    start = mark.check(&file, Some(at)).map(|()| Start::In(file, at));
                    if start.is_ok() {
                        break;
                    }
                }
                start
            }
            Some(Position { at, inode: None }) => {
                mark.check(&self.path, is_text.then_some(at)).map(|()| Start::At(at))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use sakiyomi_testing::Scratch;

    use super::*;

    #[test]
    fn another_file_is_read_only_if_it_has_bytes_that_were_read_before_the_position() {
        let scratch = Scratch::new("replay");
        let path = scratch.file("log", "one\ntwo\n");
        let reopen: Reopen = Box::new(|_| unreachable!("nothing is opened"));
        let replay = Replay { reopen, path: path.clone(), mark: Mark::default() };
        let inode = std::fs::metadata(&path).unwrap().ino();
        let start = |inode, at, before: &[u8]| {
            replay.start(Some(Position { at, inode: Some(inode) }), Mark::default().at(before), true)
        };
        for (inode, at, before) in [(inode, 4, ""), (inode + 1, 4, "one\n"), (inode + 1, 0, "")] {
            let Ok(Start::In(file, from)) = start(inode, at, before.as_bytes()) else {
                panic!("{at} {before}")
            };
            assert_eq!((file, from), (path.clone(), at));
        }
        let refused = start(inode + 1, 4, b"").map(drop).unwrap_err();
        assert!(
            refused.ends_with("log is not the file of the snapshot, of which no line had been read"),
            "{refused}"
        );
        assert!(start(inode + 1, 4, b"two\n").is_err());
    }
}
