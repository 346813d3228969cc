//! Media transfers: when each sector passes under the head.
//!
//! A [`Plan`] is a sequence of pieces, each on one track. It always extends to the end of a track, beyond the sectors
//! requested so far, so that a continued read need not be planned again; its user decides where to stop.

mod supply;

use std::collections::VecDeque;

use sakiyomi_model::{Lba, Nanos};

use crate::geometry::{Geometry, Run};
use crate::servo::{Arm, Servo, Target};
use crate::usage::{Activity, Ledger};

pub(crate) use supply::{Arrival, Supply};

/// Geometry and servo of the drive.
#[derive(Clone, Copy)]
pub(crate) struct Mechanism<'a> {
    pub(crate) geometry: &'a Geometry,
    pub(crate) servo: &'a Servo,
}

/// Consecutive sectors on one track.
#[derive(Clone, Copy, Debug)]
struct Piece {
    run: Run,
    /// Time at which the first sector's leading edge is under the head.
    start: Nanos,
    /// Time at which the last sector's trailing edge is under the head.
    end: Nanos,
    /// Whether the read starts in the middle of the piece, so that it is complete only at the end.
    wrapped: bool,
}

/// Positioning to the first sector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Positioning {
    /// Arm movement, settling, head switch.
    pub(crate) travel: Nanos,
    /// Rotational latency.
    pub(crate) wait: Nanos,
}

/// A transfer from a first sector on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    pieces: VecDeque<Piece>,
    write: bool,
    supply: Supply,
    /// First address that is not planned.
    planned_end: u64,
}

impl Plan {
    /// Plans the access to `lba` from the arm's position, and on to the end of the track.
    pub(crate) fn begin(
        &mut self,
        mechanism: Mechanism<'_>,
        ledger: &mut Ledger,
        now: Nanos,
        arm: Arm,
        access: Access,
    ) -> Positioning {
        self.pieces.clear();
        self.write = access.write;
        self.supply = access.supply;
        let Mechanism { geometry, servo } = mechanism;
        let mut run = geometry.run(Lba(access.lba), u64::MAX);
        let travel = servo.travel(servo.phase(now), arm, Target::from(&run), access.write);
        // A write settles last, once its data is available.
        let settle = Nanos(if access.write { servo.write_settle().min(travel).into() } else { 0 });
        let settled =
            (now + Nanos(u64::from(travel)) - settle).max(self.supply.begin).max(self.supplied(&run, servo))
                + settle;
        let wait = Nanos(u64::from(servo.rotational_latency(servo.phase(settled), 0, Target::from(&run))));
        let mut start = settled + wait;
        let mut wrapped = false;
        if access.on_arrival {
            (run, start, wrapped) = on_arrival(mechanism, run, settled, wait, access.wanted);
        }
        start += access.lost;
        let activity = self.seeking();
        ledger.plan(now, start, activity);
        self.push(ledger, servo, run, start, wrapped);
        Positioning { travel: settled - now, wait: start - settled }
    }

    /// Extends the plan to at least `end`.
    pub(crate) fn cover(&mut self, mechanism: Mechanism<'_>, ledger: &mut Ledger, end: u64) {
        let Mechanism { geometry, servo } = mechanism;
        while self.planned_end < end {
            let last = self.last();
            let (now, arm) = (last.end, Arm { cylinder: last.run.cylinder, head: last.run.head });
            let run = geometry.run(Lba(self.planned_end), u64::MAX);
            let travel = Nanos(u64::from(servo.step(arm, Target::from(&run), self.write)));
            let settled = (now + travel).max(self.supplied(&run, servo));
            let wait = servo.rotational_latency(servo.phase(settled), 0, Target::from(&run));
            let start = settled + Nanos(u64::from(wait));
            ledger.plan(now, start, self.seeking());
            self.push(ledger, servo, run, start, false);
        }
    }

    /// Returns the earliest time at which a run may pass: no sector before its data has arrived.
    fn supplied(&self, run: &Run, servo: &Servo) -> Nanos {
        let bounds = self.supply.arrivals.iter().map(|arrival| arrival.allows(run, servo.revolution()));
        bounds.max().unwrap_or_default()
    }

    fn push(&mut self, ledger: &mut Ledger, servo: &Servo, run: Run, start: Nanos, wrapped: bool) {
        let span = if wrapped { servo.revolution() } else { run.passing(run.sectors, servo.revolution()) };
        let end = start + span;
        ledger.plan(start, end, if self.write { Activity::WriteData } else { Activity::ReadData });
        self.pieces.push_back(Piece { run, start, end, wrapped });
        self.planned_end = run.lba.0 + u64::from(run.sectors);
    }

    fn seeking(&self) -> Activity {
        if self.write { Activity::WriteSeek } else { Activity::ReadSeek }
    }

    fn last(&self) -> &Piece {
        self.pieces.back().expect("a plan that was begun has a piece")
    }

    /// Returns the first address that is transferred.
    pub(crate) fn first(&self) -> u64 {
        self.pieces.front().expect("a plan that was begun has a piece").run.lba.0
    }

    /// Returns when everything before `end`, which lies within the plan, has passed under the head.
    pub(crate) fn time_at(&self, servo: &Servo, end: u64) -> Nanos {
        let piece = self.piece_before(end);
        if piece.wrapped {
            return piece.end;
        }
        piece.start + piece.run.passing(end.saturating_sub(piece.run.lba.0) as u32, servo.revolution())
    }

    /// Returns when the leading edge of `lba` is under the head; for a wrapped piece, when that begins.
    pub(crate) fn begins_at(&self, servo: &Servo, lba: u64) -> Nanos {
        let piece = self.piece_before(lba + 1);
        let before = if piece.wrapped { 0 } else { lba.saturating_sub(piece.run.lba.0) as u32 };
        piece.start + piece.run.passing(before, servo.revolution())
    }

    /// Returns the first address that has not completely passed at `now`.
    pub(crate) fn progress(&self, servo: &Servo, now: Nanos) -> u64 {
        for piece in &self.pieces {
            if now < piece.end {
                let partial = !piece.wrapped && now > piece.start;
                let passed =
                    if partial { piece.run.passed(now - piece.start, servo.revolution()) } else { 0 };
                return piece.run.lba.0 + u64::from(passed);
            }
        }
        self.planned_end
    }

    /// Returns the first address before which the transfer can stop, at `now` or later.
    pub(crate) fn stop_at(&self, servo: &Servo, now: Nanos) -> u64 {
        let passed = self.progress(servo, now);
        let begun = self.pieces.iter().find(|piece| {
            piece.run.lba.0 <= passed && passed < piece.run.lba.0 + u64::from(piece.run.sectors)
        });
        match begun {
            Some(piece) if piece.wrapped && now > piece.start => {
                piece.run.lba.0 + u64::from(piece.run.sectors)
            }
            Some(piece) if now > piece.start && self.time_at(servo, passed) < now => passed + 1,
            _ => passed,
        }
    }

    /// Returns the arm's position when the transfer stops before `end`.
    pub(crate) fn arm_at(&self, end: u64) -> Arm {
        let run = &self.piece_before(end).run;
        Arm { cylinder: run.cylinder, head: run.head }
    }

    /// Drops pieces that ended before `now`: the head has been sent to the next piece, which it reaches in any case.
    /// This bounds the plan of an endless stream.
    pub(crate) fn forget(&mut self, now: Nanos) {
        while self.pieces.len() > 1 && self.pieces[0].end < now {
            self.pieces.pop_front();
        }
    }

    /// Returns the piece that contains the sector before `end`.
    fn piece_before(&self, end: u64) -> &Piece {
        let found = self.pieces.iter().rev().find(|piece| piece.run.lba.0 < end);
        found.unwrap_or_else(|| self.pieces.front().expect("a plan that was begun has a piece"))
    }
}

/// Parameters of [`Plan::begin`].
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pub(crate) lba: u64,
    /// Sectors from `lba` on that are requested.
    pub(crate) wanted: u64,
    pub(crate) write: bool,
    /// Arrival of a write's data in the buffer.
    pub(crate) supply: Supply,
    /// Whether to read sectors that pass before the first one as well.
    pub(crate) on_arrival: bool,
    /// Delay because the arm is not on track at first.
    pub(crate) lost: Nanos,
}

/// Reads a track from the position at which the head settles: either sectors before the requested ones pass first and
/// are read too, or the head is within the requested ones and reads the rest in the next revolution.
fn on_arrival(
    mechanism: Mechanism<'_>,
    run: Run,
    settled: Nanos,
    wait: Nanos,
    wanted: u64,
) -> (Run, Nanos, bool) {
    let revolution = mechanism.servo.revolution();
    let edge = |sector: u64| sector * revolution.0 / u64::from(run.track_sectors);
    let start = settled + wait;
    // Number of whole sectors of the run that have passed when the head settles.
    let on_track = u64::from(run.sectors).min(wanted);
    let inside = edge(u64::from(run.first) + on_track) - edge(u64::from(run.first));
    if wait + Nanos(inside) > revolution {
        let into = revolution - wait;
        let passed = run.passed(into, revolution);
        let boundary = if run.passing(passed, revolution) == into { passed } else { passed + 1 };
        if u64::from(boundary) < on_track {
            // Reading starts at the next sector edge and takes a full revolution from there.
            let start = settled + (run.passing(boundary, revolution) - into);
            return (Run { sectors: on_track as u32, ..run }, start, true);
        }
    }
    // Sector edges are rounded, so the last candidate is checked exactly.
    let lead = |sectors: u32| Nanos(edge(u64::from(run.first)) - edge(u64::from(run.first - sectors)));
    let most = wait.0 * u64::from(run.track_sectors) / revolution.0 + 1;
    let mut passing = most.min(u64::from(run.before)) as u32;
    if lead(passing) > wait {
        passing -= 1;
    }
    if passing == 0 {
        return (run, start, false);
    }
    let first = run.first - passing;
    let earlier = Run {
        lba: Lba(run.lba.0 - u64::from(passing)),
        sectors: run.sectors + passing,
        first,
        angle: Nanos((run.track_angle.0 + edge(u64::from(first))) % revolution.0),
        before: run.before - passing,
        ..run
    };
    (earlier, start - lead(passing), false)
}

#[cfg(test)]
mod tests;
