//! Transfers as the platters turn: which sector passes under the head when.
//!
//! A [`Plan`] is a row of pieces, each on one track. It always runs to the end of a track, further than anyone has
//! asked for yet, so that a read that is continued need not be planned anew; whoever uses it says where to stop.

use std::collections::VecDeque;

use sakiyomi_model::{Lba, Nanos};

use crate::geometry::{Geometry, Run};
use crate::servo::{Arm, Servo, Target};
use crate::usage::{Activity, Ledger};

/// The mechanism's parts, as a plan needs them.
#[derive(Clone, Copy)]
pub(crate) struct Mechanism<'a> {
    pub(crate) geometry: &'a Geometry,
    pub(crate) servo: &'a Servo,
}

/// Sectors one behind the other on one track.
#[derive(Clone, Copy, Debug)]
struct Piece {
    run: Run,
    /// When the first sector's leading edge is under the head.
    start: Nanos,
    /// When the last sector's trailing edge is.
    end: Nanos,
    /// The head came down inside the piece: all of it is there only at the end.
    wrapped: bool,
}

/// How the head gets to the first sector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Positioning {
    /// Arm movement, settling, head switch.
    pub(crate) travel: Nanos,
    /// Until the sector comes round.
    pub(crate) wait: Nanos,
}

/// A transfer from a first sector onwards.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    pieces: VecDeque<Piece>,
    write: bool,
    supply: Supply,
    /// The first address not planned.
    planned_end: u64,
}

impl Plan {
    /// Plans from the arm's place to `lba` and on to the end of its track.
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
        // For a write the head settles once there is something to write.
        let settle = Nanos(if access.write { servo.write_settle().min(travel).into() } else { 0 });
        let settled =
            (now + Nanos(u64::from(travel)) - settle).max(self.supply.begin).max(self.supplied(&run, servo))
                + settle;
        let wait = Nanos(u64::from(servo.wait(servo.phase(settled), 0, Target::from(&run))));
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

    /// Makes sure that everything before `end` is planned.
    pub(crate) fn cover(&mut self, mechanism: Mechanism<'_>, ledger: &mut Ledger, end: u64) {
        let Mechanism { geometry, servo } = mechanism;
        while self.planned_end < end {
            let last = self.last();
            let (now, arm) = (last.end, Arm { cylinder: last.run.cylinder, head: last.run.head });
            let run = geometry.run(Lba(self.planned_end), u64::MAX);
            let travel = Nanos(u64::from(servo.step(arm, Target::from(&run), self.write)));
            let settled = (now + travel).max(self.supplied(&run, servo));
            let wait = servo.wait(servo.phase(settled), 0, Target::from(&run));
            let start = settled + Nanos(u64::from(wait));
            ledger.plan(now, start, self.seeking());
            self.push(ledger, servo, run, start, false);
        }
    }

    /// From when on a run may pass: no sector of it before its data has come.
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

    /// The first address that is transferred.
    pub(crate) fn first(&self) -> u64 {
        self.pieces.front().expect("a plan that was begun has a piece").run.lba.0
    }

    /// When everything before `end` has passed under the head. `end` lies within the plan.
    pub(crate) fn time_at(&self, servo: &Servo, end: u64) -> Nanos {
        let piece = self.piece_before(end);
        if piece.wrapped {
            return piece.end;
        }
        piece.start + piece.run.passing(end.saturating_sub(piece.run.lba.0) as u32, servo.revolution())
    }

    /// When the leading edge of `lba` is under the head; of a piece that is read from its middle, when that begins.
    pub(crate) fn begins_at(&self, servo: &Servo, lba: u64) -> Nanos {
        let piece = self.piece_before(lba + 1);
        let before = if piece.wrapped { 0 } else { lba.saturating_sub(piece.run.lba.0) as u32 };
        piece.start + piece.run.passing(before, servo.revolution())
    }

    /// The first address that has not wholly passed at `now`.
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

    /// The first address at whose leading edge the transfer can stop, at `now` or after it.
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

    /// Where the arm stands when the transfer stops before `end`.
    pub(crate) fn arm_at(&self, end: u64) -> Arm {
        let run = &self.piece_before(end).run;
        Arm { cylinder: run.cylinder, head: run.head }
    }

    /// Forgets pieces that ended before `now`, when the head had been sent to the next one, which it can only leave once
    /// it is there. An endless stream so needs no endless plan.
    pub(crate) fn forget(&mut self, now: Nanos) {
        while self.pieces.len() > 1 && self.pieces[0].end < now {
            self.pieces.pop_front();
        }
    }

    /// The piece in which the sector before `end` lies.
    fn piece_before(&self, end: u64) -> &Piece {
        let found = self.pieces.iter().rev().find(|piece| piece.run.lba.0 < end);
        found.unwrap_or_else(|| self.pieces.front().expect("a plan that was begun has a piece"))
    }
}

/// When a write's data comes into the buffer. Without any (a read), all is there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Supply {
    /// Not before this is it written.
    pub(crate) begin: Nanos,
    /// What is still to come. All else is there.
    pub(crate) arrivals: Vec<Arrival>,
}

/// Sectors that come from the host one behind the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// The first of them.
    pub(crate) start: u64,
    /// The first sector after them.
    pub(crate) end: u64,
    /// When the last of them is there.
    pub(crate) last: Nanos,
    /// The time between two sectors, in nanoseconds.
    pub(crate) per_sector: f64,
}

impl Arrival {
    /// When the sector before `end` is there.
    fn there(&self, end: u64) -> Nanos {
        self.last.saturating_sub(Nanos((self.per_sector * (self.end - end) as f64) as u64))
    }

    /// What of it lies before `end`.
    pub(crate) fn until(self, end: u64) -> Arrival {
        let end = end.min(self.end);
        Arrival { end, last: self.there(end), ..self }
    }

    /// From when on a run may pass: the first and the last sector of it that come have come in time then, and so have
    /// those between them.
    fn allows(&self, run: &Run, revolution: Nanos) -> Nanos {
        let (first, end) = (self.start.max(run.lba.0), self.end.min(run.lba.0 + u64::from(run.sectors)));
        if first >= end {
            return Nanos::ZERO;
        }
        let passing = |until: u64| run.passing((until - run.lba.0) as u32, revolution);
        let begins = self.there(first + 1).saturating_sub(passing(first));
        begins.max(self.there(end).saturating_sub(passing(end)))
    }
}

/// What a plan begins with.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pub(crate) lba: u64,
    /// How many sectors are wanted for sure, from `lba`.
    pub(crate) wanted: u64,
    pub(crate) write: bool,
    /// When the buffer has a write's data.
    pub(crate) supply: Supply,
    /// Read what passes before the first sector as well.
    pub(crate) on_arrival: bool,
    /// What is lost when the arm is not on track at first.
    pub(crate) lost: Nanos,
}

/// Reads a track from where the head comes down: either sectors before the wanted ones pass first and are taken
/// along, or the wanted ones are passing already and are taken from the middle, the rest a turn later.
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
    // How many whole sectors of the run have already passed when the head settles.
    let on_track = u64::from(run.sectors).min(wanted);
    let inside = edge(u64::from(run.first) + on_track) - edge(u64::from(run.first));
    if wait + Nanos(inside) > revolution {
        let into = revolution - wait;
        let passed = run.passed(into, revolution);
        let boundary = if run.passing(passed, revolution) == into { passed } else { passed + 1 };
        if u64::from(boundary) < on_track {
            // Reading starts at the next sector edge and takes a full turn from there.
            let start = settled + (run.passing(boundary, revolution) - into);
            return (Run { sectors: on_track as u32, ..run }, start, true);
        }
    }
    // Sector edges are rounded, so the last of those that pass is tried.
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
mod tests {
    use super::*;
    use crate::spec::DriveSpec;
    use proptest::prelude::*;

    /// A drive of two heads and two zones, with spares, a slipped and a replaced sector.
    fn drive(
        rpm: u32,
        tracks: (u64, u64),
        skew: u32,
        [head_switch, seek, in_place]: [u32; 3],
        settle: i32,
    ) -> (Geometry, Servo) {
        let spec = DriveSpec::from_toml(
            &format!(
                r#"
                name = "test"
                [geometry]
                sector = "512B"
                heads = 2
                [[geometry.zones]]
                cylinders = 3
                sectors_per_track = {}
                spares = 4
                slips = [3]
                remaps = [[7, {}]]
                [[geometry.zones]]
                cylinders = 2
                sectors_per_track = {}
                track_skew = {skew}
                [servo]
                rpm = {rpm}
                head_switch = "{head_switch}us"
                write_settle = "{settle}us"
                seek = {{ curve = "table", points = [[0, "{in_place}us"], [1, "{seek}us"], [4, "{}us"]] }}
                "#,
                tracks.0,
                6 * tracks.0 - 1,
                tracks.1,
                2 * seek,
            ),
            "test",
        )
        .expect("possible");
        let geometry = Geometry::new(&spec.geometry, &spec.servo);
        let servo = Servo::new(&spec.servo, geometry.cylinders());
        (geometry, servo)
    }

    /// Microseconds, mostly as drives have them, and as long as they may be.
    fn times(most: u32) -> impl Strategy<Value = u32> {
        prop_oneof![4 => 0u32..9000, 1 => 0..=most]
    }

    fn drives() -> impl Strategy<Value = (Geometry, Servo)> {
        let tracks = (5u64..20, 3u64..20);
        let in_place = prop_oneof![Just(0), times(500_000)];
        let arm = (times(1_000_000), times(500_000), in_place).prop_map(<[u32; 3]>::from);
        let settle = prop_oneof![2 => Just(0), 2 => -3000i32..3000, 1 => -900_000i32..900_000];
        (100u32..20_000, tracks, 0u32..3, arm, settle)
            .prop_map(|(rpm, tracks, skew, arm, settle)| drive(rpm, tracks, skew, arm, settle))
    }

    /// One sector's way past the head.
    #[derive(Clone, Copy, Debug)]
    struct Pass {
        settled: u64,
        begin: u64,
        end: u64,
        arm: Arm,
    }

    /// When a sector next begins to pass at `from` or after it, and for how long it does.
    fn comes_round(mechanism: Mechanism<'_>, lba: u64, from: u64) -> (u64, u64) {
        let (run, revolution) = (mechanism.geometry.run(Lba(lba), 1), mechanism.servo.revolution());
        let turn = from / revolution.0 * revolution.0 + run.angle.0;
        (if turn >= from { turn } else { turn + revolution.0 }, run.passing(1, revolution).0)
    }

    /// From when on a sector of a write may pass: where it begins a row, its own data must be there, and that of the
    /// row's last one when that has passed.
    fn supplied(mechanism: Mechanism<'_>, supply: &Supply, lba: u64) -> u64 {
        let row = u64::from(mechanism.geometry.run(Lba(lba), u64::MAX).sectors);
        let passing = |end: u64| -> u64 { (lba..end).map(|lba| comes_round(mechanism, lba, 0).1).sum() };
        let bound = |arrival: &Arrival| {
            let own: Vec<u64> =
                (lba..lba + row).filter(|lba| (arrival.start..arrival.end).contains(lba)).collect();
            let (Some(&first), Some(&last)) = (own.first(), own.last()) else { return 0 };
            let after = |lba| (arrival.per_sector * (arrival.end - lba - 1) as f64) as u64;
            let there = |lba| arrival.last.0.saturating_sub(after(lba));
            let begins = there(first).saturating_sub(passing(first));
            begins.max(there(last).saturating_sub(passing(last + 1)))
        };
        supply.arrivals.iter().map(bound).max().unwrap_or(0)
    }

    /// Sectors `first..end`, one by one: arm, settling, rotation, transfer.
    fn step_by_step(
        mechanism: Mechanism<'_>,
        mut arm: Arm,
        now: u64,
        (first, end): (u64, u64),
        (begins, write): (bool, Option<&Supply>),
    ) -> Vec<Pass> {
        let (mut at, servo, mut passes) = (now, mechanism.servo, Vec::new());
        for lba in first..end {
            let target = mechanism.geometry.run(Lba(lba), 1);
            let to = Target::from(&target);
            let goes_on = lba > first && mechanism.geometry.run(Lba(lba - 1), 2).sectors == 2;
            let data = write.filter(|_| !goes_on).map_or(0, |supply| supplied(mechanism, supply, lba));
            let settled = if begins && lba == first {
                let travel = u64::from(servo.travel(servo.phase(Nanos(at)), arm, to, write.is_some()));
                // A write settles last, when there is something to write.
                let settle = write.map_or(0, |_| u64::from(servo.write_settle()).min(travel));
                let data = data.max(write.map_or(0, |supply| supply.begin.0));
                (at + travel - settle).max(data) + settle
            } else {
                (at + u64::from(servo.step(arm, to, write.is_some()))).max(data)
            };
            let (begin, width) = comes_round(mechanism, lba, settled);
            at = begin + width;
            arm = Arm { cylinder: target.cylinder, head: target.head };
            passes.push(Pass { settled, begin, end: at, arm });
        }
        passes
    }

    fn begun(
        mechanism: Mechanism<'_>,
        arm: Arm,
        now: u64,
        (lba, wanted): (u64, u64),
        on_arrival: bool,
        write: Option<&Supply>,
    ) -> (Plan, Ledger, Positioning) {
        let (mut plan, mut ledger) = (Plan::default(), Ledger::default());
        let supply = write.cloned().unwrap_or_default();
        let access = Access { lba, wanted, write: write.is_some(), supply, on_arrival, lost: Nanos::ZERO };
        let positioning = plan.begin(mechanism, &mut ledger, Nanos(now), arm, access);
        plan.cover(mechanism, &mut ledger, lba + wanted);
        (plan, ledger, positioning)
    }

    /// Where in a write a part of its data begins, its share of the rest, when its last sector comes, and the time between
    /// two of its sectors.
    type Part = (f64, f64, u64, f64);

    /// A read, or a write whose data comes in parts, each from some instant on by so much a sector. The first part is
    /// the whole; the others are shares of it. Instants count from `now`.
    fn transfers() -> impl Strategy<Value = Option<(u64, Vec<Part>)>> {
        let begin = prop_oneof![Just(0), 0u64..60_000_000];
        let last = prop_oneof![Just(0), 0u64..200_000_000];
        let part = (0.0..1.0f64, 0.0..1.0f64, last, 0.0..3e6f64);
        prop_oneof![Just(None), (begin, prop::collection::vec(part, 0..4)).prop_map(Some)]
    }

    fn supply(now: u64, (first, end): (u64, u64), begin: u64, parts: &[Part]) -> Supply {
        let arrival = |(index, &(from, share, last, per_sector)): (usize, &Part)| {
            let (from, share) = if index == 0 { (0.0, 1.0) } else { (from, share) };
            let start = first + ((end - first) as f64 * from) as u64;
            let end = start + ((end - start) as f64 * share) as u64;
            Arrival { start, end, last: Nanos(now + last), per_sector }
        };
        Supply { begin: Nanos(now + begin), arrivals: parts.iter().enumerate().map(arrival).collect() }
    }

    proptest! {
        #[test]
        fn a_plan_is_what_comes_of_going_from_sector_to_sector(
            (geometry, servo) in drives(),
            (from, lba, length) in (any::<u64>(), any::<u64>(), any::<u64>()),
            now in 0u64..2_000_000_000,
            at_edge in prop::bool::weighted(0.3),
            transfer in transfers(),
            looks in prop::collection::vec((0.0..1.0f64, -2i64..3), 1..40),
        ) {
            let mechanism = Mechanism { geometry: &geometry, servo: &servo };
            let capacity = geometry.capacity().0;
            let first = lba % capacity;
            let end = first + 1 + length % (capacity - first);
            let from = geometry.run(Lba(from % capacity), 1);
            let arm = Arm { cylinder: from.cylinder, head: from.head };
            // Where the head is on the very edge of the first sector, the access goes on there.
            let (arm, now) = if at_edge {
                let to = geometry.run(Lba(first), 1);
                (Arm { cylinder: to.cylinder, head: to.head }, comes_round(mechanism, first, now).0)
            } else {
                (arm, now)
            };
            let write = transfer.map(|(begin, parts)| supply(now, (first, end), begin, &parts));
            let write = write.as_ref();
            let passes = step_by_step(mechanism, arm, now, (first, end), (true, write));
            let (mut plan, mut ledger, positioning) = begun(mechanism, arm, now, (first, end - first), false, write);
            let Positioning { travel, wait } = positioning;
            prop_assert_eq!((now + travel.0, wait.0), (passes[0].settled, passes[0].begin - passes[0].settled));
            if at_edge && write.is_none() {
                prop_assert_eq!(passes[0].begin, now);
            }
            // No sector has passed before its data was there, give or take what is rounded.
            for (lba, pass) in (first..).zip(&passes) {
                let arrivals = write.iter().flat_map(|supply| &supply.arrivals);
                for part in arrivals.filter(|part| part.start <= lba && lba < part.end) {
                    let there = part.last.0 as f64 - part.per_sector * (part.end - lba - 1) as f64;
                    prop_assert!(pass.end as f64 + 2.0 >= there, "{}", lba);
                }
            }
            for (lba, pass) in (first..).zip(&passes) {
                prop_assert_eq!(plan.begins_at(&servo, lba).0, pass.begin);
                prop_assert_eq!(plan.time_at(&servo, lba + 1).0, pass.end);
                prop_assert_eq!(plan.arm_at(lba + 1), pass.arm);
            }
            // Looked at again and again as time goes by, forgetting what is over.
            let last = passes[passes.len() - 1].end;
            let mut instants: Vec<u64> = looks.iter().map(|(share, jitter)| {
                let index = (share * passes.len() as f64) as usize;
                let near = if jitter % 2 == 0 { passes[index].begin } else { passes[index].end };
                near.saturating_add_signed(*jitter).clamp(now, last - 1)
            }).collect();
            instants.sort_unstable();
            for at in instants {
                plan.forget(Nanos(at));
                let whole = passes.iter().take_while(|pass| pass.end <= at).count();
                let begun = passes.iter().take_while(|pass| pass.begin < at).count();
                prop_assert_eq!(plan.progress(&servo, Nanos(at)), first + whole as u64);
                let stop = plan.stop_at(&servo, Nanos(at));
                prop_assert_eq!(stop, first + begun as u64);
                // In the middle of a sector it ends with that; on the way to the next one it gets there first.
                let sent = begun.checked_sub(1).is_none_or(|before| passes[before].end < at);
                let rest = if sent { passes[begun] } else { passes[begun - 1] };
                let expected = if sent { rest.begin } else { rest.end };
                prop_assert_eq!((plan.time_at(&servo, stop).0, plan.arm_at(stop)), (expected, rest.arm));
                for (lba, pass) in (first..).zip(&passes).skip(begun) {
                    prop_assert_eq!(plan.begins_at(&servo, lba).0, pass.begin);
                    prop_assert_eq!(plan.time_at(&servo, lba + 1).0, pass.end);
                }
            }
            let data: u64 = passes.iter().map(|pass| pass.end - pass.begin).sum();
            ledger.cut(Nanos(last));
            let time = ledger.time(Nanos(last));
            let own = if write.is_some() { [time.write_seek, time.write_data] } else { [time.read_seek, time.read_data] };
            prop_assert_eq!((time.idle.0, own.map(|part| part.0)), (now, [last - now - data, data]));
        }

        #[test]
        fn on_arrival_all_is_there_when_each_sector_has_passed_once(
            (geometry, servo) in drives(),
            (from, lba, length) in (any::<u64>(), any::<u64>(), 1u64..24),
            at_edge in any::<bool>(),
            now in 0u64..2_000_000_000,
        ) {
            let mechanism = Mechanism { geometry: &geometry, servo: &servo };
            let capacity = geometry.capacity().0;
            let lba = lba % capacity;
            let wanted = length.min(capacity - lba);
            let row = u64::from(geometry.run(Lba(lba), wanted).sectors);
            let from_lba = from % capacity;
            let from = geometry.run(Lba(from_lba), 1);
            let arm = Arm { cylinder: from.cylinder, head: from.head };
            let now = if at_edge { comes_round(mechanism, from_lba, now).0 } else { now };
            let (plan, ..) = begun(mechanism, arm, now, (lba, wanted), true, None);
            let settled = now + u64::from(servo.travel(servo.phase(Nanos(now)), arm, Target::from(&geometry.run(Lba(lba), 1)), false));
            let passes = |lba| comes_round(mechanism, lba, settled);
            let all = (lba..lba + row).map(|lba| passes(lba).0 + passes(lba).1).max().expect("one");
            prop_assert_eq!(plan.time_at(&servo, lba + row).0, all);
            let rest = (lba + row, lba + wanted);
            let rest = step_by_step(mechanism, plan.arm_at(lba + row), all, rest, (false, None));
            prop_assert_eq!(plan.time_at(&servo, lba + wanted).0, rest.last().map_or(all, |pass| pass.end));
            // What passes before it in one go is taken along, unless the request itself is under the head.
            let mut first = lba;
            let whole = passes(lba + row - 1).0 >= passes(lba).0;
            while whole && first > 0 && geometry.run(Lba(first - 1), 2).sectors == 2
                && passes(first - 1).0 + passes(first - 1).1 == passes(first).0
            {
                first -= 1;
            }
            prop_assert_eq!(plan.first(), first);
        }
    }
}
