//! `pread:N`: N threads that read at offsets.

use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use super::threads::{Call, Threads};
use super::{CALL_MAX, Method, Read};
use crate::Source;

pub(super) fn open(source: &Arc<Source>, threads: usize, ahead: usize) -> io::Result<Box<dyn Method>> {
    let call = || {
        let source = Arc::clone(source);
        Box::new(move |read: &mut Read| into_space(read, |space, at| source.file().read_at(space, at)))
            as Call
    };
    Ok(Box::new(Threads::start("sakiyomi-pread", threads, ahead, call)?))
}

/// Has `call` read what is wanted behind what is already there, and notes what came.
pub(super) fn into_space(
    read: &mut Read,
    call: impl FnOnce(&mut [u8], u64) -> io::Result<usize>,
) -> io::Result<usize> {
    let buffer = read.content.buffer();
    let filled = buffer.len();
    let end = read.length.min(filled + CALL_MAX);
    let count = call(&mut buffer.space()[filled..end], read.offset + filled as u64)?;
    buffer.set_len(filled + count);
    Ok(count)
}
