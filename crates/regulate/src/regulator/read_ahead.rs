//! Serves sequential reads of owners from extents that are read ahead for them.

use sakiyomi_model::{Bytes, Nanos, Op, Outcome, RequestId, Sectors};

use super::request::{Entry, Promise, State};
use super::streams::{Ended, Extent, READ_AHEAD_EXTENT, Served};
use super::{Action, Regulator};
use crate::rate::Owner;
use crate::rate::Rate;
use crate::service::Kind;

impl Regulator {
    /// Takes the arrival of an owner's read that continues a stream; returns whether it did.
    pub(super) fn arrive_in_stream(&mut self, id: RequestId, entry: &Entry, out: &mut Vec<Action>) -> bool {
        let is_read = entry.op == Op::Read && entry.size > Bytes(0);
        let Some(planned) = self.planned.as_mut().filter(|planned| is_read && planned.has_cheap_streams())
        else {
            return false;
        };
        let sector = planned.profile().sector;
        let sectors = Sectors(entry.size.0 / sector.0.max(1));
        let place = planned.streams.place(entry.owner, entry.start, sectors, sector);
        let share = entry.size.0 as f64 / READ_AHEAD_EXTENT.0 as f64;
        let service = if place.is_continuing {
            Nanos((planned.profile().random(Op::Read, READ_AHEAD_EXTENT).mean * share) as u64)
        } else {
            planned.service(Op::Read, entry.size)
        };
        let mut entry = *entry;
        if let Some(member) = self.members.get_mut(&entry.owner) {
            member.in_stream = place.is_continuing;
        }
        if place.served != Served::ByDevice {
            entry.regulated = Some(self.give_deadline(&entry, service));
            self.requests.insert(id, entry);
            self.by_owner.insert((entry.owner, id));
        }
        match place.served {
            Served::ByDevice => {}
            Served::FromFetched => self.completed(id, entry, Outcome::Done, out),
            Served::ByFetch { fetch, end } => {
                self.requests.insert(id, Entry { state: State::AwaitsFetch(fetch), ..entry });
                if let Some(planned) = &mut self.planned {
                    planned.streams.await_fetch(fetch, id, end);
                }
                let deadline = entry.regulated.expect("it has a deadline").deadline;
                self.hurry(fetch, deadline);
            }
        }
        place.served != Served::ByDevice
    }

    /// Reads ahead for the owner's latest stream.
    pub(super) fn read_ahead(&mut self, owner: Owner, out: &mut Vec<Action>) {
        let Some(member) = self.members.get(&owner).copied() else { return };
        while let Some(planned) = &mut self.planned {
            let (sector, capacity) = (planned.profile().sector, planned.profile().capacity);
            let Some(extent) = planned.streams.next_extent(owner, sector, capacity) else { return };
            let Extent { id, start, sectors, ahead, read } = extent;
            let size = sectors.to_bytes(sector);
            let ideal = match member.rate {
                Rate::Percent(_) => member.rate.ideal(planned.service(Op::Read, READ_AHEAD_EXTENT)),
                // The time of a read, for each read of the extent.
                Rate::Every(time) => time * (READ_AHEAD_EXTENT.0 / read.to_bytes(sector).0.max(1)).max(1),
            };
            let until_there = ideal.0 as f64 * ahead.to_bytes(sector).0 as f64 / READ_AHEAD_EXTENT.0 as f64;
            let deadline =
                member.until.saturating_add(Nanos(until_there as u64)).max(self.now.saturating_add(ideal));
            let entry = Entry {
                owner,
                kind: Kind::of(Op::Read, size),
                op: Op::Read,
                start,
                size,
                done: Bytes(0),
                arrived: self.now,
                regulated: Some(Promise {
                    rate: member.rate,
                    share: member.share,
                    ideal,
                    deadline,
                    surprise: false,
                }),
                state: State::Waiting,
            };
            self.requests.insert(id, entry);
            out.push(Action::Fetch { id, owner, start, size });
            self.wait(id, &entry);
        }
    }

    /// Moves the deadline of an extent to `deadline`, if it is later.
    fn hurry(&mut self, fetch: RequestId, deadline: Nanos) {
        let Some(&entry) = self.requests.get(&fetch) else { return };
        let Some(mut regulated) = entry.regulated.filter(|regulated| regulated.deadline > deadline) else {
            return;
        };
        self.deadlines.remove(&(regulated.deadline, regulated.share, fetch));
        regulated.deadline = deadline;
        self.deadlines.insert((deadline, regulated.share, fetch));
        self.requests.insert(fetch, Entry { regulated: Some(regulated), ..entry });
    }

    /// Takes the end of an extent that was read ahead, or was not.
    pub(super) fn fetch_ended(&mut self, id: RequestId, outcome: Outcome, out: &mut Vec<Action>) {
        self.requests.remove(&id);
        out.push(Action::Fetched { id });
        let Some(planned) = &mut self.planned else { return };
        let Ended { served, unserved, moved } = planned.streams.ended(id, outcome == Outcome::Done);
        let awaits = |regulator: &Regulator, request: &RequestId| {
            let entry = regulator.requests.get(request).copied();
            entry.filter(|entry| entry.state == State::AwaitsFetch(id))
        };
        for request in served {
            if let Some(entry) = awaits(self, &request) {
                self.completed(request, entry, Outcome::Done, out);
            }
        }
        for request in unserved {
            if let Some(entry) = awaits(self, &request) {
                let entry = Entry { state: State::Waiting, ..entry };
                self.requests.insert(request, entry);
                self.wait(request, &entry);
            }
        }
        let Some((next, requests)) = moved else { return };
        for request in requests {
            if let Some(entry) = awaits(self, &request) {
                self.requests.insert(request, Entry { state: State::AwaitsFetch(next), ..entry });
                self.hurry(next, entry.regulated.expect("it has a deadline").deadline);
            }
        }
    }

    /// Stops reading ahead for an owner; its reads that wait for it go to the device.
    pub(super) fn stop_reading_ahead(&mut self, owner: Owner, out: &mut Vec<Action>) {
        let Some(planned) = &mut self.planned else { return };
        for id in planned.streams.leave(owner) {
            let Some(&entry) = self.requests.get(&id) else { continue };
            if entry.state == State::Waiting {
                self.wait_no_more(id, &entry);
                self.fetch_ended(id, Outcome::Cancelled, out);
            }
        }
    }

    /// Returns whether the request is an extent that is read ahead.
    pub(super) fn is_fetch(&self, id: RequestId) -> bool {
        self.planned.as_ref().is_some_and(|planned| planned.streams.is_fetch(id))
    }
}
