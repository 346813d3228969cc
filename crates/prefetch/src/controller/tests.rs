use super::*;
use proptest::prelude::*;

const MIB: u64 = 1 << 20;
const ID: ReadingId = ReadingId(0);

/// A controller, one program, and a device on which all requested data arrives after a latency.
struct World {
    controller: Controller,
    now: Nanos,
    cpu_time: Nanos,
    io_wait: Nanos,
    at: u64,
    size: u64,
    fetched: Vec<Range<u64>>,
    looks: u64,
    cached: bool,
}

impl World {
    fn new(limit: Limit, size: u64) -> World {
        let mut world = World {
            controller: Controller::new(limit),
            now: Nanos::ZERO,
            cpu_time: Nanos::ZERO,
            io_wait: Nanos::ZERO,
            at: 0,
            size,
            fetched: Vec::new(),
            looks: 0,
            cached: false,
        };
        world.notify(Event::Opened { id: ID, at: 0, size });
        world
    }

    fn notify(&mut self, event: Event) {
        let mut todo = Vec::new();
        self.controller.on(self.now, event, &mut todo);
        for action in todo {
            let answer = match action {
                Action::Fetch { id, range } => {
                    assert!(range.start < range.end && range.end <= self.size, "{range:?}");
                    self.fetched.push(range.clone());
                    Event::Fetched { id, range, done: true }
                }
                Action::CheckResidency { id, range } => {
                    assert!(range.start < range.end && range.end <= self.size, "{range:?}");
                    self.looks += 1;
                    let known = self.fetched.iter().any(|fetched| fetched.contains(&range.start));
                    let cached = if self.cached || known { range.end - range.start } else { 0 };
                    Event::Residency { id, range, cached, evicted: 0 }
                }
            };
            self.notify(answer);
        }
    }

    /// The program computes, waits, and is then found at a position.
    fn go(&mut self, cpu_time: u64, io_wait: u64, at: u64) {
        self.cpu_time += Nanos(cpu_time);
        self.io_wait += Nanos(io_wait);
        self.now += Nanos(cpu_time + io_wait);
        self.at = at;
        let read = Some(at);
        self.notify(Event::Times { id: ID, cpu_time: self.cpu_time, io_wait: self.io_wait, read });
        self.notify(Event::Position { id: ID, at });
    }

    fn state(&self) -> State {
        self.controller.state(ID).unwrap()
    }
}

#[test]
fn a_fixed_limit_is_the_papers_figure_2() {
    let mut world = World::new(Limit::Fixed { limit: 4 * MIB, step: MIB }, 64 * MIB);
    for at in [1, 2, 3] {
        world.go(1_000_000, 0, at * 4096);
    }
    // From the position at which the program turned out to be sequential, until the distance exceeds the limit.
    assert_eq!(world.fetched.len(), 5);
    assert!(world.fetched.iter().all(|range| range.end - range.start == MIB));
    let ahead = world.controller.ahead(ID).unwrap();
    assert!(ahead.end - ahead.start > 4 * MIB && ahead.end - ahead.start <= 5 * MIB);
    world.go(1_000_000, 0, 2 * MIB);
    assert_eq!(world.fetched.len(), 6);
}

#[test]
fn a_step_is_at_most_the_limit() {
    let mut world = World::new(Limit::Fixed { limit: 64 << 10, step: 16 * MIB }, 64 * MIB);
    for at in [1, 2, 3] {
        world.go(1_000_000, 0, at * 4096);
    }
    assert!(world.fetched.iter().all(|range| range.end - range.start == 64 << 10));
}

/// The program sleeps in its first read for a while.
fn waits_in_its_first_read(world: &mut World, id: ReadingId, wants: u64, window: u64) {
    world.now += Nanos(1_000_000);
    world.io_wait += Nanos(1_000_000);
    let (cpu_time, io_wait) = (world.cpu_time, world.io_wait);
    world.notify(Event::Times { id, cpu_time, io_wait, read: Some(world.at) });
    world.notify(Event::Position { id, at: world.at });
    world.notify(Event::Blocked { id, wants, window });
}

#[test]
fn who_sleeps_in_the_first_read_of_a_file_is_begun_with_at_once() {
    let mut world = World::new(Limit::AUTO, 64 * MIB);
    waits_in_its_first_read(&mut world, ID, 8 << 10, 128 << 10);
    assert_eq!(world.controller.ahead(ID), Some(0..512 << 10));
    assert_eq!((world.state(), world.fetched.len()), (State::Ahead, 4));
    // From here on it starts as usual.
    waits_in_its_first_read(&mut world, ID, 8 << 10, 128 << 10);
    assert_eq!(world.fetched.len(), 4);
    (1..8).for_each(|step| world.go(1_000_000, 1_000_000, step * 64 * 1024));
    assert!(world.controller.ahead(ID).unwrap().end > 512 << 10);
}

#[test]
fn nobody_else_is_begun_with_at_once() {
    // A look at the beginning; a long window of the kernel; a small file; a later position.
    for (wants, window, size, at) in
        [(1, 128, 4096, 0), (8, 1024, 4096, 0), (8, 128, 200, 0), (8, 128, 4096, 100)]
    {
        let mut world = World::new(Limit::AUTO, size << 10);
        if at > 0 {
            world.go(1_000_000, 0, at << 10);
        }
        let wants = if wants == 1 { 1 } else { wants << 10 };
        waits_in_its_first_read(&mut world, ID, wants, window << 10);
        assert!(world.fetched.is_empty(), "{wants} {window} {size} {at}");
    }
    let mut world = World::new(Limit::AUTO, 64 * MIB);
    world.notify(Event::Memory { bytes: 100 << 10 });
    waits_in_its_first_read(&mut world, ID, 8 << 10, 128 << 10);
    assert!(world.fetched.is_empty());
    let mut world = World::new(Limit::Fixed { limit: 4 * MIB, step: MIB }, 64 * MIB);
    waits_in_its_first_read(&mut world, ID, 8 << 10, 128 << 10);
    assert!(world.fetched.is_empty());
}

#[test]
fn one_beginning_that_was_wrong_is_the_last_and_one_is_tried_at_a_time() {
    let later = ReadingId(1);
    for (read, may) in [(64 << 10, false), (256 << 10, true)] {
        let mut world = World::new(Limit::AUTO, 64 * MIB);
        waits_in_its_first_read(&mut world, ID, 8 << 10, 128 << 10);
        let at_the_same_time = ReadingId(7);
        world.notify(Event::Opened { id: at_the_same_time, at: 0, size: 64 * MIB });
        waits_in_its_first_read(&mut world, at_the_same_time, 8 << 10, 128 << 10);
        assert_eq!(world.fetched.len(), 4);
        world.go(0, 0, read);
        world.notify(Event::Closed { id: ID });
        let before = world.fetched.len();
        world.at = 0;
        world.notify(Event::Opened { id: later, at: 0, size: 64 * MIB });
        waits_in_its_first_read(&mut world, later, 8 << 10, 128 << 10);
        assert_eq!(world.fetched.len() > before, may, "{read}");
    }
    // A seek elsewhere disproves the start, too.
    let mut world = World::new(Limit::AUTO, 64 * MIB);
    waits_in_its_first_read(&mut world, ID, 8 << 10, 128 << 10);
    world.cpu_time += Nanos(1_000_000);
    let (cpu_time, io_wait) = (world.cpu_time, world.io_wait);
    world.notify(Event::Times { id: ID, cpu_time, io_wait, read: Some(8 << 10) });
    world.notify(Event::Position { id: ID, at: 60 * MIB });
    assert_eq!(world.controller.ahead(ID), Some(60 * MIB..60 * MIB));
    world.at = 0;
    world.notify(Event::Opened { id: later, at: 0, size: 64 * MIB });
    let before = world.fetched.len();
    waits_in_its_first_read(&mut world, later, 8 << 10, 128 << 10);
    assert_eq!(world.fetched.len(), before);
}

#[test]
fn who_does_not_wait_is_left_alone() {
    let mut world = World::new(Limit::AUTO, 64 * MIB);
    for at in 1..200 {
        world.go(1_000_000, 0, at * 40_000);
    }
    assert_eq!((world.state(), world.fetched.len()), (State::Idle(Idle::DoesNotWait), 0));
}

#[test]
fn what_is_in_memory_already_is_left_alone_even_where_the_program_waits() {
    let mut world = World::new(Limit::AUTO, 640 * MIB);
    world.cached = true;
    for at in 1..200 {
        world.go(1_000_000, 1_000_000, at * 40_000);
    }
    assert_eq!((world.state(), world.fetched.len()), (State::Idle(Idle::Resident), 0));
}

#[test]
fn who_jumps_is_left_alone() {
    let mut world = World::new(Limit::AUTO, 640 * MIB);
    for step in 1..200u64 {
        world.go(1_000_000, 9_000_000, step * 7_777_777 * 4096 % (640 * MIB));
    }
    assert_eq!(world.state(), State::Idle(Idle::NotSequential));
    let fetched: u64 = world.fetched.iter().map(|range| range.end - range.start).sum();
    assert!(fetched <= 8 * MIB, "{fetched}");
}

#[test]
fn who_skips_forward_is_not_sequential() {
    let mut world = World::new(Limit::AUTO, 640 * MIB);
    for step in 1..100u64 {
        let (read, at) = (step * 4096, step * MIB);
        world.now += Nanos(10_000_000);
        world.io_wait += Nanos(9_000_000);
        world.cpu_time += Nanos(1_000_000);
        let (cpu_time, io_wait) = (world.cpu_time, world.io_wait);
        world.notify(Event::Times { id: ID, cpu_time, io_wait, read: Some(read) });
        world.notify(Event::Position { id: ID, at });
    }
    assert_eq!((world.state(), world.fetched.len()), (State::Idle(Idle::NotSequential), 0));
}

#[test]
fn who_waits_is_run_ahead_of_and_the_distance_grows_while_it_helps() {
    let mut world = World::new(Limit::AUTO, 4096 * MIB);
    for step in 1..400u64 {
        // The more data lies ahead, the less the program waits.
        let wait = if world.controller.limit(ID).unwrap() >= 8 * MIB { 0 } else { 8_000_000 };
        world.go(1_000_000, wait, step * 512 * 1024);
    }
    let limit = world.controller.limit(ID).unwrap();
    assert!((7 * MIB..=8 * MIB).contains(&limit), "{limit}");
    assert_eq!(world.state(), State::Ahead);
}

#[test]
fn what_is_evicted_before_it_is_used_halves_the_distance() {
    let mut world = World::new(Limit::AUTO, 4096 * MIB);
    for step in 1..60u64 {
        world.go(1_000_000, 400_000 * 1000 / step.pow(2), step * MIB);
    }
    let before = world.controller.limit(ID).unwrap();
    assert!(before > MIB, "{before}");
    let range = world.controller.ahead(ID).unwrap();
    let length = range.end - range.start;
    world.notify(Event::Residency { id: ID, range, cached: length / 2, evicted: length / 2 });
    assert_eq!(world.controller.limit(ID).unwrap(), before / 2);
}

#[test]
fn a_file_that_is_ten_times_as_slow_to_read_is_left_alone_after_a_trial() {
    let mut world = World::new(Limit::AUTO, 4096 * MIB);
    for step in 1..2000u64 {
        world.go(1_000_000, 19_000_000, step * MIB);
        if world.state() == State::Idle(Idle::IoBound) {
            return;
        }
    }
    panic!("{:?}", world.state());
}

#[test]
fn the_room_is_never_exceeded_and_is_shared() {
    let mut controller = Controller::new(Limit::Fixed { limit: 64 * MIB, step: MIB });
    let mut todo = Vec::new();
    controller.on(Nanos::ZERO, Event::Memory { bytes: 10 * MIB }, &mut todo);
    let ids: Vec<_> = (0..20).map(ReadingId).collect();
    for &id in &ids {
        controller.on(Nanos::ZERO, Event::Opened { id, at: 0, size: 100 * MIB }, &mut todo);
    }
    for step in 1..50u64 {
        for &id in &ids {
            controller.on(Nanos(step * 1_000_000), Event::Position { id, at: step * 4096 }, &mut todo);
            while let Some(action) = todo.pop() {
                let answer = match action {
                    Action::Fetch { id, range } => Event::Fetched { id, range, done: true },
                    Action::CheckResidency { id, range } => {
                        Event::Residency { id, range, cached: 0, evicted: 0 }
                    }
                };
                controller.on(Nanos(step * 1_000_000), answer, &mut todo);
            }
            assert!(controller.memory_used() <= 10 * MIB, "{}", controller.memory_used());
        }
    }
    for id in ids {
        controller.on(Nanos::SECOND, Event::Closed { id }, &mut todo);
    }
    assert_eq!(controller.memory_used(), 0);
}

#[test]
fn answers_that_come_after_the_end_are_passed_over() {
    let mut controller = Controller::new(Limit::AUTO);
    let mut todo = Vec::new();
    controller.on(Nanos::ZERO, Event::Opened { id: ID, at: 0, size: 10 }, &mut todo);
    controller.on(Nanos::ZERO, Event::Closed { id: ID }, &mut todo);
    controller.on(Nanos::ZERO, Event::Fetched { id: ID, range: 0..10, done: true }, &mut todo);
    assert_eq!((controller.state(ID), controller.wake(ID)), (None, None));
}

/// Events of one of several readings.
#[derive(Clone, Debug)]
enum Step {
    /// It computes, waits, and advances.
    Go {
        cpu_time: u64,
        io_wait: u64,
        by: u64,
    },
    Seek {
        to: u64,
    },
    Resize {
        size: u64,
    },
    /// The oldest outstanding call returns, with residency in 64ths.
    Answer {
        done: bool,
        cached: u64,
        evicted: u64,
    },
    Room {
        bytes: u64,
    },
    End,
}

const SIZE: u64 = 256 * MIB;

fn steps() -> impl Strategy<Value = Vec<(u32, Step)>> {
    let step = prop_oneof![
        30 => (0..5_000_000u64, 0..50_000_000u64, 0..MIB)
            .prop_map(|(cpu_time, io_wait, by)| Step::Go { cpu_time, io_wait, by }),
        30 => (0..200u64, any::<bool>(), 1..64u64).prop_map(|(_, cached, quick)| Step::Answer {
            done: true,
            cached: if cached { 64 } else { quick },
            evicted: 0,
        }),
        2 => (any::<bool>(), 0..65u64, 0..65u64)
            .prop_map(|(done, cached, evicted)| Step::Answer { done, cached, evicted }),
        1 => (0..SIZE * 2).prop_map(|to| Step::Seek { to }),
        1 => (0..SIZE * 2).prop_map(|size| Step::Resize { size }),
        1 => prop_oneof![Just(u64::MAX), 0..SIZE].prop_map(|bytes| Step::Room { bytes }),
        1 => Just(Step::End),
    ];
    prop::collection::vec((0..3u32, step), 1..600)
}

fn limits() -> impl Strategy<Value = Limit> {
    prop_oneof![
        (4096..64 * MIB, 4096..16 * MIB).prop_map(|(limit, step)| Limit::Fixed { limit, step }),
        (0..600 * MIB).prop_map(|most| Limit::Auto { most }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn the_distance_never_exceeds_the_limit_and_one_step_or_piece(limit in limits(), steps in steps()) {
        let mut controller = Controller::new(limit);
        // For each reading: position, size and times; `None` if it has ended.
        let mut readings: [Option<(u64, u64, Nanos, Nanos)>; 3] = [None; 3];
        let mut calls: Vec<Action> = Vec::new();
        let mut now = Nanos::ZERO;
        for (which, step) in steps {
            let id = ReadingId(which);
            let Some((at, size, cpu_time, io_wait)) = &mut readings[which as usize] else {
                controller.on(now, Event::Opened { id, at: 0, size: SIZE }, &mut calls);
                readings[which as usize] = Some((0, SIZE, Nanos::ZERO, Nanos::ZERO));
                // Outstanding calls of the previous reading with this identifier are not answered.
                continue;
            };
            match step {
                Step::Go { cpu_time: on_core, io_wait: waiting, by } => {
                    now += Nanos(on_core + waiting);
                    *cpu_time += Nanos(on_core);
                    *io_wait += Nanos(waiting);
                    *at = (*at + by).min(*size);
                    let (cpu_time, io_wait) = (*cpu_time, *io_wait);
                    controller.on(now, Event::Times { id, cpu_time, io_wait, read: None }, &mut calls);
                    controller.on(now, Event::Position { id, at: *at }, &mut calls);
                }
                Step::Seek { to } => {
                    *at = to;
                    controller.on(now, Event::Position { id, at: to }, &mut calls);
                }
                Step::Resize { size: new } => {
                    *size = new;
                    calls.retain(|call| !matches!(call, Action::Fetch { id: of, .. } if *of == id));
                    controller.on(now, Event::Resized { id, size: new }, &mut calls);
                }
                Step::Answer { done, cached, evicted } => {
                    let Some(call) = (!calls.is_empty()).then(|| calls.remove(0)) else { continue };
                    let event = match call {
                        Action::Fetch { id, range } => Event::Fetched { id, range, done },
                        Action::CheckResidency { id, range } => {
                            let length = range.end - range.start;
                            let (cached, evicted) = (length / 64 * cached, length / 64 * evicted);
                            Event::Residency { id, range, cached, evicted }
                        }
                    };
                    controller.on(now, event, &mut calls);
                }
                Step::Room { bytes } => controller.on(now, Event::Memory { bytes }, &mut calls),
                Step::End => {
                    controller.on(now, Event::Closed { id }, &mut calls);
                    calls.retain(|call| {
                        let (Action::Fetch { id: of, .. } | Action::CheckResidency { id: of, .. }) = call;
                        *of != id
                    });
                    readings[which as usize] = None;
                    continue;
                }
            }
            let ahead = controller.ahead(id).unwrap();
            let allowed = match limit {
                Limit::Fixed { limit, step } => limit + step.min(limit),
                Limit::Auto { .. } => controller.limit(id).unwrap() + MIB,
            };
            prop_assert!(ahead.end - ahead.start <= allowed, "{:?} {} {:?}", ahead, allowed, controller.state(id));
            let taken: u64 = (0..3).filter_map(|id| controller.ahead(ReadingId(id))).map(|ahead| ahead.end - ahead.start).sum();
            prop_assert_eq!(controller.memory_used(), taken);
            for call in &calls {
                let (Action::Fetch { range, .. } | Action::CheckResidency { range, .. }) = call;
                prop_assert!(range.start < range.end, "{:?}", call);
            }
        }
    }
}

#[test]
fn all_of_a_long_read_is_fetched_within_the_budget_while_the_program_sleeps_in_it() {
    const MEBIBYTE: u64 = 1 << 20;
    let long = |wants: u64, room: Option<u64>| {
        let mut world = World::new(Limit::AUTO, 100 * MEBIBYTE);
        if let Some(bytes) = room {
            world.notify(Event::Memory { bytes });
        }
        world.go(0, 3_000_000, 0);
        world.notify(Event::Blocked { id: ID, wants, window: 128 << 10 });
        let fetched = world.fetched.iter().map(|range| range.end).max().unwrap_or(0);
        (world, fetched)
    };
    for wants in [MEBIBYTE, 42 * MEBIBYTE, 100 * MEBIBYTE] {
        let (mut world, fetched) = long(wants, None);
        assert_eq!(fetched, wants);
        world.fetched.sort_by_key(|range| range.start);
        let ends = world.fetched.windows(2).all(|pair| pair[0].end == pair[1].start);
        assert!(ends && world.fetched[0].start == 0, "each byte once");
    }
    assert_eq!(long(1 << 40, None).1, 100 * MEBIBYTE, "no more than the file has");
    assert!(long(42 * MEBIBYTE, Some(16 * MEBIBYTE)).1 <= 16 * MEBIBYTE);
    // A short read says nothing of what follows it.
    assert!(long(128 << 10, None).1 <= MEBIBYTE / 2);
    // Once the read has returned, the distance is the usual one again.
    let (mut world, _) = long(10 * MEBIBYTE, None);
    world.go(1_000_000, 1_000_000, 10 * MEBIBYTE);
    let ahead = world.controller.ahead(ID).unwrap();
    assert!(ahead.start == 10 * MEBIBYTE && ahead.end <= 11 * MEBIBYTE, "{ahead:?}");
}
