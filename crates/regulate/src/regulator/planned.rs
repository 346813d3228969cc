//! Order of service and admission by the profile of the device.
//!
//! A request of another process is issued only if every request of an owner that is known, or whose earliest arrival is
//! known, then still ends by its deadline: by the mean and some standard deviations of the service times. While an
//! owner may send a request at any moment, the device holds no more than the [`Limits`] with which its rate was granted.
//! Requests larger than the largest piece are issued one piece after another.
//!
//! The order of service, as far as a request fits:
//!
//! 1. a whole request of others: finishing what can be finished costs less than preempting it;
//! 2. the next piece of a request of others that continues where the device is;
//! 3. a request of an owner, by deadline, whether it fits or not;
//! 4. any piece of a request of others.
//!
//! A device that serves several requests at once has no order of service: owners' requests are issued at once, and the
//! others' as far as the limits allow, or if they end before an owner can send its next request (`parallel.rs`).

use std::collections::BTreeMap;
use std::sync::Arc;

use sakiyomi_model::{Bytes, Lba, Nanos, Op, RequestId, Sectors};

use super::admitted::Admitted;
use super::request::{Entry, State};
use super::streams::Streams;
use super::{Action, Regulator};
use crate::feasibility::{self, Arrivals, Limits, Owners};
use crate::profile::{Moments, PROFILE_SIZES, Profile};
use crate::queue::Turn;
use crate::rate::{Owner, Share};

/// Standard deviations of service times that are kept free before the deadlines of the only owner.
const SLACK_ONE_DEVIATIONS: f64 = 2.0;
/// Standard deviations of service times that are kept free before the deadlines of several owners, who also wait for
/// each other.
const SLACK_SEVERAL_DEVIATIONS: f64 = 2.5;
/// Standard deviations that are kept free before the deadline of what is read ahead: a late extent stops all reads of
/// its stream.
const SLACK_FETCH_DEVIATIONS: f64 = 3.0;
/// Waiting requests that are considered for the next place in the device.
const CANDIDATES_MAX: usize = 16;
/// Part of the patience, a quarter, from which on the first request of others is no longer passed over by later ones.
const PATIENCE_DIVISOR: u64 = 4;
/// Deadlines that are considered; a device cannot serve more owners within the time of its longest queue.
const DEADLINES_MAX: usize = 64;
/// The service of a request in progress is assumed to take at least this part of its mean from now on.
const SERVICE_REST_MIN_SHARE: f64 = 0.3;
/// Part of its ideal time, a thirty-second, for which the next request of an owner is expected after a reply.
const TURNAROUND_DIVISOR: u64 = 32;
/// Longest time for which it is expected.
const TURNAROUND_MAX: Nanos = Nanos(1_000_000);

/// State of admission by the profile.
#[derive(Clone, Debug)]
pub(super) struct Planned {
    profile: Arc<Profile>,
    /// Relative error of the profile.
    error: f64,
    /// Owners whose rates are guaranteed.
    granted: BTreeMap<Owner, (Share, Arrivals)>,
    /// Limits at which they can be kept.
    limits: Limits,
    /// Extents that are read ahead for owners that read sequentially.
    pub(super) streams: Streams,
    /// End of the last request that the device was given.
    head: Option<Lba>,
    /// When the device was last given a request of others, or a piece of one.
    others_at: Nanos,
    /// Time beyond that of reads of 4 KiB that the requests in the device take for their sizes and operations.
    pub(super) beyond: Moments,
    /// Requests of others in the device by their sizes, if it serves several at once.
    pub(super) parallel: Option<Admitted>,
}

/// A part of a request that may be issued.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) id: RequestId,
    pub(super) start: Lba,
    pub(super) op: Op,
    pub(super) size: Bytes,
}

impl Planned {
    pub(super) fn new(profile: Arc<Profile>, error: f64) -> Planned {
        let (granted, limits) = (BTreeMap::new(), Limits::NONE);
        let parallel = profile.beside.is_some().then(Admitted::default);
        Planned {
            profile,
            error,
            granted,
            limits,
            streams: Streams::default(),
            head: None,
            others_at: Nanos::ZERO,
            beyond: Moments::default(),
            parallel,
        }
    }

    pub(super) fn limits(&self) -> Limits {
        self.limits
    }

    /// Returns whether reads that continue each other take far less than others, so that reading ahead is worth while.
    pub(super) fn has_cheap_streams(&self) -> bool {
        self.parallel.is_none() && self.profile.continuing.mean < self.profile.reads[1].mean / 2.0
    }

    pub(super) fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Returns the limits at which the rates are kept that are guaranteed if `owner` gets this one.
    pub(super) fn limits_with(&self, owner: Owner, share: Share, arrivals: Arrivals) -> Option<Limits> {
        let mut granted = self.granted.clone();
        granted.insert(owner, (share, arrivals));
        self.limits_of(&granted)
    }

    fn limits_of(&self, granted: &BTreeMap<Owner, (Share, Arrivals)>) -> Option<Limits> {
        let mut owners = Owners::default();
        granted.values().for_each(|&(share, arrivals)| owners.add(share, arrivals));
        feasibility::limits(&self.profile, self.error, &owners)
    }

    /// Records that the rate of `owner` is guaranteed, or no longer so.
    pub(super) fn grant(&mut self, owner: Owner, granted: Option<(Share, Arrivals)>) {
        match granted {
            Some(rate) => self.granted.insert(owner, rate),
            None => self.granted.remove(&owner),
        };
        self.limits =
            self.limits_of(&self.granted).expect("what was granted can be kept, and any part of it");
    }

    /// Returns the service time of an access, from which its ideal time is computed.
    pub(super) fn service(&self, op: Op, size: Bytes) -> Nanos {
        Nanos(self.profile.random(op, size).mean as u64)
    }

    fn sectors(&self, size: Bytes) -> Sectors {
        Sectors(size.0.div_ceil(self.profile.sector.0.max(1)))
    }

    fn end_of(&self, piece: &Piece) -> Lba {
        Lba(piece.start.0 + self.sectors(piece.size).0)
    }

    /// Returns the time beyond that of a random read of 4 KiB.
    pub(super) fn beyond(&self, op: Op, size: Bytes) -> Moments {
        self.profile.random(op, size) - self.profile.random(Op::Read, PROFILE_SIZES[0])
    }

    /// Returns when a request of others that has exhausted its patience goes next: not before others have had nothing
    /// for half as long. Where the rates leave little, all wait longer than that, and cannot be helped one by one.
    pub(super) fn overdue_at(&self, exhausted: Nanos, patience: Nanos) -> Nanos {
        exhausted.max(self.others_at.saturating_add(patience / 2))
    }

    /// Records that the device was given a request of others.
    pub(super) fn gave_others(&mut self, now: Nanos) {
        self.others_at = now;
    }

    /// Records that the device was given `size` bytes of a request at `offset` from its first sector.
    pub(super) fn issued(&mut self, start: Lba, offset: Bytes, op: Op, size: Bytes) {
        self.beyond = self.beyond + self.beyond(op, size);
        if size == Bytes(0) {
            return;
        }
        self.head = Some(Lba(start.0 + self.sectors(offset).0 + self.sectors(size).0));
    }

    /// Records that the device has ended `size` bytes of a request.
    pub(super) fn left(&mut self, op: Op, size: Bytes, is_empty: bool) {
        self.beyond = if is_empty { Moments::default() } else { self.beyond - self.beyond(op, size) };
    }
}

/// Returns for how long after a reply the next request of an owner is expected.
fn turnaround(ideal: Nanos) -> Nanos {
    (ideal / TURNAROUND_DIVISOR).min(TURNAROUND_MAX)
}

impl Regulator {
    /// Expects the next request of an owner at `arrival` at the earliest, the end of its present one.
    pub(super) fn expect_next(&mut self, owner: Owner, arrival: Nanos) {
        let (Some(planned), Some(member)) = (&self.planned, self.members.get(&owner)) else { return };
        if member.in_stream {
            // If it is an access after all, it is one at any moment.
            return self.presence.think(owner, member.share, self.now);
        }
        let shortest = member.rate.ideal(planned.profile.service());
        let until = arrival.saturating_add(turnaround(shortest));
        self.presence.expect(owner, member.share, until, arrival, arrival.saturating_add(shortest));
    }

    /// Issues what may be issued, by the profile.
    pub(super) fn issue_planned(&mut self, out: &mut Vec<Action>) {
        while self.device.len() < self.settings.depth as usize {
            let Some((piece, overdue)) = self.next_piece() else { break };
            self.hand_over(piece.id, piece.size, overdue, out);
        }
    }

    fn next_piece(&self) -> Option<(Piece, bool)> {
        let planned = self.planned.as_ref().expect("it has a profile");
        let largest = self.largest_piece(planned);
        let first = self.queue.first_other();
        if let Some(turn) =
            first.filter(|turn| self.device.overdue == 0 && self.overdue_at(*turn) <= self.now)
        {
            return Some((self.piece_of(turn.id, planned.limits.piece), true));
        }
        if let Some(parallel) = &planned.parallel {
            return self.next_in_parallel(planned, parallel).map(|piece| (piece, false));
        }
        let owner = self.next_of_owners();
        // Without any other process's request nothing can be preferred to an owner's.
        let piece = first.and_then(|_| self.next_of_others(planned, largest, owner.is_some()));
        piece
            .or_else(|| owner.filter(|piece| self.device.len() == 0 || self.fits(planned, piece, piece.size)))
            .map(|piece| (piece, false))
    }

    /// Returns the largest piece that may be issued now.
    pub(super) fn largest_piece(&self, planned: &Planned) -> Bytes {
        if self.presence.thinking().is_empty() && self.presence.shortest_away().is_none() {
            return Bytes(u64::MAX);
        }
        planned.limits.piece
    }

    /// Returns the requests of others that may be the next. The first is not passed over for ever: far or large ones fit
    /// seldom.
    pub(super) fn candidates(&self) -> Vec<Turn> {
        let is_old = |turn: &Turn| turn.arrived + self.settings.patience / PATIENCE_DIVISOR <= self.now;
        let considered =
            if self.queue.first_other().is_some_and(|first| is_old(&first)) { 1 } else { CANDIDATES_MAX };
        self.queue.others().take(considered).collect()
    }

    fn next_of_others(&self, planned: &Planned, largest: Bytes, owner_waits: bool) -> Option<Piece> {
        let candidates = self.candidates();
        let mut rests = candidates.iter().map(|turn| self.piece_of(turn.id, Bytes(u64::MAX)));
        let may = |piece: &Piece, size: Bytes| {
            self.is_within_limits(planned, piece) && self.fits(planned, piece, size)
        };
        let cut = |rest: Piece, largest: Bytes| Piece { size: rest.size.min(largest), ..rest };
        if let Some(whole) = rests.clone().find(|rest| may(&cut(*rest, largest), rest.size)) {
            return Some(cut(whole, largest));
        }
        let small = |rest| cut(rest, planned.limits.piece);
        let begun = rests.clone().map(small).find(|piece| Some(piece.start) == planned.head);
        if let Some(piece) = begun.filter(|piece| may(piece, piece.size)) {
            return Some(piece);
        }
        if owner_waits {
            return None;
        }
        rests.find_map(|rest| Some(small(rest)).filter(|piece| may(piece, piece.size)))
    }

    /// Returns the request of an owner with the earliest deadline that waits.
    pub(super) fn next_of_owners(&self) -> Option<Piece> {
        let waits = |id: &RequestId| self.requests[id].state == State::Waiting;
        let id = self.deadlines.iter().map(|&(.., id)| id).take(DEADLINES_MAX).find(waits);
        id.or_else(|| self.queue.first_regulated()).map(|id| self.piece_of_owner(id))
    }

    /// Returns the next piece of an owner's request; requests are split for the sake of other owners.
    fn piece_of_owner(&self, id: RequestId) -> Piece {
        let planned = self.planned.as_ref().expect("it has a profile");
        self.piece_of(id, if self.members.len() > 1 { planned.limits.piece } else { Bytes(u64::MAX) })
    }

    pub(super) fn piece_of(&self, id: RequestId, largest: Bytes) -> Piece {
        let planned = self.planned.as_ref().expect("it has a profile");
        let Entry { op, start, size, done, .. } = self.requests[&id];
        let start = Lba(start.0 + planned.sectors(done).0);
        Piece { id, start, op, size: Bytes(size.0 - done.0).min(largest) }
    }

    /// Returns whether the device may have `piece` while an owner may send a request at any moment.
    fn is_within_limits(&self, planned: &Planned, piece: &Piece) -> bool {
        let load = self.device.len() as u32 + 1;
        let within = |depth: u32, largest: Bytes| {
            if load == 1 {
                return piece.size <= largest;
            }
            let beyond = planned.beyond + planned.beyond(piece.op, piece.size);
            let most = planned.profile.batch(depth).mean;
            load <= depth && planned.profile.batch(load).mean + beyond.mean <= most.max(1.0) * 1.001
        };
        if !self.presence.thinking().is_empty() {
            return within(planned.limits.depth, planned.limits.piece);
        }
        match self.presence.shortest_away() {
            Some((allowed, _)) => {
                let beyond = planned.beyond + planned.beyond(piece.op, piece.size);
                within(planned.limits.depth, planned.limits.piece)
                    || (planned.profile.behind(load) + beyond).bound(1.0) <= allowed
            }
            None => true,
        }
    }

    /// Returns whether all owners' requests that are known, or whose earliest arrival is known, end in time if the
    /// device is given the first `size` bytes from the start of `piece`.
    fn fits(&self, planned: &Planned, piece: &Piece, size: Bytes) -> bool {
        let profile = &planned.profile;
        let in_device = self.device.len();
        let (mut finish, mut variance, mut head);
        if in_device == 0 {
            let service = profile.from_to(planned.head, Some(piece.start), piece.op, size);
            finish = self.now.0 as f64 + service.mean;
            variance = service.variance;
            head = Some(planned.end_of(&Piece { size, ..*piece }));
        } else {
            let batch = profile.batch(in_device as u32 + 1) + planned.beyond + planned.beyond(piece.op, size);
            let since = self.device.busy_since.0 as f64 + batch.mean;
            let least = profile.reads[0].mean * (in_device as f64 * 0.5 + SERVICE_REST_MIN_SHARE);
            finish = since.max(self.now.0 as f64 + least);
            variance = batch.variance;
            head = None;
        }
        let slack = if self.members.len() > 1 { SLACK_SEVERAL_DEVIATIONS } else { SLACK_ONE_DEVIATIONS };
        let mut known = self.deadlines.iter().filter(|&&(.., id)| id != piece.id).peekable();
        let mut expected = self.presence.expected().peekable();
        for _ in 0..DEADLINES_MAX {
            let first = known.peek().map(|(deadline, ..)| *deadline);
            let next = expected.peek().map(|(_, deadline)| *deadline);
            let (deadline, is_fetch) = match (first, next) {
                (None, None) => return true,
                (Some(first), next) if next.is_none_or(|next| first <= next) => {
                    let &(deadline, _, id) = known.next().expect("it was seen");
                    let entry = &self.requests[&id];
                    let rest = match entry.state {
                        State::InDevice(stay) => Bytes(entry.size.0 - entry.done.0 - stay.piece.0),
                        _ => Bytes(entry.size.0 - entry.done.0),
                    };
                    if entry.state == State::Waiting || rest > Bytes(0) {
                        let start = Lba(entry.start.0 + planned.sectors(Bytes(entry.size.0 - rest.0)).0);
                        let service = profile.from_to(head, Some(start), entry.op, rest);
                        (finish, variance) = (finish + service.mean, variance + service.variance);
                        head = Some(planned.end_of(&Piece { id, start, op: entry.op, size: rest }));
                    }
                    (deadline, planned.streams.is_fetch(id))
                }
                _ => {
                    let (arrival, deadline) = expected.next().expect("it was seen");
                    let service = profile.random(Op::Read, PROFILE_SIZES[0]);
                    if finish + slack * variance.max(0.0).sqrt() <= arrival.0 as f64 {
                        // It finds the device as it would without the piece.
                        (finish, variance, head) = (arrival.0 as f64 + service.mean, service.variance, None);
                        continue;
                    }
                    finish = finish.max(arrival.0 as f64) + service.mean;
                    (variance, head) = (variance + service.variance, None);
                    (deadline, false)
                }
            };
            let slack = if is_fetch { SLACK_FETCH_DEVIATIONS } else { slack };
            if finish + slack * variance.max(0.0).sqrt() > deadline.0 as f64 {
                return false;
            }
        }
        true
    }
}
