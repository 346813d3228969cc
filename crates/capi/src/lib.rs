//! The C interface of the prefetching reader, of prefetched ranges (`ranges.rs`), of blocked reads (`blocks.rs`), of tasks
//! (`tasks.rs`), of I/O rates and of simulations (`simulation.rs`). The functions are documented in `include/sakiyomi.h`;
//! tests check that header and library agree. `sakiyomi.map` lists the symbols of the shared library, which `install` links
//! from the static one: rustc's own list of symbols cannot be joined with one that has versions.
//!
//! No panic crosses the boundary and null pointers are refused. Callers must ensure what cannot be checked: that
//! pointers are valid, and that a reader is used by one thread at a time.
#![allow(unsafe_code)]

pub mod blocks;
mod failure;
mod pointers;
pub mod ranges;
pub mod simulation;
pub mod tasks;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::io::{Read, Seek, SeekFrom};

use sakiyomi_prefetch::{Limit, PrefetchReader, reader::Builder};

use failure::{Failure, guarded};
use pointers::{check_size, duplicate, free, given, open_failure, own, path_at, place, shared};

/// A reader, which C holds as an opaque pointer.
#[derive(Debug)]
pub struct Prefetch(PrefetchReader);

/// `sakiyomi_prefetch_options`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Size of this structure in bytes.
    pub size: usize,
    /// Maximum read-ahead distance; 0 for the default.
    pub limit_bytes: u64,
    /// Fixed read-ahead step; 0 for automatic control of the distance.
    pub step_bytes: u64,
    /// Memory for data read ahead; 0 for a quarter of the available memory.
    pub memory_bytes: u64,
}

/// `sakiyomi_prefetch_statistics`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Statistics {
    /// Size of this structure in bytes.
    pub size: usize,
    /// Bytes that the program has read.
    pub read_bytes: u64,
    /// Bytes brought into the page cache ahead of the program.
    pub prefetched_bytes: u64,
    /// Number of reads that waited for the device.
    pub waits: u64,
    /// Total time of these waits.
    pub io_wait_ns: u64,
    /// Estimated waiting time avoided by reading ahead.
    pub io_hidden_ns: u64,
    /// Bytes requested ahead of the program's position.
    pub ahead_bytes: u64,
}

/// The default limit that the header documents.
const DEFAULT_LIMIT_BYTES: u64 = 512 << 20;
/// Minimum step: one page, the kernel's unit of reading.
const STEP_MIN_BYTES: u64 = 4096;

/// Opens a file.
///
/// # Safety
/// `path` is null or a NUL-terminated string; `options` is null or points to valid options; `reader` is null or
/// writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sakiyomi_prefetch_open(
    path: *const c_char,
    options: *const Options,
    reader: *mut *mut Prefetch,
) -> c_int {
    guarded(|| {
        // SAFETY: guaranteed by the caller.
        let (reader, options, path) =
            unsafe { (place(reader, "reader")?, builder(options)?, path_at(path, "path")?) };
        *reader = given(Prefetch(options.open(path)?));
        Ok(0)
    })
}

/// Makes a reader for an open file descriptor.
///
/// # Safety
/// `options` is null or points to valid options; `reader` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sakiyomi_prefetch_open_fd(
    fd: c_int,
    options: *const Options,
    reader: *mut *mut Prefetch,
) -> c_int {
    guarded(|| {
        // SAFETY: guaranteed by the caller.
        let (reader, options) = unsafe { (place(reader, "reader")?, builder(options)?) };
        let over = options.over(duplicate(fd)?).map_err(|error| open_failure(fd, &error))?;
        *reader = given(Prefetch(over));
        Ok(0)
    })
}

/// Reads from the position and advances it.
///
/// # Safety
/// `reader` is null or an open reader that no other thread is using; `buffer` has room for `count` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sakiyomi_prefetch_read(
    reader: *mut Prefetch,
    buffer: *mut c_void,
    count: usize,
) -> isize {
    let result = guarded(|| {
        // SAFETY: guaranteed by the caller.
        let reader = unsafe { own(reader, "reader")? };
        if count == 0 {
            return Ok(0);
        }
        if buffer.is_null() {
            return Err(Failure::null("buffer"));
        }
        if isize::try_from(count).is_err() {
            return Err(Failure::invalid("a count of more than SSIZE_MAX bytes cannot be read at once"));
        }
        // SAFETY: the caller lends `count` bytes exclusively for the duration of the call. They are only written.
        let target = unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>(), count) };
        let read = reader.0.read(target).map_err(|error| Failure::system("cannot read", &error))?;
        Ok(read as i64)
    });
    result as isize
}

/// Moves the position.
///
/// # Safety
/// `reader` is null or an open reader that no other thread is using.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sakiyomi_prefetch_seek(reader: *mut Prefetch, offset: i64, whence: c_int) -> i64 {
    guarded(|| {
        // SAFETY: guaranteed by the caller.
        let reader = unsafe { own(reader, "reader")? };
        let before = || Failure::invalid(format!("cannot seek to {offset}: that is before the beginning"));
        let to = match whence {
            libc::SEEK_SET => SeekFrom::Start(u64::try_from(offset).map_err(|_| before())?),
            libc::SEEK_CUR => SeekFrom::Current(offset),
            libc::SEEK_END => SeekFrom::End(offset),
            _ => return Err(Failure::invalid("whence is none of SEEK_SET, SEEK_CUR and SEEK_END")),
        };
        let at = reader.0.seek(to).map_err(|error| Failure::system("cannot seek", &error))?;
        Ok(at.cast_signed())
    })
}

/// Returns the position.
///
/// # Safety
/// `reader` is null or an open reader that no other thread is using.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sakiyomi_prefetch_position(reader: *const Prefetch) -> i64 {
    // SAFETY: guaranteed by the caller.
    guarded(|| Ok(unsafe { shared(reader, "reader")? }.0.position().cast_signed()))
}

/// Fills in the statistics of a reader.
///
/// # Safety
/// `reader` is null or an open reader that no other thread is using; `statistics` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sakiyomi_prefetch_stats(
    reader: *const Prefetch,
    statistics: *mut Statistics,
) -> c_int {
    guarded(|| {
        // SAFETY: guaranteed by the caller.
        let reader = unsafe { shared(reader, "reader")? };
        // Only the size is read first: the rest of the structure may be missing.
        // SAFETY: the caller guarantees that it points to a structure, which begins with its size.
        unsafe { check_size(statistics.cast(), "statistics", size_of::<Statistics>())? };
        let done = reader.0.statistics();
        let nanos = |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let filled = Statistics {
            size: size_of::<Statistics>(),
            read_bytes: done.read_bytes,
            prefetched_bytes: done.prefetched_bytes,
            waits: done.waits,
            io_wait_ns: nanos(done.io_wait),
            io_hidden_ns: nanos(done.io_hidden),
            ahead_bytes: done.ahead.end - done.ahead.start,
        };
        // SAFETY: not null and of this size, as checked above.
        unsafe { statistics.write(filled) };
        Ok(0)
    })
}

/// Closes a reader.
///
/// # Safety
/// `reader` is null or an open reader, and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sakiyomi_prefetch_close(reader: *mut Prefetch) -> c_int {
    guarded(|| {
        // SAFETY: guaranteed by the caller.
        unsafe { free(reader) };
        Ok(0)
    })
}

/// Sets or removes the rate of a process.
///
/// # Safety
/// `dev_path` is null or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sakiyomi_set_iorate(
    pid: libc::pid_t,
    dev_path: *const c_char,
    req_iorate: c_int,
) -> c_int {
    guarded(|| {
        // SAFETY: guaranteed by the caller.
        let path = unsafe { path_at(dev_path, "dev_path")? };
        let Some(pid) = u32::try_from(pid).ok().filter(|&pid| pid > 0) else {
            return Err(Failure::no_process(pid));
        };
        let Some(percent) = u32::try_from(req_iorate).ok().filter(|&percent| percent <= 100) else {
            let text = format!("a rate of {req_iorate} % is not possible; give 1 to 100, or 0 to clear it");
            return Err(Failure::invalid(text));
        };
        sakiyomi_iorate::set_iorate(pid, path, percent)?;
        Ok(0)
    })
}

/// Returns the version of the library.
#[unsafe(no_mangle)]
pub extern "C" fn sakiyomi_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => panic!("a version has no NUL"),
        };
    VERSION.as_ptr()
}

/// Returns the description of the thread's last error.
#[unsafe(no_mangle)]
pub extern "C" fn sakiyomi_last_error() -> *const c_char {
    failure::last()
}

unsafe fn builder(options: *const Options) -> Result<Builder, Failure> {
    if options.is_null() {
        return Ok(Builder::default());
    }
    // SAFETY: the caller guarantees that it points to options; their size is checked first.
    let Options { limit_bytes, step_bytes, memory_bytes, .. } = unsafe {
        check_size(options.cast(), "options", size_of::<Options>())?;
        options.read()
    };
    let limit = if limit_bytes == 0 { DEFAULT_LIMIT_BYTES } else { limit_bytes };
    let builder = match step_bytes {
        0 => Builder::default().auto(limit),
        1..STEP_MIN_BYTES => {
            return Err(Failure::invalid(format!(
                "options.step_bytes is {step_bytes}; take 0, or at least {STEP_MIN_BYTES}"
            )));
        }
        step => Builder::default().fixed(limit, step),
    };
    Ok(if memory_bytes == 0 { builder } else { builder.memory(memory_bytes) })
}

const _: () = assert!(matches!(Limit::AUTO, Limit::Auto { most: DEFAULT_LIMIT_BYTES }), "as the header says");
