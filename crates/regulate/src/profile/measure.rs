//! Measures the profile of a device by requests in virtual time.

use sakiyomi_model::{
    Bytes, Completion, Device, Extent, Lba, Nanos, Op, Request, RequestId, Sectors, StreamId,
};

use super::{Beside, Distribution, Moments, PROFILE_DEPTHS, PROFILE_SIZES, Profile};

/// Points of the seek curve.
const DISTANCE_POINTS: usize = 24;
/// Requests that the device completes before a read arrives behind others, in numbers of these.
const TURNS_BEFORE_ARRIVAL: u64 = 2;
/// Sequential reads of a run.
const READS_PER_RUN: u64 = 8;
/// A device serves several requests at once if it completes four reads in less than this many times the time of one. A
/// disk that chooses the best order needs about three.
const PARALLEL_MAX_RATIO: f64 = 2.6;
/// Reads from which the service time is estimated that decides how much can be measured; the first half is a warm-up.
const TRIAL_READS: u64 = 32;
/// Time of all the other measurements, per sample of each, in numbers of random reads of 4 KiB.
const WORK_PER_SAMPLE: u64 = 40;

/// How much is measured, in numbers of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Reads of 4 KiB at random addresses, and as many at short distances.
    pub by_distance: u64,
    /// Accesses of each other size and operation.
    pub per_size: u64,
    /// Runs of sequential reads.
    pub runs: u64,
    /// Batches of each depth.
    pub batches: u64,
    /// Greatest number of requests in the device, up to 32.
    pub depth_max: u32,
    /// Reads beside others, for each number and size of these.
    pub beside: u64,
}

impl Effort {
    /// The effort on a model of a device, whose time costs nothing.
    pub const FULL: Effort =
        Effort { by_distance: 2048, per_size: 256, runs: 32, batches: 96, depth_max: 32, beside: 400 };

    /// Returns the effort that takes about `time` on a device whose random reads of 4 KiB take `service`; more than
    /// [`FULL`](Self::FULL) in nothing.
    #[must_use]
    pub fn within(time: Nanos, service: Nanos) -> Effort {
        let reads = time.0 / service.0.max(1);
        let part = |divisor: u64, least: u64, most: u64| (reads / divisor).clamp(least, most);
        let full = Effort::FULL;
        Effort {
            by_distance: part(8, 64, full.by_distance),
            per_size: part(WORK_PER_SAMPLE, 24, full.per_size),
            runs: part(10 * WORK_PER_SAMPLE, 4, full.runs),
            batches: part(4 * WORK_PER_SAMPLE, 12, full.batches),
            depth_max: if reads < 20_000 { 8 } else { full.depth_max },
            beside: part(WORK_PER_SAMPLE, 100, full.beside),
        }
    }
}

/// Measures the profile of a device that nothing else uses, beginning at time 0; `device` keeps the state in which the
/// requests leave it. Writes change no data: a model of a device has none.
///
/// Positions are pseudo-random and the same in each call. A device completes about 20,000 requests.
pub fn measure(device: &mut impl Device) -> Profile {
    Bench::new(device).profile(Effort::FULL, |_| ())
}

/// Measures the profile of a real device within about `time`, and returns it with its relative error: how far two halves
/// of the random reads are apart, at least 0.02. `progress` is called with the part that is done, 0 to 1.
///
/// The device may return from [`Device::advance`] before the time that it was given when a request has completed, and
/// its [`Device::next_event`] may be earlier than the next completion.
pub fn measure_within(device: &mut impl Device, time: Nanos, progress: impl FnMut(f64)) -> (Profile, f64) {
    let mut bench = Bench::new(device);
    let trial: Vec<Nanos> = (0..TRIAL_READS).map(|_| bench.read_anywhere()).collect();
    let service = Moments::of(&trial[TRIAL_READS as usize / 2..]);
    let profile = bench.profile(Effort::within(time, Nanos(service.mean as u64)), progress);
    let error = bench.difference_of_halves.max(0.02);
    (profile, error)
}

struct Bench<'a, D> {
    device: &'a mut D,
    now: Nanos,
    next: u64,
    draws: u64,
    ended: Vec<Completion>,
    /// Relative difference between the means of two halves of the random reads.
    difference_of_halves: f64,
}

impl<'a, D: Device> Bench<'a, D> {
    fn new(device: &'a mut D) -> Bench<'a, D> {
        Bench { device, now: Nanos::ZERO, next: 0, draws: 0, ended: Vec::new(), difference_of_halves: 0.0 }
    }

    fn profile(&mut self, effort: Effort, mut progress: impl FnMut(f64)) -> Profile {
        let (smallest, by_distance) = self.by_distance(effort.by_distance);
        progress(0.15);
        let mut reads = [smallest; 4];
        let mut writes = [Moments::default(); 4];
        for (index, size) in PROFILE_SIZES.into_iter().enumerate() {
            if index > 0 {
                reads[index] = self.random(Op::Read, size, effort.per_size);
            }
            writes[index] = self.random(Op::Write, size, effort.per_size);
            progress(0.15 + 0.1 * (index + 1) as f64);
        }
        let continuing = self.continuing(effort.runs);
        let room = self.device.depth();
        let depths = || PROFILE_DEPTHS.into_iter().filter(|&depth| depth <= effort.depth_max.min(room));
        let batches: Vec<Moments> = depths().map(|depth| self.batch(depth, effort.batches)).collect();
        let depths = || depths().filter(|&depth| depth < room);
        let behind = depths().map(|depth| self.behind(depth, smallest, effort.batches)).collect();
        progress(0.7);
        let is_parallel = batches.get(2).is_some_and(|four| four.mean < PARALLEL_MAX_RATIO * batches[0].mean);
        let beside = is_parallel.then(|| {
            let depths: Vec<u32> = depths().collect();
            self.beside(&depths, effort.beside, |done| progress(0.7 + 0.3 * done))
        });
        let (capacity, sector) = (self.device.capacity(), self.device.sector());
        Profile { capacity, sector, reads, writes, continuing, by_distance, batches, behind, beside }
    }

    /// Reads 4 KiB at a random address, and returns the time.
    fn read_anywhere(&mut self) -> Nanos {
        let extent = self.anywhere(PROFILE_SIZES[0]);
        self.one(Op::Read, extent)
    }

    /// Returns a pseudo-random number (the finalizer of SplitMix64 over a counter).
    fn draw(&mut self) -> u64 {
        self.draws += 1;
        let mut bits = self.draws.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    fn sectors(&self, size: Bytes) -> Sectors {
        Sectors(size.0.div_ceil(self.device.sector().0).max(1).min(self.device.capacity().0))
    }

    /// Returns an extent at a random address, aligned to 4 KiB.
    fn anywhere(&mut self, size: Bytes) -> Extent {
        let sectors = self.sectors(size);
        let grain = (4096 / self.device.sector().0).max(1);
        let places = ((self.device.capacity().0 - sectors.0) / grain + 1).max(1);
        Extent::new(Lba(self.draw() % places * grain), sectors)
    }

    fn submit(&mut self, op: Op, extent: Extent) -> RequestId {
        let id = RequestId(self.next);
        self.next += 1;
        let request =
            Request { id, stream: StreamId(0), op, fua: op == Op::Write, extent, arrival: self.now };
        self.device.submit(self.now, request).expect("no more than its depth");
        id
    }

    /// Advances to the next completion.
    fn complete(&mut self) -> Completion {
        loop {
            if let Some(first) = (!self.ended.is_empty()).then(|| self.ended.remove(0)) {
                return first;
            }
            self.now = self.now.max(self.device.next_event().expect("a request is outstanding"));
            self.device.advance(self.now, &mut self.ended);
        }
    }

    /// Advances to `until`; each request that the device completes is followed by another one.
    fn pass(&mut self, until: Nanos, size: Bytes) {
        while self.device.next_event().is_some_and(|event| event <= until) || !self.ended.is_empty() {
            if self.ended.is_empty() {
                self.now = self.now.max(self.device.next_event().expect("it has an event"));
                self.device.advance(self.now, &mut self.ended);
            }
            for completion in std::mem::take(&mut self.ended) {
                self.now = self.now.max(completion.finish);
                self.read_of(size);
            }
        }
        self.now = self.now.max(until);
        self.device.advance(self.now, &mut self.ended);
    }

    /// Submits a read at a random address.
    fn read_of(&mut self, size: Bytes) -> RequestId {
        let extent = self.anywhere(size);
        self.submit(Op::Read, extent)
    }

    /// Performs one access and returns its time. Background work of the device, such as read-ahead, is given a random
    /// part of the time that an access takes.
    fn one(&mut self, op: Op, extent: Extent) -> Nanos {
        self.submit(op, extent);
        let took = self.complete().device_time();
        let pause = Nanos(self.draw() % took.0.max(1));
        self.now += pause;
        self.device.advance(self.now, &mut self.ended);
        took
    }

    fn random(&mut self, op: Op, size: Bytes, count: u64) -> Moments {
        let times: Vec<Nanos> = (0..count)
            .map(|_| {
                let extent = self.anywhere(size);
                self.one(op, extent)
            })
            .collect();
        Moments::of(&times)
    }

    fn by_distance(&mut self, count: u64) -> (Moments, Vec<(f64, Moments)>) {
        let capacity = self.device.capacity().0 as f64;
        let mut end = Lba(self.device.capacity().0 / 2);
        let mut times = Vec::new();
        for read in 0..2 * count {
            let mut extent = self.anywhere(PROFILE_SIZES[0]);
            let far = read < count;
            if !far {
                // Short distances are rare among random ones, and matter most.
                let room = self.device.capacity().0 - extent.sectors.0;
                let exponent = self.draw() % 10_000;
                let reach = (capacity * 10f64.powf(-6.0 * exponent as f64 / 10_000.0)) as u64;
                let grain = extent.sectors.0.max(1);
                let start = (end.0 + reach / grain * grain + grain) % room.max(1);
                extent = Extent::new(Lba(start / grain * grain), extent.sectors);
            }
            let distance = extent.start.0.abs_diff(end.0) as f64 / capacity;
            end = Lba(extent.start.0 + extent.sectors.0);
            times.push((distance, self.one(Op::Read, extent), far));
        }
        let random: Vec<Nanos> = times.iter().filter(|(.., far)| *far).map(|&(_, time, _)| time).collect();
        let halves = random.split_at(random.len() / 2);
        let [one, other] = [Moments::of(halves.0).mean, Moments::of(halves.1).mean];
        self.difference_of_halves = (one - other).abs() / one.max(other).max(1.0);
        times.sort_by(|one, other| one.0.total_cmp(&other.0));
        let points = times.chunks(times.len().div_ceil(DISTANCE_POINTS)).map(|chunk| {
            let distance = chunk.iter().map(|(distance, ..)| distance).sum::<f64>() / chunk.len() as f64;
            let times: Vec<Nanos> = chunk.iter().map(|&(_, time, _)| time).collect();
            (distance, Moments::of(&times))
        });
        (Moments::of(&random), points.collect())
    }

    fn continuing(&mut self, runs: u64) -> Moments {
        let sectors = self.sectors(PROFILE_SIZES[1]);
        let mut times = Vec::new();
        for _ in 0..runs {
            let mut extent = self.anywhere(PROFILE_SIZES[1]);
            let last = self.device.capacity().0.saturating_sub(READS_PER_RUN * sectors.0);
            extent.start = Lba(extent.start.0.min(last));
            self.one(Op::Read, extent);
            for _ in 1..READS_PER_RUN {
                extent.start = Lba(extent.start.0 + sectors.0);
                self.submit(Op::Read, extent);
                times.push(self.complete().device_time());
            }
        }
        Moments::of(&times)
    }

    fn batch(&mut self, depth: u32, count: u64) -> Moments {
        let times: Vec<Nanos> = (0..count)
            .map(|_| {
                (0..depth).for_each(|_| _ = self.read_of(PROFILE_SIZES[0]));
                let ended: Vec<Completion> = (0..depth).map(|_| self.complete()).collect();
                let begun = ended.iter().map(|completion| completion.submitted).min().unwrap_or_default();
                ended.last().map_or(Nanos::ZERO, |last| last.finish - begun)
            })
            .collect();
        Moments::of(&times)
    }

    /// `service` is that of one request.
    fn behind(&mut self, depth: u32, service: Moments, count: u64) -> Moments {
        let mut times = Vec::new();
        for _ in 0..count {
            (0..depth).for_each(|_| _ = self.read_of(PROFILE_SIZES[0]));
            let mut last = self.now;
            for _ in 0..u64::from(depth) * TURNS_BEFORE_ARRIVAL {
                last = self.complete().finish;
                self.read_of(PROFILE_SIZES[0]);
            }
            // A random moment within the service of one of the next requests.
            let within = self.draw() % (service.mean as u64).max(1);
            self.pass(last + Nanos(within), PROFILE_SIZES[0]);
            let own = self.read_of(PROFILE_SIZES[0]);
            for _ in 0..=depth {
                let completion = self.complete();
                if completion.request.id == own {
                    times.push(completion.device_time());
                }
            }
        }
        Moments::of(&times)
    }

    /// Measures reads that arrive at any moment while the device always has others.
    fn beside(&mut self, depths: &[u32], count: u64, mut progress: impl FnMut(f64)) -> Beside {
        let mut others: [Vec<Distribution>; 4] = Default::default();
        for (index, &size) in PROFILE_SIZES.iter().enumerate() {
            others[index] = depths.iter().map(|&depth| self.beside_others(depth, size, count)).collect();
            progress((index + 1) as f64 / PROFILE_SIZES.len() as f64);
        }
        Beside { others }
    }

    fn beside_others(&mut self, depth: u32, size: Bytes, count: u64) -> Distribution {
        (0..depth).for_each(|_| _ = self.read_of(size));
        let mut times: Vec<Nanos> = Vec::new();
        let mut pause = Nanos::ZERO;
        while times.len() < count as usize {
            self.pass(self.now + pause, size);
            let own = self.read_of(PROFILE_SIZES[0]);
            let took = loop {
                let completion = self.complete();
                if completion.request.id == own {
                    break completion.device_time();
                }
                self.read_of(size);
            };
            times.push(took);
            pause = Nanos(self.draw() % took.0.max(1));
        }
        (0..depth).for_each(|_| _ = self.complete());
        Distribution::of(&times)
    }
}
