//! Pauses by snapshots on this machine: `cargo run --release -p sakiyomi-stream --example snapshot`.
#![allow(clippy::print_stdout)] // its result

use std::time::{Duration, Instant};

use sakiyomi_os::affinity::usable_cpus;
use sakiyomi_stream::{
    Decode, Decoder, Emitter, Encode, Error, Join, Next, Recover, SaveState, Settings, Sink, Source,
    StateError, StreamBuilder, Tuple,
};

/// Time between two tuples of a source: 200,000 tuples per second from each of both.
const PERIOD_NS: u64 = 5_000;

/// Snapshots of a measurement.
const SNAPSHOT_COUNT: u32 = 100;

/// Time between two snapshots.
const SNAPSHOT_PERIOD: Duration = Duration::from_millis(10);

/// Sizes of the state of the join.
const STATE_BYTES: [usize; 4] = [0, 4 << 10, 64 << 10, 1 << 20];

fn main() -> Result<(), Error> {
    let cpus = usable_cpus()?.into_iter().take(2).collect();
    let settings = Settings::pinned(&cpus);
    println!("two sources, a join and a sink on {} CPUs; latency p50, p99, p99.9", settings.workers.len());
    for state_bytes in STATE_BYTES {
        for snapshots in [0, SNAPSHOT_COUNT] {
            measure(&settings, state_bytes, snapshots)?;
        }
    }
    Ok(())
}

/// Runs the join for a while and takes snapshots.
fn measure(settings: &Settings, state_bytes: usize, snapshots: u32) -> Result<(), Error> {
    let builder = StreamBuilder::new(1_024);
    let left = builder.source("left", Ticks { next: 0 });
    let right = builder.source("right", Ticks { next: 0 });
    let join = Merge { state: vec![1; state_bytes] };
    left.join("join", right, join).sink("sink", Nowhere);
    let last = settings.workers.len() - 1;
    let mut running = builder.build()?.start(settings.clone(), &[0, last, last, last])?;
    let mut longest = Duration::ZERO;
    for number in 0..SNAPSHOT_COUNT {
        std::thread::sleep(SNAPSHOT_PERIOD);
        if number < snapshots {
            let start = Instant::now();
            running.snapshot()?;
            longest = longest.max(start.elapsed());
        }
    }
    running.end_sources();
    let report = running.finish()?;
    let (join, sink) = (&report.operators[2], &report.operators[3]);
    if let Some(latency) = &sink.latency {
        let at = |quantile| latency.total.value_at_quantile(quantile);
        println!(
            "{state_bytes:>8} bytes, {snapshots:>3} snapshots: {} ns, {} ns, {} ns; longest save {} ns, input held \
             back {} ns, snapshot {} ns",
            at(0.5),
            at(0.99),
            at(0.999),
            join.save_max_ns,
            join.held_max_ns,
            longest.as_nanos()
        );
    }
    Ok(())
}

/// Numbers at a constant rate.
struct Ticks {
    next: u64,
}

impl Source for Ticks {
    type Out = u64;

    fn next(&mut self, now_ns: u64) -> Next<u64> {
        let due_ns = self.next * PERIOD_NS;
        if due_ns > now_ns {
            return Next::At(due_ns);
        }
        self.next += 1;
        Next::Value { value: self.next, arrival_ns: due_ns }
    }
}

/// Passes both inputs on.
struct Merge {
    state: Vec<u8>,
}

impl SaveState for Merge {
    fn save(&self, out: &mut Vec<u8>) {
        self.state.encode(out);
    }

    fn load(&mut self, bytes: &[u8]) -> Result<(), StateError> {
        self.state = Decode::decode(&mut Decoder::new(bytes))?;
        Ok(())
    }
}

impl Recover for Merge {
    fn state(&mut self) -> Option<&mut dyn SaveState> {
        Some(self)
    }
}

impl Join for Merge {
    type Left = u64;
    type Right = u64;
    type Out = u64;

    fn left(&mut self, value: u64, out: &mut Emitter<u64>) {
        out.emit(value);
    }

    fn right(&mut self, value: u64, out: &mut Emitter<u64>) {
        out.emit(value);
    }
}

struct Nowhere;

impl Recover for Nowhere {}

impl Sink for Nowhere {
    type In = u64;

    fn consume(&mut self, _: Tuple<u64>) {}
}
