use super::*;

#[test]
fn a_curve_keeps_its_ends_apart_and_stays_short() {
    let mut curve = Curve::default();
    for step in 0..100_000 {
        curve.add(Point { at: Nanos(step * 1000), main: step, ..Point::default() });
    }
    assert!(curve.points.len() < POINTS_MAX && curve.points.len() > POINTS_MAX / 4);
    assert_eq!(curve.points[0].at, Nanos::ZERO);
    assert!(curve.points.last().unwrap().at.0 > 99_000_000);
    assert!(curve.points.windows(2).all(|pair| pair[0].at < pair[1].at));
}

#[test]
fn wasted_is_what_was_brought_beyond_the_program_and_not_what_it_found_there() {
    let mut account = Account::default();
    account.add_prefetched(0..100, 100);
    account.add_prefetched(100..200, 40);
    account.add_prefetched(200..300, 0);
    assert_eq!([0, 50, 100, 130, 150, 200].map(|at| account.wasted(at)), [140, 90, 40, 10, 0, 0]);
    // After a seek backwards, the program finds data that it has passed.
    account.see(ReadingState { position: 120, ..ReadingState::default() }, None, false);
    account.see(ReadingState { position: 10, ..ReadingState::default() }, None, false);
    assert_eq!((account.prefetched_bytes, account.wasted(10)), (140, 40), "{account:?}");
}

#[test]
fn what_was_brought_of_files_that_are_passed_over_is_wasted_once() {
    let mut account = Account::default();
    account.add_prefetched(0..100, 100);
    account.add_prefetched(100..300, 100);
    account.pass_over(&(50..150));
    assert_eq!((account.passed_over, account.wasted(150)), (75, 75 - 50), "{account:?}");
    account.pass_over(&(300..500));
    assert_eq!(account.passed_over, 75);
    account.pass_over(&(0..300));
    assert!(account.passed_over <= 200 && account.wasted(300) == 0, "{account:?}");
}

/// A program on storage with accesses of `latency`, read by windows of the kernel; it is helped from the third wait on,
/// and then does not wait. Times are in microseconds.
struct Made {
    account: Account,
    now: u64,
    io_wait: u64,
    cpu_time: u64,
    gone: u64,
    files: u64,
    was_begun: bool,
}

impl Made {
    fn new(read_ahead: u64, window: u64) -> Made {
        let window_seen = Some(2 * window);
        let account = Account { read_ahead, window_seen, ..Account::default() };
        let mut made = Made { account, now: 0, io_wait: 0, cpu_time: 0, gone: 0, files: 1, was_begun: false };
        made.see(State::Watching);
        made
    }

    fn see(&mut self, state: State) {
        let micros = |time: u64| Nanos(time * 1000);
        let spent = CpuIoTimes {
            cpu_time: micros(self.cpu_time),
            io_wait: micros(self.io_wait),
            ..CpuIoTimes::default()
        };
        let (files, was_begun) = (self.files, self.was_begun);
        let sight = ReadingState {
            at: micros(self.now),
            position: self.gone,
            prefetch: self.gone,
            gone: self.gone,
            files,
            was_begun,
            spent,
            readings: 1,
            all_readings: 1,
        };
        self.account.see(sight, Some(state), false);
    }

    fn wait(&mut self, time: u64, state: State) {
        self.io_wait += time;
        self.now += time;
        self.see(state);
    }

    fn compute(&mut self, bytes: u64, time: u64, state: State) {
        self.gone += bytes;
        self.cpu_time += time;
        self.now += time;
        self.account.prefetched_bytes += if state == State::Ahead { bytes } else { 0 };
        self.see(state);
    }

    fn next_file(&mut self, was_begun: bool, state: State) {
        self.files += 1;
        self.was_begun = was_begun;
        self.see(state);
    }

    fn hidden_micros(mut self) -> u64 {
        self.account.end();
        self.account.hidden().unwrap().0 / 1000
    }
}

const KIB: u64 = 1 << 10;

/// Returns the waiting time caused by the kernel, which requests a window when the previous one is reached.
fn waits(size: u64, window: u64, latency: f64, per_byte: f64) -> f64 {
    let (mut at, mut now, mut io_wait, mut length) = (0, 0.0_f64, 0.0_f64, FIRST_WINDOW_BYTES.min(window));
    let (mut here, mut next) = (latency, f64::INFINITY);
    while at < size {
        // The first mark is in the middle of the first window, all others at the beginning of one.
        let marked = if at == 0 { now.max(here) + per_byte * length as f64 / 2.0 } else { now };
        if next.is_infinite() {
            next = marked + latency;
        }
        io_wait += (here - now).max(0.0);
        now = now.max(here) + per_byte * length as f64;
        (at, here, next) = (at + length, next, f64::INFINITY);
        length = (2 * length).min(window);
    }
    io_wait
}

#[test]
fn a_large_file_would_have_been_waited_for_by_windows() {
    // md5sum announces sequential reading, gzip does not.
    for (set, window, per_window) in
        [(128, 256, 500), (128, 128, 3500), (128, 128, 12_000), (1024, 1024, 2000)]
    {
        let timed = per_window >= 3500;
        let (set, window) = (set * KIB, window * KIB);
        let mut made = Made::new(set, window);
        // Not all of the time before the first bytes was spent reading.
        made.wait(35_000, State::Watching);
        made.compute(64 * KIB, per_window / 4, State::Watching);
        made.wait(10_000, State::Watching);
        let ramp = (128 * KIB).min(window) + window;
        made.compute(ramp, per_window * ramp / window, State::Watching);
        // Help begins in the middle of this wait.
        made.wait(3000, State::Watching);
        made.wait(7000, State::Ahead);
        let windows = (190 << 20) / window;
        (0..windows).for_each(|_| made.compute(window, per_window, State::Ahead));
        made.account.latency = timed.then_some(Nanos(10_000_000));
        // It keeps the file open for a while.
        made.now += 20_000_000;
        made.see(State::Idle(Idle::Done));
        let per_byte = per_window as f64 / window as f64;
        let expected = waits(190 << 20, window, 10_000.0, per_byte);
        let hidden = made.hidden_micros() as f64;
        assert!((hidden - expected).abs() <= 0.1 * expected + 30_000.0, "{hidden} for {expected}");
    }
}

#[test]
fn small_files_would_have_been_waited_for_one_by_one() {
    for (size, open) in [(4 * KIB, 10_000), (300 * KIB, 10_000), (300 * KIB, 40_000)] {
        let mut made = Made::new(128 * KIB, 256 * KIB);
        let first = size.min(FIRST_WINDOW_BYTES);
        for file in 0..302 {
            let state = if file < 2 { State::Watching } else { State::Ahead };
            if file > 0 {
                made.next_file(file > 1, state);
            }
            if file < 2 {
                made.wait(open, state);
            }
            made.compute(first, 100, state);
            if size > first {
                if file < 2 {
                    made.wait(10_000, state);
                }
                made.compute(size - first, 400, state);
            }
        }
        let expected = 300.0 * (open as f64 + if size > first { 10_000.0 } else { 0.0 });
        let hidden = made.hidden_micros() as f64;
        assert!((hidden - expected).abs() < 0.15 * expected, "{hidden} for {expected}");
    }
}

#[test]
fn what_was_seen_for_long_counts_more_than_any_model() {
    let mut made = Made::new(128 * KIB, 128 * KIB);
    for _ in 0..100 {
        made.wait(1000, State::Watching);
        made.compute(128 * KIB, 1000, State::Watching);
    }
    (0..200).for_each(|_| made.compute(128 * KIB, 1000, State::Ahead));
    let hidden = made.hidden_micros();
    assert!(hidden.abs_diff(200_000) < 10_000, "{hidden}");
}

#[test]
fn the_first_window_may_tell_how_long_those_to_come_will_be() {
    let seen = |wants: u64, found: u64| {
        let mut account = Account { read_ahead: 128 * KIB, ..Account::default() };
        let told = account.window_by_first(wants * KIB, found * KIB);
        (told.map(|bytes| bytes / KIB), account.window_seen.map(|_| account.window() / KIB))
    };
    if page_cache::first_window(KIB, 128 * KIB) != 16 * KIB {
        return;
    }
    // xz, which announces sequential reading; a program that does not; and both with calls of 32 KiB.
    assert_eq!(seen(8, 32), (Some(256), Some(256)));
    assert_eq!(seen(8, 16), (Some(128), Some(128)));
    assert_eq!(seen(128, 256), (Some(256), Some(256)));
    assert_eq!(seen(32, 64), (None, None));
    assert_eq!(seen(8, 20), (None, None));
    assert_eq!(seen(8, 512), (None, None));
}

#[test]
fn nothing_is_claimed_where_nothing_is_known_or_was_in_memory() {
    let mut made = Made::new(128 * KIB, 128 * KIB);
    (0..200).for_each(|_| made.compute(128 * KIB, 1000, State::Ahead));
    made.account.end();
    assert_eq!(made.account.hidden().unwrap_or_default(), Nanos::ZERO);
    let mut made = Made::new(128 * KIB, 128 * KIB);
    made.wait(10_000, State::Watching);
    made.compute(128 * KIB, 1000, State::Watching);
    (0..200).for_each(|_| made.compute(128 * KIB, 1000, State::Ahead));
    made.account.prefetched_bytes = 0;
    assert_eq!(made.account.hidden(), None);
}

/// Four threads, each at its own place of a file, which wait concurrently.
#[test]
fn what_a_program_waits_is_divided_among_the_readings_that_go_on_side_by_side() {
    let mut account = Account::default();
    for step in 0..10u64 {
        let spent =
            CpuIoTimes { io_wait: Nanos(step * 4000), cpu_time: Nanos(step * 400), ..CpuIoTimes::default() };
        let (at, position) = (Nanos(step * 1100), step * 100);
        let sight = ReadingState {
            at,
            position,
            prefetch: position,
            gone: position,
            spent,
            readings: 4,
            all_readings: 4,
            ..ReadingState::default()
        };
        account.see(sight, Some(State::Watching), false);
    }
    let Share { bytes, io_wait, cpu_time, time, divided, .. } = account.alone;
    assert_eq!((bytes, io_wait, cpu_time), (900, Nanos(9000), Nanos(900)));
    assert_eq!((time, divided), (Nanos(9900), Nanos(9 * 275)));
}

#[test]
fn a_program_is_helped_as_long_as_something_lies_ahead_of_it() {
    let mut account = Account::default();
    let mut see = |position: u64, prefetch: u64, state: State| {
        let sight = ReadingState { position, prefetch, gone: position, ..ReadingState::default() };
        account.see(sight, Some(state), false);
        (account.helped.bytes, account.alone.bytes)
    };
    see(0, 200, State::Ahead);
    assert_eq!(see(100, 200, State::Probation), (100, 0));
    assert_eq!(see(200, 200, State::Probation), (200, 0), "it had more ahead of it when it came to 100");
    assert_eq!(see(300, 300, State::Probation), (200, 100));
}

#[test]
fn what_is_only_watched_is_told_apart_by_whether_it_would_be_read_ahead() {
    let mut account = Account::default();
    let states = [
        State::Watching,
        State::Ahead,
        State::Probation,
        State::Idle(Idle::IoBound),
        State::Idle(Idle::NotSequential),
    ];
    for (step, state) in (0..).zip(states) {
        let spent = CpuIoTimes { io_wait: Nanos(step * 10), ..CpuIoTimes::default() };
        let (at, position) = (Nanos(step * 20), step * 100);
        let sight = ReadingState {
            at,
            position,
            prefetch: position,
            gone: position,
            spent,
            readings: 1,
            all_readings: 1,
            ..ReadingState::default()
        };
        account.see(sight, Some(state), true);
    }
    // Time spent before a poll is attributed to the state at the previous poll.
    assert_eq!((account.would_help.bytes, account.would_help.io_wait), (300, Nanos(30)));
    assert_eq!((account.helped.bytes, account.alone.bytes), (0, 400));
    assert_eq!(account.idle.keys().collect::<Vec<_>>(), [&Idle::NotSequential]);
}
