//! Memory retention of the C library's allocator.
//!
//! glibc maps each large allocation afresh and unmaps it when it is freed. A program that allocates buffers for each
//! batch of a stream then pays a page fault for every 4 KiB of every batch: measured, 0.4 to 1.1 s of kernel time
//! instead of 0.2 s. Retained memory avoids the faults, but must not grow without bound: each arena retains its own.
#![allow(unsafe_code)]

/// Limits of memory retention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// Maximum arenas. Memory freed in one arena is not reused by the others.
    pub arenas: i32,
    /// Minimum bytes of an allocation that gets a mapping of its own, which is unmapped when it is freed.
    pub mapped_min_bytes: i32,
    /// Free bytes at the end of an arena beyond which they are returned to the system.
    pub trim_bytes: i32,
}

/// Sets the limits of memory retention. Allocators other than glibc's are left unchanged.
///
/// Call it before starting other threads: they may already have their own arenas.
pub fn keep(keep: Keep) {
    #[cfg(target_env = "gnu")]
    for (parameter, value) in [
        (libc::M_ARENA_MAX, keep.arenas),
        (libc::M_MMAP_THRESHOLD, keep.mapped_min_bytes),
        (libc::M_TRIM_THRESHOLD, keep.trim_bytes),
    ] {
        // SAFETY: it takes two numbers; an invalid value leaves the parameter unchanged.
        unsafe { libc::mallopt(parameter, value) };
    }
    #[cfg(not(target_env = "gnu"))]
    let _ = keep;
}

/// Returns all free memory to the system. The time is proportional to the number of returned pages.
pub fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it touches only memory that is free.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use sakiyomi_testing::skipped;

    use super::{Keep, keep, trim};

    /// Bytes of each allocation: without [`keep`], glibc would map it afresh.
    const ALLOCATION_BYTES: usize = 4 << 20;
    const ROUNDS: u8 = 200;

    /// Returns the minor page faults of this thread so far.
    fn minor_faults() -> i64 {
        // SAFETY: all zeros are a valid `rusage`, which the call overwrites.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: `usage` is a valid place for the result.
        assert_eq!(unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) }, 0);
        usage.ru_minflt
    }

    /// Returns whether the allocator is glibc's: the address sanitizer, for example, replaces it.
    fn is_glibc() -> bool {
        let held = vec![1u8; 1 << 10];
        // SAFETY: it only reads the allocator's counters.
        let used = unsafe { libc::mallinfo2() }.uordblks;
        std::hint::black_box(&held).len() <= used
    }

    #[test]
    fn memory_that_was_freed_is_used_again() {
        if !is_glibc() {
            return skipped("memory_that_was_freed_is_used_again", "the allocator is not glibc's");
        }
        keep(Keep { arenas: 2, mapped_min_bytes: 32 << 20, trim_bytes: 64 << 20 });
        let before = minor_faults();
        for round in 0..ROUNDS {
            let bytes = vec![round | 1; ALLOCATION_BYTES];
            assert!(bytes.iter().all(|&byte| byte == round | 1));
        }
        // Mapped afresh, each round would fault on each of its 1,024 pages.
        let fresh = i64::from(ROUNDS) * (ALLOCATION_BYTES as i64 >> 12);
        let faults = minor_faults() - before;
        assert!(faults < fresh / 4, "{faults} page faults, {fresh} if nothing is kept");
        trim();
    }
}
