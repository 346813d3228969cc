//! The crate from outside.

mod fuzz_seeds;
mod memory;

use std::sync::Mutex;

use sakiyomi_testing::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Held by a running test: the allocator counts all threads.
static ALONE: Mutex<()> = Mutex::new(());
