//! `pread:N`: N threads that call `pread` and `pwrite`.

use std::io;
use std::os::unix::fs::FileExt;

use super::threads::{Call, Threads, perform};
use super::{Engine, Op};

pub(super) fn open(threads: usize, ahead: usize) -> io::Result<Box<dyn Engine>> {
    let call =
        || Box::new(|op: &mut Op| perform(op, |file, space, at| file.file().read_at(space, at))) as Call;
    Ok(Box::new(Threads::start("sakiyomi-pread", threads, ahead, call)?))
}
