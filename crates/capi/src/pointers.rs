//! Pointers that C passes: null ones are refused, all others are taken to be what the caller guarantees.

use std::ffi::{CStr, CString, OsStr, c_char, c_int};
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::failure::Failure;

/// Hands an object over to C, which returns it for `Box::from_raw`.
pub(crate) fn given<T>(object: T) -> *mut T {
    Box::into_raw(Box::new(object))
}

/// Hands a text over to C, which returns it for `CString::from_raw`.
pub(crate) fn given_text(text: String) -> *mut c_char {
    // Texts have no NUL, but for a name with one that someone has put into a file.
    let text = if text.contains('\0') { text.replace('\0', "?") } else { text };
    CString::new(text).unwrap_or_default().into_raw()
}

/// Returns the place where an object is to be stored, after setting it to null.
///
/// # Safety
/// `object` is null or writable.
pub(crate) unsafe fn place<'a, T>(object: *mut *mut T, name: &str) -> Result<&'a mut *mut T, Failure> {
    if object.is_null() {
        return Err(Failure::null(name));
    }
    // SAFETY: the caller guarantees that it is writable; it is written before a reference to it is made.
    unsafe {
        object.write(std::ptr::null_mut());
        Ok(&mut *object)
    }
}

/// Returns an object that only this thread uses.
///
/// # Safety
/// `object` is null or was made by [`given`], and no other thread uses it.
pub(crate) unsafe fn own<'a, T>(object: *mut T, name: &str) -> Result<&'a mut T, Failure> {
    // SAFETY: it was made by `given`, and the caller guarantees exclusive use.
    unsafe { object.as_mut() }.ok_or_else(|| Failure::null(name))
}

/// Returns an object that threads may share, if its type allows that.
///
/// # Safety
/// `object` is null or was made by [`given`]; if its type is not `Sync`, no other thread uses it.
pub(crate) unsafe fn shared<'a, T>(object: *const T, name: &str) -> Result<&'a T, Failure> {
    // SAFETY: it was made by `given`, and the caller guarantees that no other thread changes it.
    unsafe { object.as_ref() }.ok_or_else(|| Failure::null(name))
}

/// Frees an object.
///
/// # Safety
/// `object` is null or was made by [`given`], and is not used any more.
pub(crate) unsafe fn free<T>(object: *mut T) {
    if !object.is_null() {
        // SAFETY: it was made by `given` and is not used afterwards.
        drop(unsafe { Box::from_raw(object) });
    }
}

/// Returns a path.
///
/// # Safety
/// `path` is null or a NUL-terminated string.
pub(crate) unsafe fn path_at<'a>(path: *const c_char, name: &str) -> Result<&'a Path, Failure> {
    if path.is_null() {
        return Err(Failure::null(name));
    }
    // SAFETY: not null, and NUL-terminated as guaranteed by the caller.
    Ok(Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes())))
}

/// Duplicates a file descriptor of the caller.
pub(crate) fn duplicate(fd: c_int) -> Result<File, Failure> {
    if fd < 0 {
        return Err(open_failure(fd, &io::Error::from_raw_os_error(libc::EBADF)));
    }
    // SAFETY: it is only duplicated, which the kernel refuses if it is not an open descriptor.
    let own = unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned();
    own.map(File::from).map_err(|error| open_failure(fd, &error))
}

/// Returns the error of a file descriptor that cannot be used.
pub(crate) fn open_failure(fd: c_int, error: &io::Error) -> Failure {
    Failure::system(&format!("cannot read the file descriptor {fd}"), error)
}

/// Checks the size at the beginning of a structure of C.
///
/// # Safety
/// `structure` is null or points to a structure that begins with its size.
pub(crate) unsafe fn check_size(structure: *const usize, name: &str, known: usize) -> Result<(), Failure> {
    if structure.is_null() {
        return Err(Failure::null(name));
    }
    // SAFETY: not null, and begins with a size as guaranteed by the caller.
    let size = unsafe { structure.read() };
    if size != known {
        let text =
            format!("{name}.size is {size}, and this version knows {known}: set it to sizeof, and rebuild");
        return Err(Failure::invalid(text));
    }
    Ok(())
}
