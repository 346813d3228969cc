//! The requests in the device, and the choice of the next ones to issue.

use sakiyomi_model::{Bytes, Nanos, RequestId};

use super::request::{DeviceStay, Entry, State};
use super::{Action, Regulator};
use crate::gate::View;
use crate::queue::Turn;
use crate::settings::{GateSettings, Serves};

/// State of the device.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InDevice {
    pub(super) regulated: usize,
    pub(super) others: usize,
    pub(super) overdue: usize,
    /// Time since which it has been working on its current request.
    pub(super) busy_since: Nanos,
    /// Number of requests from which it could choose then.
    pub(super) choice: usize,
    /// Serial service time of all its requests.
    pub(super) work: Nanos,
    /// Start of the current busy period, and busy time before it.
    pub(super) began: Nanos,
    pub(super) busy: Nanos,
    /// Number of completed requests.
    pub(super) ended: u64,
}

impl InDevice {
    pub(super) fn len(&self) -> usize {
        self.regulated + self.others
    }
}

/// A write that ends within this part of the mean service time, an eighth, was cached and is not on the medium.
const CACHED_WRITE_DIVISOR: u64 = 8;

impl Regulator {
    /// Issues the requests that may be issued: first an unregulated one that has exceeded the patience, then the
    /// regulated ones, then as many others as the gate admits.
    pub(super) fn issue(&mut self, out: &mut Vec<Action>) {
        if self.planned.is_some() {
            return self.issue_planned(out);
        }
        while self.device.len() < self.settings.depth as usize {
            let other = self.queue.first_other();
            let overdue = other.filter(|turn| self.device.overdue == 0 && self.overdue_at(*turn) <= self.now);
            if let Some(turn) = overdue {
                self.hand_over_whole(turn.id, true, out);
            } else if let Some(id) = self.queue.first_regulated() {
                if !self.admits_regulated(id) {
                    break;
                }
                self.hand_over_whole(id, false, out);
            } else if let Some(turn) = other.filter(|turn| self.admits(*turn)) {
                self.hand_over_whole(turn.id, false, out);
            } else {
                break;
            }
        }
    }

    /// Returns whether a write must be on the medium before it ends, for the sake of owners. By the profile, writes of
    /// owners must be, too: what the device does later on its own has no place in a plan. One that serves several at once
    /// does that beside other requests.
    fn forces_writes(&self, is_regulated: bool) -> bool {
        match &self.planned {
            Some(planned) => planned.parallel.is_none() && self.presence.has_reserved(),
            None => !is_regulated && self.writes.are_forced() && self.presence.anybody(),
        }
    }

    fn admits_regulated(&self, id: RequestId) -> bool {
        let entry = &self.requests[&id];
        let own = entry.regulated.expect("it is regulated");
        let mut view = self.view();
        view.work += self.service.mean(entry.kind);
        self.gate.admits_regulated(&view, own.deadline, own.share)
    }

    fn admits(&self, turn: Turn) -> bool {
        // Without any rate all requests pass, unless the device is to be measured.
        let watched = !self.levels.is_empty() || self.settings.serves == Serves::Several;
        let few = self.service.wants_few().filter(|_| watched);
        if few.is_some_and(|few| self.device.len() >= few) {
            return false;
        }
        let mut view = self.view();
        view.work += self.service.mean(self.requests[&turn.id].kind);
        self.gate.admits(&view)
    }

    fn view(&self) -> View<'_> {
        View {
            now: self.now,
            busy_since: if self.device.len() == 0 { self.now } else { self.device.busy_since },
            in_device: self.device.len(),
            others_in_device: self.device.others,
            work: self.device.work,
            deadlines: &self.deadlines,
            presence: &self.presence,
            service: &self.service,
        }
    }

    fn hand_over_whole(&mut self, id: RequestId, overdue: bool, out: &mut Vec<Action>) {
        self.hand_over(id, self.requests[&id].size, overdue, out);
    }

    /// Issues the next `piece` bytes of a request.
    pub(super) fn hand_over(&mut self, id: RequestId, piece: Bytes, overdue: bool, out: &mut Vec<Action>) {
        let entry = self.requests[&id];
        let share = entry.regulated.map(|regulated| regulated.share);
        self.queue.remove(share, Turn { arrived: entry.arrived, id });
        if self.device.len() == 0 {
            (self.device.busy_since, self.device.began, self.device.choice) = (self.now, self.now, 1);
        }
        match share {
            Some(_) => self.device.regulated += 1,
            None => self.device.others += 1,
        }
        self.device.overdue += usize::from(overdue);
        let work = self.service.mean(entry.kind);
        self.device.work += work;
        let stay = DeviceStay {
            issued: self.now,
            piece,
            beside: self.device.len(),
            work,
            overdue,
            cancelled: false,
        };
        let state = State::InDevice(stay);
        self.requests.insert(id, Entry { state, ..entry });
        if let Some(planned) = &mut self.planned {
            planned.issued(entry.start, entry.done, entry.op, piece);
            if share.is_none() {
                planned.gave_others(self.now);
                planned.parallel.iter_mut().for_each(|parallel| parallel.issued(piece));
            }
        }
        let force = entry.kind.is_write() && self.forces_writes(share.is_some());
        out.push(Action::Issue { id, part: entry.done.0..entry.done.0 + piece.0, force });
    }

    pub(super) fn leave_device(&mut self, entry: &Entry, stay: DeviceStay) {
        match entry.regulated {
            Some(_) => self.device.regulated -= 1,
            None => self.device.others -= 1,
        }
        self.device.overdue -= usize::from(stay.overdue);
        self.device.work -= stay.work;
        if self.device.len() == 0 {
            self.device.busy += self.now - self.device.began;
        }
        if let Some(planned) = &mut self.planned {
            planned.left(entry.op, stay.piece, self.device.len() == 0);
            if entry.regulated.is_none() {
                planned.parallel.iter_mut().for_each(|parallel| parallel.left(stay.piece));
            }
        }
    }

    pub(super) fn overdue_at(&self, turn: Turn) -> Nanos {
        let exhausted = turn.arrived.saturating_add(self.settings.patience);
        match &self.planned {
            Some(planned) => planned.overdue_at(exhausted, self.settings.patience),
            None => exhausted,
        }
    }

    /// Returns whether a write ended before the medium could have done it, or while the medium was busy with another
    /// request.
    pub(super) fn taken_in(&self, entry: &Entry, stay: DeviceStay, bypassed: bool) -> bool {
        let paced =
            matches!(self.settings.gate, GateSettings::Deadline { .. }) && !self.service.serves_several();
        let medium = self.service.mean_of_all();
        let soon = self.now.saturating_sub(stay.issued) < medium / CACHED_WRITE_DIVISOR;
        paced && entry.kind.is_write() && (soon || bypassed)
    }

    /// Returns whether a request was done by the device's cache while the mechanism was busy with another: it was
    /// issued while the mechanism was working, and nothing else has ended since.
    pub(super) fn bypassed(&self, stay: DeviceStay) -> bool {
        !self.service.serves_several()
            && stay.beside > 1
            && stay.issued > self.device.busy_since
            && self.device.len() > 0
    }
}
