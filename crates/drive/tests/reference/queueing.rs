//! Order and times of commands on a drive without a cache: every policy, reads and writes, many commands at once.

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use sakiyomi_drive::spec::{QueuePolicy, ReadAheadMode};
use sakiyomi_model::{Bytes, Extent, Lba, Nanos, Op, Request, Sectors};

use crate::generate::{self, Spec, Step};
use crate::host::{Last, Wake, link_time_write, read_over, run};
use crate::mechanism::{Mechanism, Pass};

/// A waiting command.
#[derive(Clone, Copy, Debug)]
struct Item {
    request: Request,
    ready: u64,
    /// End of its command processing.
    processed: u64,
    /// Arrival of a write's last byte.
    data_at: u64,
}

impl Item {
    fn write(&self) -> bool {
        self.request.op == Op::Write
    }

    fn first(&self) -> u64 {
        self.request.extent.start.0
    }

    fn sectors(&self) -> u64 {
        self.request.extent.sectors.0
    }

    /// Returns whether the other command's first sector is reached by continuing on this one's sectors.
    fn leads_to(&self, other: &Item) -> bool {
        self.write() == other.write() && (self.first() + 1..=self.end()).contains(&other.first())
    }

    /// Returns the first sector after the last one.
    fn end(&self) -> u64 {
        self.first() + self.sectors()
    }
}

/// Result of the naive drive for a command: id, begin of the seek, begin of the first sector, end of the last, finish.
type Account = (u64, u64, u64, u64, u64);

/// A naive drive without a cache.
struct Naive {
    spec: Spec,
    mechanism: Mechanism,
    waiting: Vec<Item>,
    busy: Option<(Item, Account, Vec<Pass>)>,
    /// Time before which the queue has been examined.
    look_from: u64,
    inwards: bool,
    link_free: u64,
    last: Last,
    accounts: Vec<Account>,
    /// Times of read seek, read data, write seek and write data.
    time: [u64; 4],
}

impl Naive {
    fn new(spec: &Spec) -> Naive {
        Naive {
            spec: spec.clone(),
            mechanism: Mechanism::new(spec),
            waiting: Vec::new(),
            busy: None,
            look_from: 0,
            inwards: true,
            link_free: 0,
            last: Last::default(),
            accounts: Vec::new(),
            time: [0; 4],
        }
    }

    fn run(mut self, requests: &[Request]) -> Naive {
        for request in requests {
            self.until(request.arrival.0);
            self.arrive(*request);
        }
        self.until(u64::MAX);
        self
    }

    fn until(&mut self, limit: u64) {
        loop {
            let next = match &self.busy {
                Some((_, account, _)) => Some(account.3),
                // A ready command may lie outside the window until another one is ready.
                None => {
                    self.waiting.iter().map(|item| item.ready).filter(|ready| *ready >= self.look_from).min()
                }
            };
            let Some(next) = next.filter(|next| *next <= limit) else { return };
            if let Some((item, account, passes)) = self.busy.take() {
                self.end(&item, account, &passes);
            }
            self.look_from = next.saturating_add(1);
            if let Some(index) = self.choose(next) {
                self.begin(index, next);
            }
        }
    }

    fn arrive(&mut self, request: Request) {
        let (now, overhead) = (request.arrival.0, &self.spec.interface.overhead);
        let before = self.last.before(&request);
        let write = request.op == Op::Write;
        let kind = if write { overhead.write_miss } else { overhead.read_miss };
        let processed = now + kind.after(before).0;
        let mut item = Item { request, ready: processed, processed, data_at: 0 };
        if write {
            let asked = now + overhead.write_data.unwrap_or(overhead.write_miss).after(before).0;
            item.data_at = asked.max(self.link_free) + link_time_write(&self.spec, item.sectors());
            self.link_free = item.data_at;
            if !self.spec.interface.overlap {
                item.ready = item.data_at.max(processed);
            }
        }
        self.look_from = self.look_from.min(item.ready);
        self.waiting.push(item);
    }

    fn begin(&mut self, index: usize, now: u64) {
        let item = self.waiting.remove(index);
        let ready: Vec<u64> = (item.first()..item.end()).map(|lba| self.data_ready(&item, lba)).collect();
        let ready = |lba| ready[(lba - item.first()) as usize];
        let passes = self.mechanism.transfer((item.first(), item.end()), now, item.write(), ready);
        self.holds_what_it_writes(&item, &passes);
        let end = passes.last().expect("at least one").end;
        let data: u64 = passes.iter().map(|pass: &Pass| pass.end - pass.begin).sum();
        let kind = if item.write() { 2 } else { 0 };
        self.time[kind] += end - now - data;
        self.time[kind + 1] += data;
        self.busy = Some((item, (item.request.id.0, now, passes[0].begin, end, 0), passes));
    }

    /// Returns when a write's data up to and including `lba` has arrived.
    fn there(&self, item: &Item, lba: u64) -> u64 {
        item.data_at.saturating_sub(link_time_write(&self.spec, item.end() - lba - 1))
    }

    /// Returns the earliest time at which a sector may pass. Where it begins a row, its own data must have arrived, and
    /// that of the row's last sector by the time that one has passed; the data between arrives as uniformly as the
    /// sectors pass.
    fn data_ready(&self, item: &Item, lba: u64) -> u64 {
        let platter = &self.mechanism.platter;
        if !item.write() || (lba > item.first() && platter.goes_on(lba - 1)) {
            return 0;
        }
        if !self.spec.interface.overlap {
            return item.data_at;
        }
        let last =
            (lba..item.end()).find(|lba| *lba + 1 == item.end() || !platter.goes_on(*lba)).expect("one");
        let passing: u64 = (lba..=last).map(|lba| platter.sectors[lba as usize].width).sum();
        self.there(item, lba).max(self.there(item, last).saturating_sub(passing))
    }

    /// Checks that no sector passes before its data has arrived, up to rounding.
    fn holds_what_it_writes(&self, item: &Item, passes: &[Pass]) {
        for pass in passes.iter().filter(|_| item.write()) {
            assert!(pass.end + 2 >= self.there(item, pass.lba), "{pass:?} of {item:?}");
        }
    }

    fn end(&mut self, item: &Item, (id, begun, data_from, end, _): Account, passes: &[Pass]) {
        let overhead = &self.spec.interface.overhead;
        let over = if item.write() {
            end + overhead.completion_write.unwrap_or(overhead.completion).0
        } else {
            let begins: Vec<u64> = passes.iter().map(|pass| pass.begin).collect();
            let link = (item.processed, self.link_free);
            let sent = read_over(&self.spec, &item.request, item.first(), (&begins, end), link);
            self.link_free = sent;
            sent + overhead.completion.0
        };
        self.accounts.push((id, begun, data_from, end, over));
    }

    fn choose(&mut self, now: u64) -> Option<usize> {
        let queue = self.spec.queue.clone();
        let seen: Vec<(usize, Item)> =
            self.waiting.iter().copied().enumerate().take(queue.window as usize).collect();
        let mut ready: Vec<(usize, Item)> = seen.into_iter().filter(|(_, item)| item.ready <= now).collect();
        let age = |item: &Item| now - item.request.arrival.0;
        let overdue = |item: &Item| !queue.age_limit.is_zero() && age(item) > queue.age_limit.0;
        if let Some((index, _)) = ready.iter().find(|(_, item)| overdue(item)) {
            return Some(*index);
        }
        if queue.policy != QueuePolicy::Fcfs {
            let all = ready.clone();
            ready.retain(|(_, item)| !all.iter().any(|(_, before)| before.leads_to(item)));
        }
        let sweeps = matches!(queue.policy, QueuePolicy::Look | QueuePolicy::CLook);
        if sweeps && !queue.read_preference.is_zero() && ready.iter().any(|(_, item)| !item.write()) {
            ready.retain(|(_, item)| !item.write());
        }
        if sweeps {
            return self.sweep(&ready);
        }
        let read_bonus = |item: &Item| if item.write() { 0 } else { i128::from(queue.read_preference.0) };
        ready.iter().min_by_key(|(_, item)| self.cost(item, now) - read_bonus(item)).map(|(index, _)| *index)
    }

    fn cost(&self, item: &Item, now: u64) -> i128 {
        let queue = &self.spec.queue;
        let travel = self.mechanism.travel(item.first(), now, item.write());
        match queue.policy {
            QueuePolicy::Fcfs => i128::from(item.request.arrival.0),
            QueuePolicy::Sstf => i128::from(travel),
            _ => {
                let all = self.mechanism.positioning(item.first(), now, item.write());
                let missed = travel > 0 && all - travel < queue.rpo_margin.0;
                let waited = (queue.age_weight * (now - item.request.arrival.0) as f64) as i128;
                i128::from(all) + if missed { i128::from(self.mechanism.platter.revolution) } else { 0 }
                    - waited
            }
        }
    }

    /// Returns the nearest command ahead; if there is none, LOOK reverses, and C-LOOK returns to the outermost.
    fn sweep(&mut self, ready: &[(usize, Item)]) -> Option<usize> {
        let own = self.mechanism.cylinder;
        let cylinder = |item: &Item| self.mechanism.platter.sectors[item.first() as usize].cylinder;
        let inner =
            ready.iter().filter(|(_, item)| cylinder(item) >= own).min_by_key(|(_, item)| cylinder(item));
        let outer = ready
            .iter()
            .filter(|(_, item)| cylinder(item) <= own)
            .min_by_key(|(_, item)| own - cylinder(item));
        if self.spec.queue.policy == QueuePolicy::CLook {
            let outermost = ready.iter().min_by_key(|(_, item)| cylinder(item));
            return inner.or(outermost).map(|(index, _)| *index);
        }
        let (ahead, behind) = if self.inwards { (inner, outer) } else { (outer, inner) };
        if ahead.is_none() && behind.is_some() {
            self.inwards = !self.inwards;
        }
        ahead.or(behind).map(|(index, _)| *index)
    }
}

/// Generates drives without read-ahead and write cache, with a buffer of one sector that no request of the load hits.
fn without_cache() -> impl Strategy<Value = Spec> {
    generate::drive().prop_map(|mut spec| {
        spec.cache.size = Bytes(512);
        spec.cache.segments.count = 1;
        spec.cache.read_ahead.mode = ReadAheadMode::Off;
        spec.cache.read_ahead.on_arrival = false;
        spec.cache.write.enabled = false;
        spec.queue.depth = 256;
        spec.check().expect("possible");
        spec
    })
}

/// Returns requests that do not overlap, so that none is served by another's data, with at least `gap` sectors between
/// them.
fn apart(requests: Vec<Request>, capacity: u64, gap: u64) -> Vec<Request> {
    let slot = capacity / requests.len() as u64;
    let mut free: Vec<u64> = (0..requests.len() as u64).filter(|_| slot > gap).collect();
    let place = |request: Request| {
        if free.is_empty() {
            return None;
        }
        let start = free.remove((request.extent.start.0 % free.len() as u64) as usize) * slot;
        let sectors = Sectors(request.extent.sectors.0.min(slot - gap));
        Some(Request { extent: Extent::new(Lba(start), sectors), ..request })
    };
    requests.into_iter().filter_map(place).collect()
}

fn requests(spec: &Spec, steps: &[Step], gap: u64) -> Vec<Request> {
    let capacity = Mechanism::new(spec).platter.capacity();
    let close: Vec<Step> = steps.iter().map(|step| Step { gap: step.gap / 8, ..*step }).collect();
    apart(generate::requests(&close, capacity), capacity, gap)
}

fn any_op() -> impl Strategy<Value = Op> {
    prop_oneof![Just(Op::Read), Just(Op::Write)]
}

fn agrees(spec: &Spec, requests: &[Request]) -> Result<(), TestCaseError> {
    let naive = Naive::new(spec).run(requests);
    let story = run(spec, requests, Wake::Exactly);
    let over = |id: u64| story.completions.iter().find(|c| c.request.id.0 == id).expect("it ended").finish.0;
    let accounts: Vec<Account> = story
        .disk()
        .map(|access| {
            let id = access.request.expect("all work is a command's").0;
            let data_from = access.start + access.seek + access.rotation;
            (id, access.start.0, data_from.0, access.end.0, over(id))
        })
        .collect();
    prop_assert_eq!(&accounts, &naive.accounts);
    let time = story.usage.time;
    let parts = [time.read_seek, time.read_data, time.write_seek, time.write_data].map(|part: Nanos| part.0);
    prop_assert_eq!(parts, naive.time);
    Ok(())
}

proptest! {
    #![proptest_config(crate::cases(250))]

    #[test]
    fn order_and_times_are_those_of_a_drive_that_looks_at_every_sector(
        spec in without_cache(),
        steps in generate::load_of(any_op(), 24),
    ) {
        agrees(&spec, &requests(&spec, &steps, 2))?;
    }

    #[test]
    fn writes_that_go_on_where_others_end_are_written_behind_them(
        spec in without_cache(),
        steps in generate::load_of(Just(Op::Write), 24),
    ) {
        agrees(&spec, &requests(&spec, &steps, 0))?;
    }
}
