use super::*;
use crate::spec::DriveSpec;
use proptest::prelude::*;

/// A drive with two heads and two zones, with spares, a slipped and a replaced sector.
fn drive(
    rpm: u32,
    tracks: (u64, u64),
    skew: u32,
    [head_switch, seek, in_place]: [u32; 3],
    settle: i32,
) -> (Geometry, Servo) {
    // A write cannot be settled before its arm has moved.
    let settle = settle.max(-(head_switch.min(seek) as i32));
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

/// Times in microseconds: mostly realistic, some up to the maximum.
fn times(most: u32) -> impl Strategy<Value = u32> {
    prop_oneof![4 => 0u32..9000, 1 => 0..=most]
}

fn drives() -> impl Strategy<Value = (Geometry, Servo)> {
    let tracks = (5u64..20, 3u64..20);
    let in_place = prop_oneof![Just(0), times(500_000)];
    let arm = (times(1_000_000), times(500_000), in_place).prop_map(<[u32; 3]>::from);
    let settle = prop_oneof![2 => Just(0), 2 => -3000i32..3000, 1 => 0i32..900_000];
    (100u32..20_000, tracks, 0u32..3, arm, settle)
        .prop_map(|(rpm, tracks, skew, arm, settle)| drive(rpm, tracks, skew, arm, settle))
}

/// The pass of one sector under the head.
#[derive(Clone, Copy, Debug)]
struct Pass {
    settled: u64,
    begin: u64,
    end: u64,
    arm: Arm,
}

/// Returns when a sector next begins to pass at `from` or later, and how long it takes.
fn comes_round(mechanism: Mechanism<'_>, lba: u64, from: u64) -> (u64, u64) {
    let (run, revolution) = (mechanism.geometry.run(Lba(lba), 1), mechanism.servo.revolution());
    let turn = from / revolution.0 * revolution.0 + run.angle.0;
    (if turn >= from { turn } else { turn + revolution.0 }, run.passing(1, revolution).0)
}

/// Returns the earliest time at which a sector of a write may pass. Where it begins a row, its own data must have
/// arrived, and that of the row's last sector by the time that one has passed.
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

/// Transfers sectors `first..end` one by one: arm, settling, rotation, transfer.
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
            // A write settles last, once its data is available.
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

/// Part of a write's data: start as a share of the write, length as a share of the rest, arrival of its last sector,
/// and time between two sectors.
type Part = (f64, f64, u64, f64);

/// A read, or a write whose data arrives in parts, each at a constant rate. The first part is the whole; the others are
/// shares of it. Times are relative to `now`.
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
        // With the head on the very edge of the first sector, the access continues there.
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
        // No sector has passed before its data arrived, up to rounding.
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
        // Queries at increasing times, with finished pieces dropped.
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
            // In the middle of a sector it ends with that one; during positioning it reaches the next sector first.
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
        // Sectors that pass directly before it are read as well, unless the request itself is under the head.
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
