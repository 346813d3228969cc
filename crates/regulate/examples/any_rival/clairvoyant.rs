//! A schedule that knows every service time, to compare with admission by the profile.
//!
//! It sees what the regulator sees: the requests that wait, the deadline of the owner's request, and when a reply that is
//! held back will be sent; no request before it arrives. But whether a piece fits is found out by letting a copy of the
//! drive serve it, and the owner's next request after it, wherever that will be. Requests are considered in the same
//! order, one at a time, with the same largest piece while the owner may send a request at any moment.

use std::collections::VecDeque;

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use sakiyomi_drive::Drive;
use sakiyomi_drive::spec::DriveSpec;
use sakiyomi_model::{Bytes, Device, Extent, Lba, Nanos, Op, Request, RequestId, Sectors, StreamId};

use super::world::Pattern;

/// Requests of others that are considered at a time.
const CANDIDATES_MAX: usize = 16;
/// Part of the run, a tenth, that is not counted.
const WARM_UP_DIVISOR: u32 = 10;

/// An experiment with one owner that reads 4 KiB.
pub(crate) struct Clairvoyant<'a> {
    pub(crate) spec: &'a DriveSpec,
    /// Ideal time of the owner's reads.
    pub(crate) ideal: Nanos,
    /// Mean of the exponential time between a reply and the owner's next read; zero: none.
    pub(crate) think: Nanos,
    /// Largest piece while the owner may send a request at any moment.
    pub(crate) piece: Bytes,
    pub(crate) pattern: Pattern,
    pub(crate) others: usize,
    pub(crate) seed: u64,
    /// Reads of the owner after which the run ends.
    pub(crate) ios: u32,
}

/// Result of an experiment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bound {
    /// Bytes per second of the others.
    pub(crate) others: f64,
    /// Part of the owner's reads that were late.
    pub(crate) late: f64,
}

/// State of the owner.
#[derive(Clone, Copy, Debug)]
enum Owner {
    /// Its request at this address waits until the deadline at most.
    Waits { start: Lba, deadline: Nanos },
    /// Its reply is sent then; it will ask for this address.
    Held { until: Nanos, next: Lba },
    /// It asks for this address then, which the schedule does not know.
    Thinks { arrives: Nanos, next: Lba },
}

struct Run<'a> {
    of: &'a Clairvoyant<'a>,
    drive: Drive,
    now: Nanos,
    random: Pcg64,
    /// The rest of each of the others' requests, in the order of their arrival.
    waiting: VecDeque<Extent>,
    /// End of the last piece that was served.
    head: Option<Lba>,
    owner: Owner,
    sectors: u64,
    late: u32,
    done: u32,
}

impl Clairvoyant<'_> {
    pub(crate) fn run(&self) -> Bound {
        let drive = Drive::new(self.spec).expect("a drive");
        let mut run = Run {
            of: self,
            drive,
            now: Nanos::ZERO,
            random: Pcg64::seed_from_u64(self.seed),
            waiting: VecDeque::new(),
            head: None,
            owner: Owner::Thinks { arrives: Nanos::ZERO, next: Lba(0) },
            sectors: 0,
            late: 0,
            done: 0,
        };
        for _ in 0..self.others {
            let extent = run.new_request();
            run.waiting.push_back(extent);
        }
        let mut from = Nanos::ZERO;
        while run.done < self.ios {
            let before = run.done;
            run.step();
            if before < self.ios / WARM_UP_DIVISOR && run.done >= self.ios / WARM_UP_DIVISOR {
                (from, run.sectors, run.late) = (run.now, 0, 0);
            }
        }
        let counted = self.ios - self.ios / WARM_UP_DIVISOR;
        let bytes = run.sectors * run.drive.sector().0;
        Bound {
            others: bytes as f64 / (run.now - from).as_secs_f64(),
            late: f64::from(run.late) / f64::from(counted),
        }
    }
}

impl Run<'_> {
    fn anywhere(&mut self, bytes: u64) -> Extent {
        let sectors = bytes / self.drive.sector().0;
        let room = self.drive.capacity().0 - sectors;
        Extent::new(Lba(self.random.next_u64() % room / 8 * 8), Sectors(sectors))
    }

    fn new_request(&mut self) -> Extent {
        let bytes = match self.of.pattern {
            Pattern::Random(bytes) | Pattern::Sequential(bytes) => bytes,
            Pattern::Mixed => [4 << 10, 64 << 10, 1 << 20][self.random.next_u64() as usize % 3],
            Pattern::Bursts => 4096,
        };
        self.anywhere(bytes)
    }

    fn step(&mut self) {
        self.owner = match self.owner {
            Owner::Held { until, next } if until <= self.now => {
                let arrives = until + self.thinking();
                Owner::Thinks { arrives, next }
            }
            Owner::Thinks { arrives, next } if arrives <= self.now => {
                Owner::Waits { start: next, deadline: arrives + self.of.ideal }
            }
            owner => owner,
        };
        if let Some((index, extent)) = self.next_of_others() {
            return self.serve_others(index, extent);
        }
        match self.owner {
            Owner::Waits { start, deadline } => {
                let finish = self.serve(Extent::new(start, self.block()));
                self.late += u32::from(finish > deadline);
                self.done += 1;
                let next = self.anywhere(4096).start;
                self.owner = Owner::Held { until: finish.max(deadline), next };
            }
            Owner::Held { until: at, .. } | Owner::Thinks { arrives: at, .. } => {
                self.now = self.now.max(at);
                self.drive.advance(self.now, &mut Vec::new());
            }
        }
    }

    fn thinking(&mut self) -> Nanos {
        let part = (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        Nanos((-(1.0 - part).ln() * self.of.think.0 as f64) as u64)
    }

    fn block(&self) -> Sectors {
        Sectors(4096 / self.drive.sector().0)
    }

    /// Returns the next piece of the others, and the index of its request: a whole request, the next piece of one that is
    /// begun, or, if the owner does not wait, any piece.
    fn next_of_others(&self) -> Option<(usize, Extent)> {
        let candidates = || self.waiting.iter().copied().enumerate().take(CANDIDATES_MAX);
        let may_arrive = matches!(self.owner, Owner::Thinks { .. });
        let largest = self.of.piece.0 / self.drive.sector().0;
        let cut = |extent: Extent| Extent::new(extent.start, Sectors(extent.sectors.0.min(largest)));
        let whole = candidates()
            .find(|&(_, extent)| (!may_arrive || extent.sectors.0 <= largest) && self.fits(extent));
        whole
            .or_else(|| {
                let mut begun = candidates().filter(|(_, extent)| Some(extent.start) == self.head);
                begun
                    .find_map(|(index, extent)| Some((index, cut(extent))).filter(|_| self.fits(cut(extent))))
            })
            .or_else(|| {
                let is_owners = matches!(self.owner, Owner::Waits { .. });
                let mut any = candidates().filter(|_| !is_owners);
                any.find_map(|(index, extent)| Some((index, cut(extent))).filter(|_| self.fits(cut(extent))))
            })
    }

    /// Returns whether the owner's request, or its next one, ends in time after `extent`.
    fn fits(&self, extent: Extent) -> bool {
        let (arrives, start, deadline) = match self.owner {
            Owner::Waits { start, deadline } => (Nanos::ZERO, start, deadline),
            Owner::Held { until, next } => (until, next, until + self.of.ideal),
            // It may have been waited for in vain.
            Owner::Thinks { .. } => return true,
        };
        let mut copy = self.drive.clone();
        let finish = served(&mut copy, self.now, extent);
        let from = finish.max(arrives);
        copy.advance(from, &mut Vec::new());
        served(&mut copy, from, Extent::new(start, self.block())) <= deadline
    }

    fn serve(&mut self, extent: Extent) -> Nanos {
        self.now = served(&mut self.drive, self.now, extent);
        self.head = Some(extent.end());
        self.now
    }

    fn serve_others(&mut self, index: usize, piece: Extent) {
        self.serve(piece);
        let request = self.waiting[index];
        self.sectors += piece.sectors.0;
        if piece.end() < request.end() {
            let left = Sectors(request.sectors.0 - piece.sectors.0);
            self.waiting[index] = Extent::new(piece.end(), left);
            return;
        }
        self.waiting.remove(index);
        let next = self.new_request();
        self.waiting.push_back(next);
    }
}

/// Lets a drive serve a read, and returns when it ends.
fn served(drive: &mut Drive, now: Nanos, extent: Extent) -> Nanos {
    let request =
        Request { id: RequestId(0), stream: StreamId(0), op: Op::Read, fua: false, extent, arrival: now };
    drive.submit(now, request).expect("it is idle");
    let mut ended = Vec::new();
    loop {
        let event = drive.next_event().expect("a request is outstanding");
        drive.advance(event, &mut ended);
        if let Some(completion) = ended.first() {
            return completion.finish;
        }
    }
}
