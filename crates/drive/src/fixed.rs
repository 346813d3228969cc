//! Storage with position-independent service times: a latency, a number of parallel requests, and a bandwidth.
//!
//! A first approximation of a network file system or a flash drive. Each request waits for its latency, at most
//! [`parallel`](FixedSpec::parallel) at a time; then its data crosses one link, in the order in which the latencies
//! end. A write is acknowledged when it is stored, so that a flush waits only for the requests before it.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::fmt;
use std::str::FromStr;

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use sakiyomi_model::{Bytes, Completion, Device, Full, Nanos, Op, Outcome, Request, RequestId, Sectors};

/// Sector size of storage without a mechanism.
const SECTOR_SIZE: Bytes = Bytes(512);

/// Parameters of a fixed device, written `fixed:latency=10ms,parallel=64,bandwidth=200MB,spread=0.2,size=1TB`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FixedSpec {
    /// Mean time of a request without its data transfer.
    pub latency: Nanos,
    /// Half-width of the uniform distribution of the latency, as a share of the mean, 0 to 1.
    pub spread: f64,
    /// Requests served in parallel.
    pub parallel: u32,
    /// Link bandwidth in bytes per second; unlimited if `None`.
    pub bandwidth: Option<Bytes>,
    /// Capacity.
    pub size: Bytes,
}

impl Default for FixedSpec {
    fn default() -> FixedSpec {
        FixedSpec {
            latency: Nanos::MILLISECOND,
            spread: 0.0,
            parallel: 1,
            bandwidth: None,
            size: Bytes(1_000_000_000_000),
        }
    }
}

/// A description that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{part}` cannot be part of a fixed device: {problem}; write it like fixed:latency=10ms,parallel=64,bandwidth=200MB/s,spread=0.2,size=1TB"
)]
pub struct FixedSpecError {
    part: String,
    problem: String,
}

impl FromStr for FixedSpec {
    type Err = FixedSpecError;

    /// Parses the text after `fixed:`, or the whole text with it.
    fn from_str(text: &str) -> Result<FixedSpec, FixedSpecError> {
        let mut spec = FixedSpec::default();
        let text = text.strip_prefix("fixed").map_or(text, |rest| rest.strip_prefix(':').unwrap_or(rest));
        let mut given = BTreeSet::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let key = part.split('=').next();
            let once = if given.insert(key) { Ok(()) } else { Err("it is given twice".to_owned()) };
            let set = once.and_then(|()| spec.set(part));
            set.map_err(|problem| FixedSpecError { part: part.to_owned(), problem })?;
        }
        Ok(spec)
    }
}

/// As it is parsed, without what is the default.
impl fmt::Display for FixedSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// Bandwidths that are whole megabytes are written in them.
        const MEGABYTE_BYTES: u64 = 1_000_000;
        let default = FixedSpec::default();
        write!(f, "fixed:latency={},parallel={}", self.latency, self.parallel)?;
        match self.bandwidth {
            Some(Bytes(bytes)) if bytes % MEGABYTE_BYTES == 0 => {
                write!(f, ",bandwidth={}MB", bytes / MEGABYTE_BYTES)?;
            }
            Some(bandwidth) => write!(f, ",bandwidth={bandwidth}")?,
            None => {}
        }
        if self.spread != default.spread {
            write!(f, ",spread={}", self.spread)?;
        }
        if self.size != default.size {
            write!(f, ",size={}", self.size)?;
        }
        Ok(())
    }
}

impl FixedSpec {
    fn set(&mut self, part: &str) -> Result<(), String> {
        let (key, value) = part.split_once('=').ok_or("there is no `=`")?;
        match key {
            "latency" => self.latency = value.parse().map_err(describe)?,
            "bandwidth" => {
                self.bandwidth = Some(value.strip_suffix("/s").unwrap_or(value).parse().map_err(describe)?);
            }
            "size" => self.size = value.parse().map_err(describe)?,
            "parallel" => self.parallel = value.parse().map_err(describe)?,
            "spread" => self.spread = value.parse().map_err(describe)?,
            _ => return Err("the keys are latency, parallel, bandwidth, spread and size".to_owned()),
        }
        self.check()
    }

    fn check(&self) -> Result<(), String> {
        let day = Nanos::SECOND * 86_400;
        let possible = [
            (self.latency <= day, "a request takes a day at most"),
            ((0.0..=1.0).contains(&self.spread), "it lies between 0 and 1"),
            (self.parallel > 0, "at least one request is served"),
            (self.bandwidth.is_none_or(|bandwidth| bandwidth.0 >= 1000), "it is at least 1kB/s"),
            (self.size.0 >= 1 << 20 && self.size.0 <= 1 << 60, "it lies between 1MiB and 2^60 bytes"),
        ];
        possible.iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, problem)| Err((*problem).to_owned()))
    }
}

fn describe(error: impl fmt::Display) -> String {
    error.to_string()
}

/// A device with position-independent service times.
#[derive(Clone, Debug)]
pub struct Fixed {
    spec: FixedSpec,
    random: Pcg64,
    now: Nanos,
    /// Requests in their latency, by its end.
    serving: BinaryHeap<Reverse<(Nanos, RequestId)>>,
    /// Requests on the link, by the end of the transfer.
    leaving: BinaryHeap<Reverse<(Nanos, RequestId)>>,
    held: Vec<Held>,
    link_free: Nanos,
    busy: Nanos,
    busy_since: Option<Nanos>,
    done: Vec<Completion>,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    request: Request,
    submitted: Nanos,
    transfer: Nanos,
}

impl Fixed {
    /// Creates the device that `spec` describes; `seed` initializes the latency spread.
    #[must_use]
    pub fn new(spec: FixedSpec, seed: u64) -> Fixed {
        Fixed {
            spec,
            random: Pcg64::seed_from_u64(seed),
            now: Nanos::ZERO,
            serving: BinaryHeap::new(),
            leaving: BinaryHeap::new(),
            held: Vec::new(),
            link_free: Nanos::ZERO,
            busy: Nanos::ZERO,
            busy_since: None,
            done: Vec::new(),
        }
    }

    /// Returns the parameters.
    #[must_use]
    pub fn spec(&self) -> &FixedSpec {
        &self.spec
    }

    fn latency(&mut self) -> Nanos {
        // 53 random bits give every multiple of 2⁻⁵³ below 1.
        let share = (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let factor = 1.0 + self.spec.spread * (2.0 * share - 1.0);
        Nanos((self.spec.latency.0 as f64 * factor).round() as u64)
    }

    fn transfer(&self, request: &Request) -> Nanos {
        let data = matches!(request.op, Op::Read | Op::Write);
        let bytes = if data { request.extent.sectors.to_bytes(SECTOR_SIZE).0 } else { 0 };
        let nanos = |rate: Bytes| u128::from(bytes) * 1_000_000_000 / u128::from(rate.0);
        Nanos(self.spec.bandwidth.map_or(0, |rate| u64::try_from(nanos(rate)).unwrap_or(u64::MAX / 4)))
    }

    /// Returns the next end of a latency or of a transfer.
    fn next_end(&self) -> Option<Nanos> {
        let ends = [&self.serving, &self.leaving].map(|heap| heap.peek().map(|&Reverse((end, _))| end));
        ends.into_iter().flatten().min()
    }

    fn run_until(&mut self, now: Nanos) {
        while let Some(end) = self.next_end().filter(|&end| end <= now) {
            self.now = self.now.max(end);
            if self.leaving.peek().is_some_and(|&Reverse((leaves, _))| leaves <= end) {
                self.leave();
            } else if let Some(Reverse((served, id))) = self.serving.pop() {
                let start = self.link_free.max(served);
                let held = self.held.iter_mut().find(|held| held.request.id == id).expect("it is held");
                self.link_free = start + held.transfer;
                self.leaving.push(Reverse((self.link_free, id)));
            }
        }
        self.now = self.now.max(now);
    }

    fn leave(&mut self) {
        let Some(Reverse((finish, id))) = self.leaving.pop() else { return };
        let index = self.held.iter().position(|held| held.request.id == id).expect("it is held");
        let held = self.held.swap_remove(index);
        if self.held.is_empty() {
            self.busy += finish - self.busy_since.take().unwrap_or(finish);
        }
        let fits = held.request.extent.end().0 <= self.capacity().0;
        self.done.push(Completion {
            request: held.request,
            submitted: held.submitted,
            finish,
            outcome: if fits { Outcome::Done } else { Outcome::Error },
            // A fixed latency has no cache class and no seek.
            detail: None,
        });
    }
}

impl Device for Fixed {
    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Full> {
        self.run_until(now);
        if self.held.len() >= self.spec.parallel as usize {
            return Err(Full(request));
        }
        let served = match request.op {
            // All earlier requests are stored once they have left the link.
            Op::Flush => self.leaving.iter().chain(&self.serving).map(|&Reverse((end, _))| end).max(),
            _ => None,
        };
        let served = served.unwrap_or(self.now).max(self.now + self.latency());
        let transfer = self.transfer(&request);
        self.busy_since.get_or_insert(self.now);
        self.held.push(Held { request, submitted: self.now, transfer });
        self.serving.push(Reverse((served, request.id)));
        Ok(())
    }

    fn next_event(&self) -> Option<Nanos> {
        if self.done.is_empty() { self.next_end().map(|end| end.max(self.now)) } else { Some(self.now) }
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        self.run_until(now);
        done.append(&mut self.done);
    }

    fn capacity(&self) -> Sectors {
        Sectors(self.spec.size.0 / SECTOR_SIZE.0)
    }

    fn sector(&self) -> Bytes {
        SECTOR_SIZE
    }

    fn depth(&self) -> u32 {
        self.spec.parallel
    }

    fn busy(&self, now: Nanos) -> Nanos {
        self.busy + self.busy_since.map_or(Nanos::ZERO, |since| now.saturating_sub(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sakiyomi_model::{Extent, Lba, StreamId};

    fn read(id: u64, sectors: u64) -> Request {
        Request {
            id: RequestId(id),
            stream: StreamId(0),
            op: Op::Read,
            fua: false,
            extent: Extent::new(Lba(0), Sectors(sectors)),
            arrival: Nanos::ZERO,
        }
    }

    fn finish(device: &mut Fixed) -> Vec<(u64, u64)> {
        let mut done = Vec::new();
        while let Some(event) = device.next_event() {
            device.advance(event, &mut done);
        }
        done.iter().map(|completion| (completion.request.id.0, completion.finish.0)).collect()
    }

    #[test]
    fn a_description_is_written_as_it_is_read() {
        for text in [
            "fixed:latency=1ms,parallel=1",
            "fixed:latency=10ms,parallel=64,bandwidth=200MB",
            "fixed:latency=250us,parallel=8,bandwidth=512KiB,spread=0.25,size=64MiB",
        ] {
            assert_eq!(text.parse::<FixedSpec>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn latencies_overlap_and_transfers_queue() {
        let spec: FixedSpec = "fixed:latency=10ms,parallel=3,bandwidth=512kB/s".parse().unwrap();
        let mut device = Fixed::new(spec, 0);
        for id in 0..3 {
            device.submit(Nanos(id), read(id, 1)).unwrap();
        }
        assert_eq!(device.submit(Nanos(5), read(9, 1)).unwrap_err().0.id.0, 9, "three are served at once");
        assert_eq!(finish(&mut device), [(0, 11_000_000), (1, 12_000_000), (2, 13_000_000)]);
        assert_eq!(device.busy(Nanos::SECOND), Nanos(13_000_000));
    }

    #[test]
    fn a_spread_keeps_the_mean_and_its_bounds() {
        let spec: FixedSpec = "latency=10ms,parallel=1,spread=0.5".parse().unwrap();
        let mut device = Fixed::new(spec, 3);
        let mut sum = 0;
        for id in 0..2000 {
            let begun = device.now;
            device.submit(begun, read(id, 8)).unwrap();
            let took = finish(&mut device)[0].1 - begun.0;
            assert!((5_000_000..=15_000_000).contains(&took), "{took}");
            sum += took;
        }
        assert!((9_800_000..10_200_000).contains(&(sum / 2000)), "{}", sum / 2000);
    }

    #[test]
    fn what_is_beyond_the_end_is_refused() {
        let mut device = Fixed::new("size=1MiB".parse().unwrap(), 0);
        device.submit(Nanos::ZERO, read(0, 4096)).unwrap();
        let mut done = Vec::new();
        device.advance(Nanos::SECOND, &mut done);
        assert_eq!((done[0].outcome, done[0].detail), (Outcome::Error, None));
    }

    #[test]
    fn nonsense_is_refused_in_words() {
        let error = |text: &str| text.parse::<FixedSpec>().unwrap_err().to_string();
        assert!(
            error("fixed:latenz=1ms")
                .starts_with("`latenz=1ms` cannot be part of a fixed device: the keys are")
        );
        assert!(
            error("latency=1ms,size=1GiB,latency=2ms")
                .starts_with("`latency=2ms` cannot be part of a fixed device: it is given twice")
        );
        assert!(error("spread=2").contains("it lies between 0 and 1"));
        assert!(error("parallel=0").contains("at least one request"));
        assert!(error("spread=NaN").contains("between 0 and 1"));
        assert!(error("latency=10").contains("the unit is missing"));
    }
}
