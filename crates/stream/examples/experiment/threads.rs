//! A thread for each operator, with channels between them, as engines do that leave placement to the kernel. The threads
//! may use the same two CPUs as the other arms.

use std::error::Error;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use sakiyomi_os::affinity::pin;

use crate::arms::{follow, nanos, two_cpus};
use crate::driver::chain::{RING_SLOTS, serve};
use crate::driver::figures::{Bin, Recorder};
use crate::driver::load::{Item, OPERATORS, Pattern, Schedule};
use crate::run::Run;

/// Time before a tuple is due from which on the source does not sleep, as the workers of the other arms.
const SPIN: Duration = Duration::from_micros(20);

/// A tuple and when it was due.
type Due = (Item, u64);

/// Runs the chain through all phases.
///
/// # Errors
/// If a thread cannot be started or pinned.
pub(crate) fn run(pattern: &Arc<Pattern>, seed: u64) -> Result<Run, Box<dyn Error>> {
    let pinned = pin(&two_cpus()?)?;
    let start = Instant::now();
    let (first, mut from) = sync_channel(RING_SLOTS);
    let schedule = Schedule::new(pattern, seed);
    let mut threads = vec![spawn("source", move || emit(schedule, &first, start))?];
    for operator in 0..OPERATORS {
        let (to, next) = sync_channel(RING_SLOTS);
        let (input, pattern) = (std::mem::replace(&mut from, next), Arc::clone(pattern));
        let work = move || pass(&input, &to, |item| serve(&pattern, operator, item));
        threads.push(spawn(&format!("operator {operator}"), work)?);
    }
    let sink = spawn("sink", move || record(&from, start))?;
    let others_ratio = follow(pattern, start, |_| Ok::<(), Box<dyn Error>>(()))?;
    for thread in threads {
        thread.join().map_err(|_| "an operator's thread panicked")?;
    }
    let (bins, violations) = sink.join().map_err(|_| "the sink's thread panicked")?;
    drop(pinned);
    Ok(Run { bins, cores: 2, others_ratio, violations, ..Run::default() })
}

fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<JoinHandle<T>> {
    Builder::new().name(name.to_owned()).spawn(work)
}

/// Sends each tuple when it is due.
fn emit(mut schedule: Schedule, to: &SyncSender<Due>, start: Instant) {
    while let Some(due_ns) = schedule.due_ns() {
        let now = start.elapsed();
        if nanos(now) >= schedule.end_ns() {
            return;
        }
        let early = Duration::from_nanos(due_ns).saturating_sub(now);
        if early > SPIN {
            std::thread::sleep(early - SPIN);
        } else if !early.is_zero() {
            std::thread::yield_now();
        } else if to.send((schedule.take(), due_ns)).is_err() {
            return;
        }
    }
}

fn pass(from: &Receiver<Due>, to: &SyncSender<Due>, mut work: impl FnMut(Item) -> bool) {
    for (item, due_ns) in from {
        if work(item) && to.send((item, due_ns)).is_err() {
            return;
        }
    }
}

/// Latencies, and tuples that come after a later one.
fn record(from: &Receiver<Due>, start: Instant) -> (Vec<Bin>, u64) {
    let (mut recorder, mut last, mut violations) = (Recorder::new(), None, 0);
    for (item, due_ns) in from {
        recorder.record(due_ns, nanos(start.elapsed()));
        violations += u64::from(last >= Some(item.number));
        last = Some(item.number);
    }
    (recorder.finish(), violations)
}
