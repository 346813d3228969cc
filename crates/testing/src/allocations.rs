//! An allocator with counters, for tests that bound the allocations of a hot path, or the memory of a computation.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

static COUNT: AtomicU64 = AtomicU64::new(0);
static LIVE_BYTES: AtomicUsize = AtomicUsize::new(0);
static PEAK_BYTES: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, with a count of all allocations and reallocations of the process, and of their bytes. A test
/// binary installs it with `#[global_allocator]`; because every thread counts, its tests run one after another.
#[derive(Debug)]
pub struct CountingAllocator;

// SAFETY: every call is passed on unchanged to the system's allocator, which fulfills the contract.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        grow(layout.size());
        // SAFETY: the caller keeps the contract of `alloc`, which is the same there.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        grow(layout.size());
        // SAFETY: as for `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        LIVE_BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        grow(size);
        // SAFETY: `memory` came from the system's allocator with this layout, as the caller guarantees.
        unsafe { System.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as for `realloc`.
        unsafe { System.dealloc(memory, layout) }
    }
}

fn grow(bytes: usize) {
    let live = LIVE_BYTES.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
    PEAK_BYTES.fetch_max(live, Ordering::Relaxed);
}

/// Returns the number of allocations since the process began.
#[must_use]
pub fn allocations() -> u64 {
    COUNT.load(Ordering::Relaxed)
}

/// Runs `work` and returns the peak of allocated bytes beyond those allocated before. An allocation that fails counts
/// as well.
pub fn peak_bytes(work: impl FnOnce()) -> usize {
    let before = LIVE_BYTES.load(Ordering::Relaxed);
    PEAK_BYTES.store(before, Ordering::Relaxed);
    work();
    PEAK_BYTES.load(Ordering::Relaxed).saturating_sub(before)
}
