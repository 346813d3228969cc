//! `read`: one I/O thread that reads on from where it is, as the paper recommends (Ueda 2013, section 3).

use std::fs::File;
use std::io::{self, Read as _, Seek, SeekFrom};
use std::sync::{Arc, Mutex, PoisonError};

use super::pread::into_space;
use super::threads::{Call, Threads};
use super::{Method, Read};
use crate::Source;

pub(super) fn open(source: &Arc<Source>, ahead: usize) -> io::Result<Box<dyn Method>> {
    // Of all methods this one alone moves the file's position, which is 0 after opening.
    let position = Arc::new(Mutex::new(0));
    let call = || {
        let (source, position) = (Arc::clone(source), Arc::clone(&position));
        let read_at = move |space: &mut [u8], at: u64| {
            let mut position = position.lock().unwrap_or_else(PoisonError::into_inner);
            read_on(source.file(), &mut position, space, at)
        };
        Box::new(move |read: &mut Read| into_space(read, &read_at)) as Call
    };
    Ok(Box::new(Threads::start("sakiyomi-read", 1, ahead, call)?))
}

fn read_on(mut file: &File, position: &mut u64, space: &mut [u8], at: u64) -> io::Result<usize> {
    if *position != at {
        file.seek(SeekFrom::Start(at))?;
        *position = at;
    }
    let count = file.read(space)?;
    *position += count as u64;
    Ok(count)
}
