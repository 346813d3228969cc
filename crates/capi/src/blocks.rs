//! Blocked reads: a function of C's for each block, on all cores, while the files are read.

use std::ffi::{c_char, c_int, c_void};
use std::path::PathBuf;

use sakiyomi_exec::read::{Block, Error, blocked_reads};

use crate::failure::{Failure, guarded};
use crate::pointers::{check_size, path_at};

/// `sakiyomi_block`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BlockView {
    /// Its bytes.
    pub bytes: *const c_void,
    /// Number of bytes, at least 1.
    pub length: usize,
    /// Offset of the first byte in its file.
    pub offset: u64,
    /// Index of its file among the paths.
    pub file: usize,
}

/// `sakiyomi_blocks_options`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BlocksOptions {
    /// Size of this structure in bytes.
    pub size: usize,
    /// Bytes of a block; 0 for any.
    pub block_bytes: u64,
    /// Whether blocks consist of whole records.
    pub has_records: c_int,
    /// The byte that ends a record.
    pub record_end: u8,
    /// Number of threads; 0 for one per core.
    pub threads: u32,
}

/// `sakiyomi_block_function`.
pub type BlockFunction =
    Option<unsafe extern "C" fn(state: *mut c_void, block: *const BlockView, context: *mut c_void) -> c_int>;
/// `sakiyomi_merge_function`.
pub type MergeFunction =
    Option<unsafe extern "C" fn(into: *mut c_void, from: *const c_void, context: *mut c_void)>;

/// Calls a function for each block of some files.
///
/// # Safety
/// `paths` is null or has `count` NUL-terminated strings; `options` is null or points to valid options; `state` is null or
/// has `state_size` bytes that are aligned to 16; the functions may be called from any thread with `context`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sakiyomi_blocks_fold(
    paths: *const *const c_char,
    count: usize,
    options: *const BlocksOptions,
    function: BlockFunction,
    merge: MergeFunction,
    state: *mut c_void,
    state_size: usize,
    context: *mut c_void,
) -> c_int {
    guarded(|| {
        let function = function.ok_or_else(|| Failure::null("function"))?;
        let merge = merge.ok_or_else(|| Failure::null("merge"))?;
        if state.is_null() && state_size > 0 {
            return Err(Failure::null("state"));
        }
        // SAFETY: guaranteed by the caller.
        let (paths, options) = unsafe { (listed(paths, count)?, given_options(options)?) };
        let context = Shared(context);
        // SAFETY: it has so many bytes, as guaranteed by the caller.
        let first = unsafe { State::copied(state, state_size) };
        let step = |own: &mut State, block: Block<'_>| {
            let view = BlockView {
                bytes: block.bytes().as_ptr().cast(),
                length: block.bytes().len(),
                offset: block.offset(),
                file: block.file(),
            };
            let context = &context;
            // SAFETY: the state is this call's alone, and the block lives until it returns.
            match unsafe { function(own.start(), &raw const view, context.0) } {
                0 => Ok(()),
                code => Err(Ended(code)),
            }
        };
        let joined = |mut into: State, mut from: State| {
            // SAFETY: both are states of the caller's, and no function uses them.
            unsafe { merge(into.start(), from.start(), context.0) };
            into
        };
        match folded(&paths, &options, &first, step, joined) {
            Ok(mut whole) => {
                if state_size > 0 {
                    // SAFETY: both have so many bytes, and do not overlap.
                    unsafe { state.cast::<u8>().copy_from_nonoverlapping(whole.start().cast(), state_size) };
                }
                Ok(0)
            }
            Err(error) => ended_by(&error).map_or_else(|| Err(error.into()), Ok),
        }
    })
}

fn folded(
    paths: &[PathBuf],
    options: &BlocksOptions,
    first: &State,
    step: impl Fn(&mut State, Block<'_>) -> Result<(), Ended> + Sync,
    merge: impl Fn(State, State) -> State,
) -> Result<State, Error> {
    let mut read = blocked_reads(paths);
    if options.block_bytes > 0 {
        read = read.block(usize::try_from(options.block_bytes).unwrap_or(usize::MAX));
    }
    if options.threads > 0 {
        read = read.threads(options.threads as usize);
    }
    let init = || first.clone();
    let (whole, _) = if options.has_records != 0 {
        read.records(options.record_end).try_fold(init, step, merge)?
    } else {
        read.try_fold(init, step, merge)?
    };
    Ok(whole)
}

/// The user's context, which is used by several threads.
struct Shared(*mut c_void);

// SAFETY: the caller guarantees that the functions may be called from any thread with it.
unsafe impl Sync for Shared {}

/// A state of the caller's: bytes that are moved, aligned as `malloc` does.
#[derive(Clone)]
struct State(Vec<u128>);

impl State {
    /// # Safety
    /// `from` has `size` bytes, or `size` is 0.
    unsafe fn copied(from: *const c_void, size: usize) -> State {
        let mut words = vec![0; size.div_ceil(size_of::<u128>())];
        if size > 0 {
            // SAFETY: guaranteed by the caller; the copy has at least as many bytes.
            unsafe { words.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(from.cast(), size) };
        }
        State(words)
    }

    fn start(&mut self) -> *mut c_void {
        self.0.as_mut_ptr().cast()
    }
}

/// A function of the caller's returned this code.
#[derive(Debug, thiserror::Error)]
#[error("the function returned {0}")]
struct Ended(c_int);

fn ended_by(error: &Error) -> Option<c_int> {
    match error {
        Error::Function { source, .. } => source.downcast_ref::<Ended>().map(|ended| ended.0),
        _ => None,
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match error {
            Error::Io(error) => error.into(),
            Error::Open { path, source } => {
                Failure::system(&format!("cannot open {}", path.display()), &source)
            }
            Error::Stream { path, source } => {
                Failure::system(&format!("cannot read {}", path.display()), &source)
            }
            error => Failure::of_input(error.to_string()),
        }
    }
}

/// # Safety
/// `paths` is null or has `count` NUL-terminated strings.
unsafe fn listed(paths: *const *const c_char, count: usize) -> Result<Vec<PathBuf>, Failure> {
    if paths.is_null() && count > 0 {
        return Err(Failure::null("paths"));
    }
    let path = |index: usize| {
        // SAFETY: there are so many, as guaranteed by the caller.
        unsafe { path_at(paths.add(index).read(), "a path") }.map(PathBuf::from)
    };
    (0..count).map(path).collect()
}

/// # Safety
/// `options` is null or points to valid options.
unsafe fn given_options(options: *const BlocksOptions) -> Result<BlocksOptions, Failure> {
    if options.is_null() {
        let size = size_of::<BlocksOptions>();
        return Ok(BlocksOptions { size, block_bytes: 0, has_records: 0, record_end: 0, threads: 0 });
    }
    // SAFETY: the caller guarantees that it points to options; their size is checked first.
    unsafe {
        check_size(options.cast(), "options", size_of::<BlocksOptions>())?;
        Ok(options.read())
    }
}
