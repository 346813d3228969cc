//! Simulation of spilling in virtual time: threads that produce and compress chunks, a device with a queue, and the
//! adaptive choice against each fixed level.

use std::collections::VecDeque;

use super::*;

/// Data, with its ratio and its cost in nanoseconds per byte for LZ4, zstd 1 and zstd 3.
#[derive(Clone, Copy, Debug)]
struct Data {
    ratios: [f64; 3],
    compress: [f64; 3],
    restore: [f64; 3],
}

const RESTORE: [f64; 3] = [0.4, 1.0, 1.1];

/// From incompressible to ten times smaller.
const DATA: [Data; 5] = [
    Data { ratios: [1.0, 1.0, 1.0], compress: [0.3, 1.0, 1.6], restore: [0.0; 3] },
    Data { ratios: [1.0, 0.8, 0.78], compress: [0.8, 4.0, 7.0], restore: RESTORE },
    Data { ratios: [0.65, 0.45, 0.42], compress: [1.6, 3.2, 5.5], restore: RESTORE },
    Data { ratios: [0.35, 0.22, 0.2], compress: [1.0, 2.2, 4.0], restore: RESTORE },
    Data { ratios: [0.13, 0.1, 0.09], compress: [0.5, 1.2, 2.0], restore: RESTORE },
];

/// Devices in bytes per nanosecond: 20 MB/s to 5 GB/s.
const DEVICES: [f64; 6] = [0.02, 0.1, 0.3, 1.0, 2.0, 5.0];

/// Time to produce a byte on one thread, in nanoseconds.
const PRODUCERS: [f64; 3] = [0.3, 2.0, 6.0];

const CHUNK_BYTES: f64 = (256 << 10) as f64;
const IN_FLIGHT: usize = 8;
/// Data before which the choice may be wrong.
const WARM_UP_CHUNKS: usize = 128;

/// Threads, a device and a clock.
struct Simulation<'a> {
    data: &'a Data,
    produce: f64,
    device: f64,
    threads: Vec<Thread>,
    /// Completion times of the last writes.
    in_flight: VecDeque<f64>,
    random: u64,
    /// Time of the threads in the read phase, and of its device.
    read_cpu: f64,
    read_device: f64,
}

/// The next event of a thread: it has produced a chunk, or has compressed it with a level.
#[derive(Clone, Copy)]
struct Thread {
    at: f64,
    produced_ns: f64,
    compressed: Option<(Level, f64)>,
}

impl Simulation<'_> {
    fn new(threads: usize, data: &Data, produce: f64, device: f64) -> Simulation<'_> {
        let thread = Thread { at: 0.0, produced_ns: 0.0, compressed: None };
        let (threads, in_flight) = (vec![thread; threads], VecDeque::new());
        let mut simulation = Simulation {
            data,
            produce,
            device,
            threads,
            in_flight,
            random: 1,
            read_cpu: 0.0,
            read_device: 0.0,
        };
        (0..simulation.threads.len()).for_each(|thread| simulation.produce(thread));
        simulation
    }

    /// A factor near 1, and 6 in one of 100 cases, as when a thread is preempted.
    fn noise(&mut self) -> f64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let draw = (self.random >> 33) as f64 / (1_u64 << 31) as f64;
        if draw > 0.99 { 6.0 } else { 0.85 + 0.3 * draw }
    }

    fn produce(&mut self, thread: usize) {
        let produced_ns = self.produce * CHUNK_BYTES * self.noise();
        let at = self.threads[thread].at + produced_ns;
        self.threads[thread] = Thread { at, produced_ns, compressed: None };
    }

    /// Runs until the next chunk is written.
    fn chunk(&mut self, mut next: impl FnMut() -> Level) -> Written {
        loop {
            let threads = &self.threads;
            let first = (0..threads.len()).min_by(|a, b| threads[*a].at.total_cmp(&threads[*b].at)).unwrap();
            if let Some((level, compress_ns)) = threads[first].compressed {
                return self.write(first, level, compress_ns);
            }
            let level = next();
            let compress_ns = of(level, self.data.compress, 0.0) * CHUNK_BYTES * self.noise();
            self.threads[first].compressed = Some((level, compress_ns));
            self.threads[first].at += compress_ns;
        }
    }

    fn write(&mut self, thread: usize, level: Level, compress_ns: f64) -> Written {
        let stored = (of(level, self.data.ratios, 1.0) * CHUNK_BYTES / 4096.0).ceil() * 4096.0;
        let Thread { at: ready, produced_ns, .. } = self.threads[thread];
        let full = self.in_flight.len().checked_sub(IN_FLIGHT).map_or(0.0, |place| self.in_flight[place]);
        let now = ready.max(full);
        let service = stored / self.device * self.noise().min(1.15);
        self.in_flight.push_back(self.in_flight.back().copied().unwrap_or(0.0).max(now) + service);
        self.in_flight.drain(..self.in_flight.len().saturating_sub(IN_FLIGHT));
        let restore = of(level, self.data.restore, 0.0);
        self.read_cpu += (self.produce + restore) * CHUNK_BYTES / self.threads.len() as f64;
        self.read_device += stored / self.device;
        self.threads[thread].at = now;
        self.produce(thread);
        Written {
            level,
            raw_bytes: CHUNK_BYTES as u64,
            stored_bytes: stored as u64,
            compress_ns: compress_ns as u64,
            waited_ns: (now - ready) as u64,
            produced_ns: Some(produced_ns as u64),
            now_ns: now as u64,
        }
    }

    /// Time until all is written and read again.
    fn time(&self) -> f64 {
        self.in_flight.back().copied().unwrap_or(0.0) + self.read_cpu.max(self.read_device)
    }
}

/// The value of a level.
fn of(level: Level, values: [f64; 3], none: f64) -> f64 {
    (level as usize).checked_sub(1).map_or(none, |index| values[index])
}

/// Returns the time per chunk after the warm-up, in nanoseconds.
fn measured(mut simulation: Simulation<'_>, chunks: usize, mut step: impl FnMut(&mut Simulation<'_>)) -> f64 {
    (0..WARM_UP_CHUNKS).for_each(|_| step(&mut simulation));
    let warm = simulation.time();
    (WARM_UP_CHUNKS..chunks).for_each(|_| step(&mut simulation));
    (simulation.time() - warm) / (chunks - WARM_UP_CHUNKS) as f64
}

fn adaptive(simulation: Simulation<'_>, chunks: usize) -> (f64, [usize; LEVEL_COUNT]) {
    let mut controller = Controller::new(simulation.threads.len());
    let mut used = [0; LEVEL_COUNT];
    let time = measured(simulation, chunks, |simulation| {
        let chunk = simulation.chunk(|| controller.next());
        used[chunk.level as usize] += 1;
        controller.record(chunk);
    });
    (time, used)
}

#[test]
fn the_choice_is_near_the_best_fixed_level_on_all_devices_and_data() {
    let chunks = 2048 + WARM_UP_CHUNKS;
    let (mut worst, mut bad) = ((0.0, String::new()), Vec::new());
    for (device, produce, threads) in DEVICES
        .iter()
        .flat_map(|&device| PRODUCERS.iter().map(move |&produce| (device, produce)))
        .flat_map(|(device, produce)| [1, 2, 8].map(|threads| (device, produce, threads)))
    {
        for data in &DATA {
            let simulation = || Simulation::new(threads, data, produce, device);
            let times = Level::ALL.map(|level| {
                measured(simulation(), chunks, |simulation| {
                    simulation.chunk(|| level);
                })
            });
            let best = times.iter().copied().fold(f64::INFINITY, f64::min);
            let (time, used) = adaptive(simulation(), chunks);
            let text = format!(
                "{device} B/ns, {produce} ns/B, {threads} threads, {:?}: {time:.0} of {times:.0?}, {used:?}",
                data.ratios
            );
            if time / best > worst.0 {
                worst = (time / best, text.clone());
            }
            if time > 1.05 * best || time > 1.03 * times[0] {
                bad.push(format!("{:.3} {text}", time / best));
            }
        }
    }
    assert!(bad.is_empty(), "worst {worst:?}\n{}", bad.join("\n"));
}

/// Spills chunks, and returns how many were written with each level.
fn levels(
    controller: &mut Controller,
    simulation: &mut Simulation<'_>,
    chunks: usize,
) -> [usize; LEVEL_COUNT] {
    let mut used = [0; LEVEL_COUNT];
    for _ in 0..chunks {
        let chunk = simulation.chunk(|| controller.next());
        used[chunk.level as usize] += 1;
        controller.record(chunk);
    }
    used
}

#[test]
fn a_device_that_is_never_waited_for_gets_no_compressed_chunk() {
    let mut simulation = Simulation::new(2, &DATA[4], 2.0, 5.0);
    let mut controller = Controller::new(2);
    assert_eq!(levels(&mut controller, &mut simulation, 5000), [5000, 0, 0, 0]);
}

#[test]
fn incompressible_data_is_tried_rarely() {
    let mut simulation = Simulation::new(2, &DATA[0], 0.3, 0.1);
    let mut controller = Controller::new(2);
    let used = levels(&mut controller, &mut simulation, 10_000);
    assert!(used[0] > 9950, "{used:?}");
}

#[test]
fn a_change_of_the_device_or_the_data_changes_the_level() {
    let mut simulation = Simulation::new(2, &DATA[3], 2.0, 0.05);
    let mut controller = Controller::new(2);
    levels(&mut controller, &mut simulation, 1000);
    let slow = levels(&mut controller, &mut simulation, 1000);
    assert!(slow[2] + slow[3] > 950, "{slow:?}");
    simulation.device = 5.0;
    levels(&mut controller, &mut simulation, 6_000);
    let fast = levels(&mut controller, &mut simulation, 1000);
    assert!(fast[0] > 950, "{fast:?}");
    simulation.device = 0.05;
    levels(&mut controller, &mut simulation, 200);
    let slow = levels(&mut controller, &mut simulation, 1000);
    assert!(slow[2] + slow[3] > 950, "{slow:?}");
    simulation.data = &DATA[0];
    levels(&mut controller, &mut simulation, 500);
    simulation.data = &DATA[4];
    levels(&mut controller, &mut simulation, 3000);
    let used = levels(&mut controller, &mut simulation, 1000);
    assert!(used[0] < 50, "{used:?}");
}

#[test]
fn a_device_that_was_slow_for_a_moment_does_not_leave_the_data_compressed() {
    let mut simulation = Simulation::new(2, &DATA[2], 2.0, 0.05);
    let mut controller = Controller::new(2);
    let slow = levels(&mut controller, &mut simulation, 200);
    assert!(slow[0] < 150, "{slow:?}");
    simulation.device = 5.0;
    levels(&mut controller, &mut simulation, 800);
    let fast = levels(&mut controller, &mut simulation, 500);
    assert!(fast[0] > 450, "{fast:?}");
}
