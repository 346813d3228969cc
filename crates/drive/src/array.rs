//! An array of equal devices behind one address space: RAID 0, 1, 5, 6 and 10 (Patterson, Gibson & Katz 1988).
//!
//! A pure state machine over any [`Device`]: a request becomes steps of member accesses, each of which first reads, then
//! writes (`array/plan.rs`, `array/layout.rs`). The controller itself takes no time and has no cache: no stripe cache
//! joins small writes, and no lock orders writes of one row. Reads of mirrored data go to the member with the fewest
//! accesses, among equals to the one whose last access ended nearest.
//!
//! A failed member is not accessed. If it is being rebuilt, its contents are current from the first sector up to a
//! frontier, which moves in steps of half a MiB at the rate given, or as fast as the members allow.

mod layout;
mod plan;
mod slab;

use std::collections::VecDeque;

use sakiyomi_model::{
    Breakdown, Bytes, Class, Completion, Detail, Device, Extent, Full, Lba, Nanos, Op, Outcome, Request,
    RequestId, Sectors, StreamId, UNLIMITED_DEPTH,
};

use crate::spec::{ArraySpec, RaidLevel};
use layout::{ArrayLayout, Part, Piece};
use plan::Step;
use slab::Slab;

/// Bytes of each member that a step of rebuilding restores, at least.
const REBUILD_STEP: Bytes = Bytes(512 << 10);

/// An array of devices.
#[derive(Clone, Debug)]
pub struct Array<D> {
    layout: ArrayLayout,
    level: RaidLevel,
    members: Vec<Member<D>>,
    sector: Bytes,
    depth: u32,
    now: Nanos,
    requests: Slab<Parent>,
    steps: Slab<Running>,
    /// Step of each access in the members, by request id.
    accesses: Slab<usize>,
    rebuild: Option<Rebuild>,
    /// Sectors of every failed member that are current again.
    frontier: u64,
    done: Vec<Completion>,
    scratch: Vec<Completion>,
}

#[derive(Clone, Debug)]
struct Member<D> {
    device: D,
    is_failed: bool,
    /// Accesses that the device's own queue has no room for.
    queue: VecDeque<Request>,
    outstanding: usize,
    /// End of the last access.
    last_end: u64,
}

/// A request to the array.
#[derive(Clone, Copy, Debug)]
struct Parent {
    request: Request,
    submitted: Nanos,
    steps_left: usize,
    outcome: Outcome,
    /// Detail of the access that ended last.
    detail: Option<Detail>,
}

/// A step whose accesses are under way.
#[derive(Clone, Debug)]
struct Running {
    /// `None` for a step of rebuilding.
    parent: Option<usize>,
    left: usize,
    /// Written once everything is read.
    writes: Vec<Piece>,
    template: Template,
}

/// Attributes that a step's accesses share.
#[derive(Clone, Copy, Debug)]
struct Template {
    /// Operation of the accesses that are not reads.
    op: Op,
    stream: StreamId,
    fua: bool,
}

/// Progress of rebuilding.
#[derive(Clone, Copy, Debug)]
struct Rebuild {
    rate: Bytes,
    /// Sectors of a member to be restored.
    sectors: u64,
    /// End of the step under way.
    until: Option<u64>,
    /// Earliest start of the next step.
    next: Nanos,
}

impl<D: Device> Array<D> {
    /// Creates the array that a validated `spec` describes over `devices`, which have equal sectors; the smallest one
    /// determines the capacity. Spares for the failed members are among them.
    ///
    /// # Panics
    /// If the number of devices is not that of `spec`: the caller creates them from it.
    #[must_use]
    pub fn new(spec: &ArraySpec, devices: Vec<D>) -> Array<D> {
        assert_eq!(devices.len(), spec.members as usize, "an array has as many devices as members");
        let sector = devices.first().map_or(Bytes(512), Device::sector);
        let capacity = devices.iter().map(|device| device.capacity().0).min().unwrap_or(0);
        let depths = devices.iter().map(Device::depth);
        let depth =
            depths.fold(
                0u32,
                |sum, depth| if depth == UNLIMITED_DEPTH { depth } else { sum.saturating_add(depth) },
            );
        let layout = ArrayLayout::new(spec, sector.0, capacity);
        let is_failed = |number: usize| spec.failed.contains(&(number as u32));
        let members = devices.into_iter().enumerate().map(|(number, device)| Member {
            device,
            is_failed: is_failed(number),
            queue: VecDeque::new(),
            outstanding: 0,
            last_end: 0,
        });
        let rebuilds = !spec.failed.is_empty() && !spec.rebuild.is_zero();
        let sectors = layout.rows * layout.chunk;
        Array {
            level: spec.level,
            members: members.collect(),
            sector,
            depth,
            now: Nanos::ZERO,
            requests: Slab::default(),
            steps: Slab::default(),
            accesses: Slab::default(),
            rebuild: rebuilds.then_some(Rebuild {
                rate: spec.rebuild,
                sectors,
                until: None,
                next: Nanos::ZERO,
            }),
            frontier: 0,
            done: Vec::new(),
            scratch: Vec::new(),
            layout,
        }
    }

    /// Returns the member devices.
    pub fn members(&self) -> impl Iterator<Item = &D> {
        self.members.iter().map(|member| &member.device)
    }

    /// Returns the member devices.
    pub fn members_mut(&mut self) -> impl Iterator<Item = &mut D> {
        self.members.iter_mut().map(|member| &mut member.device)
    }

    /// Returns the number of requests in the array.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.requests.len()
    }

    /// Returns whether failed members are being rebuilt.
    #[must_use]
    pub fn is_rebuilding(&self) -> bool {
        self.rebuild.is_some()
    }

    /// Returns whether a member's data is current up to sector `end`.
    fn is_current(&self, member: usize, end: u64) -> bool {
        !self.members[member].is_failed || end <= self.frontier
    }

    /// Returns whether a member's data is current in a row.
    fn is_current_at(&self, member: usize, row: u64) -> bool {
        self.is_current(member, (row + 1) * self.layout.chunk)
    }

    fn run_until(&mut self, now: Nanos) {
        while let Some(time) = self.next_event_from_now() {
            if time > now {
                break;
            }
            self.now = time;
            self.step();
        }
        self.now = self.now.max(now);
    }

    fn next_event_from_now(&self) -> Option<Nanos> {
        let members = self.members.iter().filter_map(|member| member.device.next_event());
        let rebuild = self.rebuild.filter(|rebuild| rebuild.until.is_none()).map(|rebuild| rebuild.next);
        members.chain(rebuild).min().map(|time| time.max(self.now))
    }

    /// Processes everything due at `self.now`, once.
    fn step(&mut self) {
        for member in 0..self.members.len() {
            let device = &mut self.members[member].device;
            if device.next_event().is_none_or(|time| time > self.now) {
                continue;
            }
            let mut ended = std::mem::take(&mut self.scratch);
            device.advance(self.now, &mut ended);
            for completion in ended.drain(..) {
                self.members[member].outstanding -= 1;
                self.access_ended(&completion);
            }
            self.scratch = ended;
            self.hand_over(member);
        }
        self.rebuild_next();
    }

    fn access_ended(&mut self, completion: &Completion) {
        let number = self.accesses.remove(completion.request.id.0 as usize);
        let step = &mut self.steps[number];
        step.left -= 1;
        if let Some(parent) = step.parent.map(|parent| &mut self.requests[parent]) {
            parent.detail = completion.detail.or(parent.detail);
            if completion.outcome != Outcome::Done {
                parent.outcome = completion.outcome;
            }
        }
        if step.left > 0 {
            return;
        }
        let (writes, template) = (std::mem::take(&mut step.writes), step.template);
        if writes.is_empty() {
            self.step_ended(number);
        } else {
            self.issue(number, template.op, &writes);
        }
    }

    fn step_ended(&mut self, number: usize) {
        let Some(parent) = self.steps.remove(number).parent else {
            if let Some(until) = self.rebuild.as_mut().and_then(|rebuild| rebuild.until.take()) {
                self.frontier = until;
            }
            return;
        };
        self.requests[parent].steps_left -= 1;
        if self.requests[parent].steps_left == 0 {
            let ended = self.requests.remove(parent);
            self.complete(&ended);
        }
    }

    fn complete(&mut self, ended: &Parent) {
        let Parent { request, submitted, outcome, detail, .. } = *ended;
        let detail = match outcome {
            Outcome::Done => detail.map(|detail| within(detail, self.now - submitted)),
            Outcome::Error | Outcome::Cancelled => {
                let breakdown = Breakdown { queue: self.now - submitted, ..Breakdown::default() };
                Some(Detail { class: Class::Refused, breakdown })
            }
        };
        self.done.push(Completion { request, submitted, finish: self.now, outcome, detail });
    }

    /// Starts the steps of a request.
    fn begin(&mut self, request: Request, steps: Option<Vec<Step>>) {
        let outcome = if steps.is_some() { Outcome::Done } else { Outcome::Error };
        let mut steps = steps.unwrap_or_default();
        steps.retain(|step| !step.reads.is_empty() || !step.writes.is_empty());
        let class = match request.op {
            Op::Discard => Some(Class::Discard),
            Op::Flush => Some(Class::Flush),
            Op::Read | Op::Write => None,
        };
        let detail = class.map(|class| Detail { class, breakdown: Breakdown::default() });
        let (submitted, steps_left) = (self.now, steps.len());
        let parent = Parent { request, submitted, steps_left, outcome, detail };
        if steps.is_empty() {
            self.complete(&parent);
            return;
        }
        let parent = Some(self.requests.insert(parent));
        let op = if request.op == Op::Read { Op::Write } else { request.op };
        let template = Template { op, stream: request.stream, fua: request.fua };
        steps.into_iter().for_each(|step| self.begin_step(parent, template, step));
    }

    fn begin_step(&mut self, parent: Option<usize>, template: Template, step: Step) {
        let Step { reads, writes } = step;
        let number = self.steps.insert(Running { parent, left: 0, writes: Vec::new(), template });
        if reads.is_empty() {
            self.issue(number, template.op, &writes);
        } else {
            self.steps[number].writes = writes;
            self.issue(number, Op::Read, &reads);
        }
    }

    /// Issues a step's accesses with one operation.
    fn issue(&mut self, number: usize, op: Op, pieces: &[Piece]) {
        let Template { stream, fua, .. } = self.steps[number].template;
        self.steps[number].left = pieces.len();
        for piece in pieces {
            let id = RequestId(self.accesses.insert(number) as u64);
            let extent = Extent::new(Lba(piece.start), Sectors(piece.sectors));
            let fua = fua && op == Op::Write;
            let request = Request { id, stream, op, fua, extent, arrival: self.now };
            let member = &mut self.members[piece.member];
            member.queue.push_back(request);
            if op != Op::Flush {
                member.last_end = piece.start + piece.sectors;
            }
            self.hand_over(piece.member);
        }
    }

    /// Submits as many accesses as a member accepts.
    fn hand_over(&mut self, member: usize) {
        let Member { device, queue, outstanding, .. } = &mut self.members[member];
        while *outstanding < device.depth() as usize {
            let Some(access) = queue.pop_front() else { return };
            if let Err(full) = device.submit(self.now, access) {
                queue.push_front(full.0);
                return;
            }
            *outstanding += 1;
        }
    }

    /// Returns the steps of a request; `None` if data that it needs is lost.
    fn plan(&self, request: &Request) -> Option<Vec<Step>> {
        let (start, end) = (request.extent.start.0, request.extent.end().0);
        let has_parity = self.level.parities() > 0;
        match request.op {
            Op::Read => {
                let mut reads = Vec::new();
                self.layout.parts(start, end).try_for_each(|part| self.read(part, &mut reads))?;
                Some(vec![Step { reads: joined(reads), writes: Vec::new() }])
            }
            Op::Write if has_parity => self.write_rows(start, end),
            Op::Discard if has_parity => Some(Vec::new()),
            Op::Write | Op::Discard => {
                let mut writes = Vec::new();
                for part in self.layout.parts(start, end) {
                    writes.extend(self.current(part));
                }
                Some(vec![Step { reads: Vec::new(), writes: joined(writes) }])
            }
            Op::Flush => {
                let accessed = |number: &usize| !self.members[*number].is_failed || self.rebuild.is_some();
                let members = (0..self.members.len()).filter(accessed);
                let writes = members.map(|member| Piece { member, start: 0, sectors: 0 }).collect();
                Some(vec![Step { reads: Vec::new(), writes }])
            }
        }
    }

    /// Returns the places of a part that are current.
    fn current(&self, part: Part) -> impl Iterator<Item = Piece> {
        let holders = self.layout.holders(part.row, part.index);
        let pieces = holders.map(move |member| self.layout.piece(member, part.row, part.from, part.to));
        pieces.filter(|piece| self.is_current(piece.member, piece.start + piece.sectors))
    }

    fn read(&self, part: Part, reads: &mut Vec<Piece>) -> Option<()> {
        let load = |piece: &Piece| {
            let member = &self.members[piece.member];
            let planned = reads.iter().filter(|other| other.member == piece.member).count();
            let distance = member.last_end.abs_diff(piece.start);
            (member.outstanding + member.queue.len() + planned, distance, piece.member)
        };
        let nearest = self.current(part).min_by_key(load);
        match nearest {
            Some(piece) => reads.push(piece),
            None if self.level.parities() > 0 => {
                let alive = |member, row| self.is_current_at(member, row);
                reads.extend(plan::restore(&self.layout, part.row, (part.from, part.to), &alive)?);
            }
            None => return None,
        }
        Some(())
    }

    fn write_rows(&self, start: u64, end: u64) -> Option<Vec<Step>> {
        let parts: Vec<Part> = self.layout.parts(start, end).collect();
        let alive = |member, row| self.is_current_at(member, row);
        let rows = parts.chunk_by(|one, other| one.row == other.row);
        let steps =
            rows.map(|parts| plan::write_row(&self.layout, parts, &alive)).collect::<Option<Vec<_>>>()?;
        // Rows that read nothing are consecutive on every member.
        let (whole, mut steps): (Vec<Step>, Vec<Step>) =
            steps.into_iter().partition(|step| step.reads.is_empty());
        let writes = joined(whole.into_iter().flat_map(|step| step.writes).collect());
        steps.push(Step { reads: Vec::new(), writes });
        Some(steps)
    }

    /// Starts the next step of rebuilding when it is due, or ends rebuilding.
    fn rebuild_next(&mut self) {
        let Some(rebuild) =
            self.rebuild.filter(|rebuild| rebuild.until.is_none() && rebuild.next <= self.now)
        else {
            return;
        };
        if self.frontier >= rebuild.sectors {
            self.members.iter_mut().for_each(|member| member.is_failed = false);
            self.rebuild = None;
            return;
        }
        let step = self.rebuild_step(rebuild.sectors);
        let until = self.frontier + step.writes.first().map_or(0, |piece| piece.sectors);
        let bytes = u128::from((until - self.frontier) * self.sector.0);
        let pause = bytes * u128::from(Nanos::SECOND.0) / u128::from(rebuild.rate.0);
        let next = self.now.saturating_add(Nanos(u64::try_from(pause).unwrap_or(u64::MAX)));
        self.rebuild = Some(Rebuild { until: Some(until), next, ..rebuild });
        self.begin_step(None, Template { op: Op::Write, stream: StreamId(0), fua: false }, step);
    }

    fn rebuild_step(&self, end: u64) -> Step {
        let least = (REBUILD_STEP.0 / self.sector.0).max(1);
        let striped = if self.level == RaidLevel::Raid1 { 1 } else { self.layout.chunk };
        let sectors = least.next_multiple_of(striped).min(end - self.frontier);
        let piece = |member| Piece { member, start: self.frontier, sectors };
        let members = 0..self.members.len();
        let failed = members.clone().filter(|member| self.members[*member].is_failed);
        let sources = members.filter(|member| !self.members[*member].is_failed);
        let reads = match self.level {
            RaidLevel::Raid10 => failed.clone().map(|member| piece(member ^ 1)).collect(),
            _ => sources.take(self.layout.data_chunks() as usize).map(piece).collect(),
        };
        Step { reads, writes: failed.map(piece).collect() }
    }
}

/// Joins pieces that are consecutive on their member, or overlap because lost data is restored from them.
fn joined(mut pieces: Vec<Piece>) -> Vec<Piece> {
    pieces.sort_unstable();
    pieces.dedup_by(|next, piece| {
        let end = piece.start + piece.sectors;
        let follows = next.member == piece.member && next.start <= end;
        if follows {
            piece.sectors = end.max(next.start + next.sectors) - piece.start;
        }
        follows
    });
    pieces
}

/// Returns the detail of the last access as that of the whole request: what it did not take itself was spent waiting.
fn within(detail: Detail, total: Nanos) -> Detail {
    let Detail { class, mut breakdown } = detail;
    let mut left = total;
    let parts =
        [&mut breakdown.overhead, &mut breakdown.seek, &mut breakdown.rotation, &mut breakdown.transfer];
    for part in parts {
        *part = (*part).min(left);
        left -= *part;
    }
    breakdown.queue = left;
    Detail { class, breakdown }
}

impl<D: Device> Device for Array<D> {
    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Full> {
        self.run_until(now);
        if self.requests.len() >= self.depth as usize {
            return Err(Full(request));
        }
        let extent = request.extent;
        let end = extent.start.0.checked_add(extent.sectors.0);
        let beyond = end.is_none_or(|end| end > self.layout.capacity());
        let is_data = matches!(request.op, Op::Read | Op::Write);
        let refused = match request.op {
            Op::Flush => false,
            _ => beyond || (is_data && extent.sectors.is_zero()),
        };
        let steps = if refused { None } else { self.plan(&request) };
        self.begin(request, steps);
        Ok(())
    }

    fn next_event(&self) -> Option<Nanos> {
        if self.done.is_empty() { self.next_event_from_now() } else { Some(self.now) }
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        self.run_until(now);
        done.append(&mut self.done);
    }

    fn capacity(&self) -> Sectors {
        Sectors(self.layout.capacity())
    }

    fn sector(&self) -> Bytes {
        self.sector
    }

    fn depth(&self) -> u32 {
        self.depth
    }

    /// Returns the mean over the members.
    fn busy(&self, now: Nanos) -> Nanos {
        let sum: Nanos =
            self.members.iter().map(|member| member.device.busy(now)).fold(Nanos::ZERO, |a, b| a + b);
        sum / self.members.len().max(1) as u64
    }
}
