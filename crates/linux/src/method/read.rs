//! `read`: one I/O thread that reads on from where it is, as the paper recommends (Ueda 2013, section 3).

use std::fs::File;
use std::io::{self, Read as _, Seek, SeekFrom};
use std::sync::Arc;

use super::pread::into_space;
use super::threads::{Call, Threads};
use super::{Method, Read};
use crate::Source;

pub(super) fn open(source: &Arc<Source>, ahead: usize) -> io::Result<Box<dyn Method>> {
    let source = Arc::clone(source);
    // Of all methods this one alone moves the file's position, which is 0 after opening.
    let mut position = 0;
    let call =
        move |read: &mut Read| into_space(read, |space, at| read_on(source.file(), &mut position, space, at));
    Ok(Box::new(Threads::start("sakiyomi-read", vec![Box::new(call) as Call], ahead)?))
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
