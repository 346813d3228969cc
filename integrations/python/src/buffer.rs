//! Memory that Python and Rust share without a copy. All unsafe code of this crate is here.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int, c_void};
use std::{ptr, slice};

use arrow_array::ffi_stream::{ArrowArrayStreamReader, FFI_ArrowArrayStream};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, Schema};
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use pyo3::{PyClass, PyErr, ffi};

use crate::error::Error;

/// The argument of `PyBuffer_FillInfo` for memory that must not be written.
const READ_ONLY: c_int = 1;

/// Fills in a view of bytes for the buffer protocol. The view keeps `owner` alive, and is read-only.
///
/// # Safety
/// `view` is the pointer that Python has passed to `__getbuffer__`, and `bytes` stay at their place, unchanged, while
/// `owner` lives.
pub(crate) unsafe fn export<T: PyClass>(
    owner: &Bound<'_, T>,
    bytes: &[u8],
    view: *mut ffi::Py_buffer,
    flags: c_int,
) -> PyResult<()> {
    if view.is_null() {
        return Err(PyBufferError::new_err("there is no view to fill in"));
    }
    let start: *mut c_void = bytes.as_ptr().cast_mut().cast();
    let length = bytes.len().cast_signed();
    // SAFETY: the caller guarantees the view and the memory, which is marked as read-only, so that Python does not write.
    let filled = unsafe { ffi::PyBuffer_FillInfo(view, owner.as_ptr(), start, length, READ_ONLY, flags) };
    if filled == 0 { Ok(()) } else { Err(PyErr::fetch(owner.py())) }
}

/// A view of writable memory of Python's, which is neither freed nor resized until this is dropped.
struct Release(Box<ffi::Py_buffer>);

impl Drop for Release {
    fn drop(&mut self) {
        // SAFETY: the view was filled in by `PyObject_GetBuffer`, and `fill` drops it with the interpreter.
        unsafe { ffi::PyBuffer_Release(&mut *self.0) }
    }
}

/// Runs `fill` on the memory of an object such as a `bytearray` or an array, without the interpreter.
pub(crate) fn fill<T: Send>(
    object: &Bound<'_, PyAny>,
    fill: impl FnOnce(&mut [u8]) -> T + Send,
) -> PyResult<T> {
    let py = object.py();
    // Boxed: its address must not change, because some objects refer to it.
    let mut view = Box::new(ffi::Py_buffer::new());
    // SAFETY: the object and the view are valid; the flags ask for contiguous bytes.
    if unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), &mut *view, ffi::PyBUF_WRITABLE) } != 0 {
        return Err(PyErr::fetch(py));
    }
    let length = view.len.cast_unsigned();
    let start = if length == 0 { ptr::dangling_mut() } else { view.buf.cast::<u8>() };
    let view = Release(view);
    // SAFETY: writable and contiguous, as was asked for, until the view is released. As with files of Python's, it is up
    // to the program that no other thread uses the memory meanwhile.
    let bytes = unsafe { slice::from_raw_parts_mut(start, length) };
    let filled = py.detach(|| fill(bytes));
    drop(view);
    Ok(filled)
}

/// Takes the stream of Arrow's out of a capsule, which is empty afterwards. The error is Arrow's, or an exception if this is
/// not such a capsule.
pub(crate) fn stream_reader(
    capsule: &Bound<'_, PyCapsule>,
    name: &CStr,
) -> Result<ArrowArrayStreamReader, Result<ArrowError, PyErr>> {
    let stream = capsule.pointer_checked(Some(name)).map_err(Err)?.cast::<FFI_ArrowArrayStream>();
    // SAFETY: a capsule of this name has a valid stream, by the Arrow PyCapsule interface, which nobody else uses while the
    // interpreter is held.
    if unsafe { stream.as_ref() }.release.is_none() {
        return Err(Err(Error::new_err("this stream of Arrow's has been consumed already; export it again")));
    }
    // SAFETY: as above. It is moved out, and the capsule's is marked as released.
    unsafe { ArrowArrayStreamReader::from_raw(stream.as_ptr()) }.map_err(Ok)
}

/// Reads the schema in a capsule.
pub(crate) fn schema(capsule: &Bound<'_, PyCapsule>, name: &CStr) -> PyResult<Schema> {
    let schema = capsule.pointer_checked(Some(name))?.cast::<FFI_ArrowSchema>();
    // SAFETY: a capsule of this name has a valid schema, by the Arrow PyCapsule interface, as long as the capsule lives.
    Schema::try_from(unsafe { schema.as_ref() }).map_err(|error| Error::new_err(error.to_string()))
}
