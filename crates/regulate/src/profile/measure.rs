//! Measures the profile of a device by requests in virtual time.

use sakiyomi_model::{Bytes, Device, Extent, Lba, Nanos, Op, Request, RequestId, Sectors, StreamId};

use super::{Moments, PROFILE_DEPTHS, PROFILE_SIZES, Profile};

/// Reads of 4 KiB, from whose distances the seek curve follows.
const READS_BY_DISTANCE: u64 = 2048;
/// Points of the seek curve.
const DISTANCE_POINTS: usize = 24;
/// Accesses of each other size and operation.
const READS_PER_SIZE: u64 = 256;
/// Reads that continue each other, in as many runs.
const CONTINUING_READS: u64 = 32;
/// Batches of each depth.
const BATCHES_PER_DEPTH: u64 = 96;
/// Requests that the device completes before a read arrives behind others, in numbers of these.
const TURNS_BEFORE_ARRIVAL: u64 = 2;

/// Measures the profile of a device that nothing else uses, beginning at time 0; `device` keeps the state in which the
/// requests leave it. Writes change no data: a model of a device has none.
///
/// Positions are pseudo-random and the same in each call. A device completes about 10,000 requests.
pub fn measure(device: &mut impl Device) -> Profile {
    let mut bench = Bench { now: Nanos::ZERO, next: 0, draws: 0, ended: Vec::new(), device };
    let (smallest, by_distance) = bench.by_distance();
    let mut reads = [smallest; 4];
    let mut writes = [Moments::default(); 4];
    for (index, &size) in PROFILE_SIZES.iter().enumerate() {
        if index > 0 {
            reads[index] = bench.random(Op::Read, size);
        }
        writes[index] = bench.random(Op::Write, size);
    }
    let continuing = bench.continuing();
    let room = bench.device.depth();
    let batches =
        PROFILE_DEPTHS.into_iter().filter(|depth| *depth <= room).map(|depth| bench.batch(depth)).collect();
    let behind = PROFILE_DEPTHS
        .into_iter()
        .filter(|depth| *depth < room)
        .map(|depth| bench.behind(depth, reads[0]))
        .collect();
    let (capacity, sector) = (bench.device.capacity(), bench.device.sector());
    Profile { capacity, sector, reads, writes, continuing, by_distance, batches, behind }
}

struct Bench<'a, D> {
    device: &'a mut D,
    now: Nanos,
    next: u64,
    draws: u64,
    ended: Vec<sakiyomi_model::Completion>,
}

impl<D: Device> Bench<'_, D> {
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
    fn complete(&mut self) -> sakiyomi_model::Completion {
        loop {
            if let Some(first) = (!self.ended.is_empty()).then(|| self.ended.remove(0)) {
                return first;
            }
            self.now = self.now.max(self.device.next_event().expect("a request is outstanding"));
            self.device.advance(self.now, &mut self.ended);
        }
    }

    /// Advances to `until`; each request that the device completes is followed by another one.
    fn pass(&mut self, until: Nanos) {
        while self.device.next_event().is_some_and(|event| event <= until) || !self.ended.is_empty() {
            if self.ended.is_empty() {
                self.now = self.now.max(self.device.next_event().expect("it has an event"));
                self.device.advance(self.now, &mut self.ended);
            }
            for _ in std::mem::take(&mut self.ended) {
                let extent = self.anywhere(PROFILE_SIZES[0]);
                self.submit(Op::Read, extent);
            }
        }
        self.now = self.now.max(until);
        self.device.advance(self.now, &mut self.ended);
    }

    /// Performs one access and returns its time. Background work of the device, such as read-ahead, is given a random
    /// part of the time that an access takes.
    fn one(&mut self, op: Op, extent: Extent) -> Nanos {
        let issued = self.now;
        self.submit(op, extent);
        let took = self.complete().finish - issued;
        let pause = Nanos(self.draw() % took.0.max(1));
        self.now += pause;
        self.device.advance(self.now, &mut self.ended);
        took
    }

    fn random(&mut self, op: Op, size: Bytes) -> Moments {
        let times: Vec<Nanos> = (0..READS_PER_SIZE)
            .map(|_| {
                let extent = self.anywhere(size);
                self.one(op, extent)
            })
            .collect();
        Moments::of(&times)
    }

    fn by_distance(&mut self) -> (Moments, Vec<(f64, Moments)>) {
        let capacity = self.device.capacity().0 as f64;
        let mut end = Lba(self.device.capacity().0 / 2);
        let mut times = Vec::new();
        for read in 0..2 * READS_BY_DISTANCE {
            let mut extent = self.anywhere(PROFILE_SIZES[0]);
            let far = read < READS_BY_DISTANCE;
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
        times.sort_by(|one, other| one.0.total_cmp(&other.0));
        let points = times.chunks(times.len().div_ceil(DISTANCE_POINTS)).map(|chunk| {
            let distance = chunk.iter().map(|(distance, ..)| distance).sum::<f64>() / chunk.len() as f64;
            let times: Vec<Nanos> = chunk.iter().map(|&(_, time, _)| time).collect();
            (distance, Moments::of(&times))
        });
        (Moments::of(&random), points.collect())
    }

    fn continuing(&mut self) -> Moments {
        let sectors = self.sectors(PROFILE_SIZES[1]);
        let mut times = Vec::new();
        for _ in 0..CONTINUING_READS {
            let mut extent = self.anywhere(PROFILE_SIZES[1]);
            let last = self.device.capacity().0.saturating_sub(CONTINUING_READS.min(8) * sectors.0);
            extent.start = Lba(extent.start.0.min(last));
            self.one(Op::Read, extent);
            for _ in 1..8 {
                extent.start = Lba(extent.start.0 + sectors.0);
                let issued = self.now;
                self.submit(Op::Read, extent);
                times.push(self.complete().finish - issued);
            }
        }
        Moments::of(&times)
    }

    fn batch(&mut self, depth: u32) -> Moments {
        let times: Vec<Nanos> = (0..BATCHES_PER_DEPTH)
            .map(|_| {
                let begun = self.now;
                for _ in 0..depth {
                    let extent = self.anywhere(PROFILE_SIZES[0]);
                    self.submit(Op::Read, extent);
                }
                (0..depth).for_each(|_| _ = self.complete());
                self.now - begun
            })
            .collect();
        Moments::of(&times)
    }

    /// `service` is that of one request.
    fn behind(&mut self, depth: u32, service: Moments) -> Moments {
        let mut times = Vec::new();
        for _ in 0..BATCHES_PER_DEPTH {
            let mut outstanding = 0;
            for _ in 0..depth {
                let extent = self.anywhere(PROFILE_SIZES[0]);
                self.submit(Op::Read, extent);
                outstanding += 1;
            }
            let mut last = self.now;
            for _ in 0..u64::from(depth) * TURNS_BEFORE_ARRIVAL {
                last = self.complete().finish;
                let extent = self.anywhere(PROFILE_SIZES[0]);
                self.submit(Op::Read, extent);
            }
            // A random moment within the service of one of the next requests.
            let within = self.draw() % (service.mean as u64).max(1);
            self.pass(last + Nanos(within));
            let arrived = self.now;
            let extent = self.anywhere(PROFILE_SIZES[0]);
            let own = self.submit(Op::Read, extent);
            outstanding += 1;
            for _ in 0..outstanding {
                let completion = self.complete();
                if completion.request.id == own {
                    times.push(completion.finish - arrived);
                }
            }
        }
        Moments::of(&times)
    }
}
