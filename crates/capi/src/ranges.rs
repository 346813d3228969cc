//! Prefetched ranges and mapped files.

use std::ffi::{c_char, c_int, c_void};
use std::ops::Range;

use sakiyomi_prefetch::ranges::{Builder, Error};
use sakiyomi_prefetch::{MappedReader, Prefetch};

use crate::failure::{Failure, guarded};
use crate::pointers::{check_size, duplicate, free, given, path_at, place, shared};

/// Prefetched ranges, which C holds as an opaque pointer.
#[derive(Debug)]
pub struct Ranges(Prefetch);

/// A mapped file, which C holds as an opaque pointer.
#[derive(Debug)]
pub struct Mapped(MappedReader);

/// `sakiyomi_range`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FileRange {
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
}

/// `sakiyomi_ranges_options`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RangesOptions {
    /// Size of this structure in bytes.
    pub size: usize,
    /// Memory for data ahead of the program; 0 for a quarter of the available memory.
    pub memory_bytes: u64,
}

/// The smallest window, as the header documents it.
const DOCUMENTED_WINDOW_MIN_BYTES: u64 = 65536;

const _: () = assert!(sakiyomi_prefetch::ranges::WINDOW_MIN_BYTES == DOCUMENTED_WINDOW_MIN_BYTES);

/// As the header says, threads may share both.
const _: () = {
    const fn can_be_shared<T: Send + Sync>() {}
    can_be_shared::<Ranges>();
    can_be_shared::<Mapped>();
};

/// Opens a file and begins to prefetch ranges of it.
///
/// # Safety
/// `path` is null or a NUL-terminated string; `ranges` is null or has `count` ranges; `options` is null or points to
/// valid options; `opened` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sakiyomi_ranges_open(
    path: *const c_char,
    ranges: *const FileRange,
    count: usize,
    options: *const RangesOptions,
    opened: *mut *mut Ranges,
) -> c_int {
    guarded(|| {
        // SAFETY: guaranteed by the caller.
        let (opened, options, path) =
            unsafe { (place(opened, "opened")?, builder(options)?, path_at(path, "path")?) };
        // SAFETY: guaranteed by the caller.
        let ranges = unsafe { list(ranges, count)? };
        *opened = given(Ranges(options.open(path, ranges)?));
        Ok(0)
    })
}

/// Begins to prefetch ranges of an open file descriptor.
///
/// # Safety
/// `ranges` is null or has `count` ranges; `options` is null or points to valid options; `opened` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sakiyomi_ranges_open_fd(
    fd: c_int,
    ranges: *const FileRange,
    count: usize,
    options: *const RangesOptions,
    opened: *mut *mut Ranges,
) -> c_int {
    guarded(|| {
        // SAFETY: guaranteed by the caller.
        let (opened, options, ranges) =
            unsafe { (place(opened, "opened")?, builder(options)?, list(ranges, count)?) };
        *opened = given(Ranges(options.over(duplicate(fd)?, ranges)?));
        Ok(0)
    })
}

/// Waits until a range is cached.
///
/// # Safety
/// `ranges` is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sakiyomi_ranges_wait(ranges: *const Ranges, index: usize) -> c_int {
    guarded(|| {
        // SAFETY: guaranteed by the caller.
        let ranges = unsafe { shared(ranges, "ranges")? };
        Ok(c_int::from(!ranges.0.wait(index)?))
    })
}

/// Reports that the first ranges have been used.
///
/// # Safety
/// `ranges` is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sakiyomi_ranges_advance(ranges: *const Ranges, count: usize) -> c_int {
    guarded(|| {
        // SAFETY: guaranteed by the caller.
        unsafe { shared(ranges, "ranges")? }.0.advance(count);
        Ok(0)
    })
}

/// Ends prefetching.
///
/// # Safety
/// `ranges` is null or open, and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sakiyomi_ranges_close(ranges: *mut Ranges) -> c_int {
    guarded(|| {
        // SAFETY: guaranteed by the caller.
        unsafe { free(ranges) };
        Ok(0)
    })
}

/// Maps a file and begins to prefetch ranges of it, or all of it.
///
/// # Safety
/// `path` is null or a NUL-terminated string; `ranges` is null or has `count` ranges; `options` is null or points to
/// valid options; `opened` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sakiyomi_mapped_open(
    path: *const c_char,
    ranges: *const FileRange,
    count: usize,
    options: *const RangesOptions,
    opened: *mut *mut Mapped,
) -> c_int {
    guarded(|| {
        // SAFETY: guaranteed by the caller.
        let (opened, options, path) =
            unsafe { (place(opened, "opened")?, builder(options)?, path_at(path, "path")?) };
        let is_whole = ranges.is_null() && count == 0;
        // SAFETY: guaranteed by the caller.
        let ranges = unsafe { list(ranges, count)? };
        let whole = is_whole.then_some(0..u64::MAX);
        *opened = given(Mapped(MappedReader::new(options.open(path, whole.into_iter().chain(ranges))?)?));
        Ok(0)
    })
}

/// Returns bytes of the mapping.
///
/// # Safety
/// `mapped` is null or open; `data` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sakiyomi_mapped_slice(
    mapped: *const Mapped,
    offset: u64,
    length: usize,
    data: *mut *const c_void,
) -> c_int {
    guarded(|| {
        if data.is_null() {
            return Err(Failure::null("data"));
        }
        // SAFETY: not null, and writable as guaranteed by the caller.
        unsafe { data.write(std::ptr::null()) };
        // SAFETY: guaranteed by the caller.
        let mapped = unsafe { shared(mapped, "mapped")? };
        let bytes = mapped.0.slice(offset..offset.saturating_add(length as u64))?;
        // SAFETY: as above.
        unsafe { data.write(bytes.as_ptr().cast()) };
        Ok(0)
    })
}

/// Reports that the first ranges have been used.
///
/// # Safety
/// `mapped` is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sakiyomi_mapped_advance(mapped: *const Mapped, count: usize) -> c_int {
    guarded(|| {
        // SAFETY: guaranteed by the caller.
        unsafe { shared(mapped, "mapped")? }.0.prefetch().advance(count);
        Ok(0)
    })
}

/// Returns the size of the file.
///
/// # Safety
/// `mapped` is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sakiyomi_mapped_size(mapped: *const Mapped) -> i64 {
    // SAFETY: guaranteed by the caller.
    guarded(|| Ok(unsafe { shared(mapped, "mapped")? }.0.size().cast_signed()))
}

/// Returns whether a byte was accessed that the file no longer had.
///
/// # Safety
/// `mapped` is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sakiyomi_mapped_truncated(mapped: *const Mapped) -> c_int {
    // SAFETY: guaranteed by the caller.
    guarded(|| Ok(c_int::from(unsafe { shared(mapped, "mapped")? }.0.is_truncated())))
}

/// Unmaps a file.
///
/// # Safety
/// `mapped` is null or open, and neither it nor its bytes are used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sakiyomi_mapped_close(mapped: *mut Mapped) -> c_int {
    guarded(|| {
        // SAFETY: guaranteed by the caller.
        unsafe { free(mapped) };
        Ok(0)
    })
}

/// Returns the ranges of a list. An end beyond the largest offset is beyond the end of every file.
unsafe fn list<'a>(
    ranges: *const FileRange,
    count: usize,
) -> Result<impl Iterator<Item = Range<u64>> + 'a, Failure> {
    if ranges.is_null() && count > 0 {
        return Err(Failure::null("ranges"));
    }
    if count > isize::MAX as usize / size_of::<FileRange>() {
        return Err(Failure::invalid(format!("a list of {count} ranges is larger than the address space")));
    }
    let list: &'a [FileRange] = match count {
        0 => &[],
        // SAFETY: not null, with `count` ranges as guaranteed by the caller, and within the address space.
        _ => unsafe { std::slice::from_raw_parts(ranges, count) },
    };
    Ok(list.iter().map(|range| range.offset..range.offset.saturating_add(range.length)))
}

unsafe fn builder(options: *const RangesOptions) -> Result<Builder, Failure> {
    if options.is_null() {
        return Ok(Builder::default());
    }
    // SAFETY: the caller guarantees that it points to options; their size is checked first.
    let RangesOptions { memory_bytes, .. } = unsafe {
        check_size(options.cast(), "options", size_of::<RangesOptions>())?;
        options.read()
    };
    Ok(if memory_bytes == 0 { Builder::default() } else { Builder::default().memory(memory_bytes) })
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match error {
            Error::File(error) => error.into(),
            Error::Read { ref source, .. } | Error::Map { ref source, .. } => {
                Failure::system(&error.to_string(), source)
            }
            Error::Shrunk { .. } => Failure::of_input(error.to_string()),
            _ => Failure::invalid(error.to_string()),
        }
    }
}
