//! `read`: one I/O thread that calls `read`, as the paper recommends (Ueda 2013, section 3). Writes use `pwrite`.

use std::io::{self, Read as _, Seek, SeekFrom};

use super::threads::{Call, Threads, perform};
use super::{Engine, Op};
use crate::IoFile;

pub(super) fn open(ahead: usize) -> io::Result<Box<dyn Engine>> {
    let call = || Box::new(|op: &mut Op| perform(op, read_on)) as Call;
    Ok(Box::new(Threads::start("sakiyomi-read", 1, ahead, call)?))
}

/// Reads at the file's position, after a seek if it differs.
fn read_on(file: &IoFile, space: &mut [u8], at: u64) -> io::Result<usize> {
    let mut position = file.position();
    let mut file = file.file();
    if *position != at {
        file.seek(SeekFrom::Start(at))?;
        *position = at;
    }
    let count = file.read(space)?;
    *position += count as u64;
    Ok(count)
}
