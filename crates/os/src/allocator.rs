//! How the C library's allocator keeps and returns memory.
//!
//! glibc maps each large allocation afresh and unmaps it when it is freed. A program that allocates buffers for each batch
//! of a stream then pays a page fault for every 4 KiB of every batch: measured, 0.4 to 1.1 s of kernel time where 0.2 s
//! suffice. Kept memory costs none, but must not grow without bound: each arena keeps its own.
#![allow(unsafe_code)]

/// How memory is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// Arenas at most. Memory that is freed in one is not used by the others.
    pub arenas: i32,
    /// Bytes from which an allocation is a mapping of its own, which is returned when it is freed.
    pub mapped_min_bytes: i32,
    /// Free bytes at the end of an arena beyond which they are returned.
    pub trim_bytes: i32,
}

/// Has the allocator keep memory so from now on. Other allocators than glibc's stay as they are.
///
/// To be called before other threads are started: they may have arenas of their own already.
pub fn keep(keep: Keep) {
    #[cfg(target_env = "gnu")]
    for (parameter, value) in [
        (libc::M_ARENA_MAX, keep.arenas),
        (libc::M_MMAP_THRESHOLD, keep.mapped_min_bytes),
        (libc::M_TRIM_THRESHOLD, keep.trim_bytes),
    ] {
        // SAFETY: it takes two numbers; a value that it does not accept leaves the parameter as it was.
        unsafe { libc::mallopt(parameter, value) };
    }
    #[cfg(not(target_env = "gnu"))]
    let _ = keep;
}

/// Returns all free memory to the system. It takes time for each page that is returned.
pub fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it touches only memory that is free.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    use super::{Keep, keep, trim};
    use crate::process::memory::peak_resident;

    #[test]
    fn memory_that_was_freed_is_used_again() {
        keep(Keep { arenas: 2, mapped_min_bytes: 32 << 20, trim_bytes: 64 << 20 });
        let Some(before) = peak_resident() else { return };
        for round in 0..200u8 {
            let bytes = vec![round | 1; 4 << 20];
            assert!(bytes.iter().all(|&byte| byte == round | 1));
        }
        // 800 MB in all.
        assert!(peak_resident().is_some_and(|peak| peak < before + (200 << 20)));
        trim();
    }
}
