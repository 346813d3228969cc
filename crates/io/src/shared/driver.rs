//! The thread that keeps an engine busy while its callers compute.
//!
//! An asynchronous engine has few slots, and completed operations are replaced by queued ones only when a thread
//! calls it. A thread that submits megabytes of small blocks ahead and then computes would leave the device idle
//! after the first few of them. The driver sleeps while nothing is queued, and is started by the first queued
//! operation. Engines with threads of their own need none: they have slots for all.

use std::sync::{Arc, PoisonError};
use std::thread;

use super::core::{Core, State};

/// The driver is woken after one completion in this many of the operations in flight, unless a thread waits: the
/// others keep the device busy meanwhile.
const WAKING_PART: usize = 4;

impl Core {
    /// Wakes the driver, which submits the queued operations. Without a driver they wait until a thread enters the
    /// engine.
    pub(super) fn call_driver(self: &Arc<Core>, state: &mut State) {
        let driver = &mut state.driver;
        if !driver.is_allowed || driver.is_called {
            return;
        }
        if driver.thread.is_none() {
            let core = Arc::clone(self);
            let started = thread::Builder::new().name("sakiyomi-driver".into()).spawn(move || core.serve());
            driver.is_allowed = started.is_ok();
            driver.thread = started.ok();
        }
        driver.is_called = driver.is_allowed;
        self.called.notify_one();
    }

    /// Stops the driver. No stream is left.
    pub(super) fn stop_driver(&self) {
        let mut state = self.lock();
        state.driver.stops = true;
        let thread = state.driver.thread.take();
        drop(state);
        self.called.notify_one();
        if let Some(thread) = thread {
            // If it panicked, that has been reported.
            let _ = thread.join();
        }
    }

    /// Main loop of the driver thread.
    fn serve(self: &Arc<Core>) {
        self.threads.enlist();
        let mut state = self.lock();
        while !state.driver.stops {
            if !state.driver.is_called {
                state = self.called.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let is_last = state.queued.is_empty();
            if state.engine.is_none() && !is_last {
                // The waiting thread submits queued operations after it has reaped.
                state = self.wait_for_reaped(state);
                continue;
            }
            let in_flight = state.in_flight - state.queued.len();
            let at_least = match () {
                // Submitted operations begin when the engine is polled.
                () if is_last => 0,
                () if state.waiting > 0 => 1,
                () => (in_flight / WAKING_PART).max(1),
            };
            let outcome = self.drive(state, at_least);
            state = self.lock();
            // The waiting threads get an error themselves.
            state.driver.is_called = outcome.is_ok() && !(is_last && state.queued.is_empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::fake::{FakeDisk, Faults};
    use crate::read::BLOCK_MIN;
    use crate::shared::Traits;
    use crate::shared::core::Driver;
    use crate::{BufferPool, Io, Memory, ReadStream, SharedOptions};

    #[test]
    fn operations_beyond_the_slots_go_on_while_their_caller_computes() {
        const BLOCKS: usize = 64;
        const SLOTS: usize = 2;
        let disk = FakeDisk::default();
        let bytes: Vec<u8> = (0..BLOCKS * BLOCK_MIN).map(|index| (index % 251) as u8).collect();
        let file = disk.file(bytes.clone(), 512).unwrap();
        for late_of_256 in [0, 128] {
            let engine = disk.engine(SLOTS, Faults { seed: 3, late_of_256, ..Faults::default() });
            let pool = BufferPool::with_budget(2 * bytes.len(), Memory::Ordinary);
            let io = Io::with(engine, pool, Traits::UNKNOWN, Driver::allowed());
            let options = SharedOptions { block: BLOCK_MIN, ahead: BLOCKS, ..SharedOptions::default() };
            let mut stream = ReadStream::shared(&io, &file, 0..u64::MAX, &options).unwrap();
            stream.start().unwrap();
            let in_flight = || io.shared.core.lock().in_flight;
            let deadline = Instant::now() + Duration::from_secs(30);
            while in_flight() > SLOTS {
                assert!(Instant::now() < deadline, "{} operations wait", in_flight());
                thread::yield_now();
            }
            let read: Vec<u8> = stream.flat_map(|block| block.unwrap().to_vec()).collect();
            assert!(read == bytes);
            assert!(io.engine_cpu().threads.is_some(), "the CPU time of the driver is counted");
        }
    }
}
