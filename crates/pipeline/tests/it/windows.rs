//! Windows, sessions, highest rows, distinct rows and joins against plain loops.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Cursor;

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use crate::harness::{Ended, lines, run_on};

/// Random inputs that are tried for each pipeline.
const CASES: u64 = 8;

/// A row of the input: time in milliseconds, key, and a number or nothing.
type Event = (u64, String, Option<i64>);

/// Milliseconds by which rows are out of order at most.
const DISORDER_MS: u64 = 400;

fn events(seed: u64) -> Vec<Event> {
    let mut random = Pcg64::seed_from_u64(seed);
    let mut below = |bound: u64| random.next_u64() % bound;
    let mut now_ms = 1_000;
    let event = |_| {
        // Now and then nothing comes for a while.
        now_ms += if below(50) == 0 { 5_000 } else { below(60) };
        let time_ms = now_ms - below(DISORDER_MS);
        let key = if below(20) == 0 { String::new() } else { format!("k{}", below(7)) };
        (time_ms, key, (below(8) > 0).then(|| below(200) as i64 - 100))
    };
    (0..400).map(event).collect()
}

fn input(events: &[Event]) -> String {
    let line = |(time, key, number): &Event| {
        format!("{time},\"{key}\",{}\n", number.map(|number| number.to_string()).unwrap_or_default())
    };
    events.iter().map(line).collect()
}

/// A source of events, by its name.
fn source(name: &str, from: &str) -> String {
    format!(
        "[source.{name}]\nfrom = \"{from}\"\nformat = \"csv\"\nfields = [\"t\", \"k\", \"n\"]\n\
         columns = {{ t = \"timestamp(ms)\", n = \"int64\" }}\nevent_time = \"t\"\nout_of_order = \"{DISORDER_MS}ms\"\n"
    )
}

const SINK: &str = "[sink.out]\nto = \"stdout\"\nformat = \"csv\"\nheader = false\n";

/// Runs steps on two placements, which give the same.
fn run_steps(steps: &str, input: &str) -> Ended {
    let description = format!("{}{steps}{SINK}", source("in", "stdin"));
    let ended = [0, 1].map(|cut| {
        let ended = run_on(&description, Cursor::new(input.as_bytes().to_vec()), |operator| {
            usize::from(operator > cut)
        });
        ended.unwrap_or_else(|error| panic!("{error}\n{description}"))
    });
    let [one, other] = ended;
    assert_eq!(one.written.text(), other.written.text(), "{description}");
    one
}

/// A time as it is written.
fn at(time_ms: u64) -> String {
    assert!(time_ms < 3_600_000);
    format!("1970-01-01T00:{:02}:{:02}.{:03}Z", time_ms / 60_000, time_ms / 1000 % 60, time_ms % 1000)
}

/// The values of `count(*), count(n), sum(n), min(n), max(n), avg(n), count(distinct n)` as they are written.
fn totals(numbers: &[Option<i64>]) -> String {
    let some: Vec<i64> = numbers.iter().flatten().copied().collect();
    let shown = |value: Option<String>| value.unwrap_or_default();
    let sum: i64 = some.iter().sum();
    format!(
        "{},{},{},{},{},{},{}",
        numbers.len(),
        some.len(),
        shown((!some.is_empty()).then(|| sum.to_string())),
        shown(some.iter().min().map(i64::to_string)),
        shown(some.iter().max().map(i64::to_string)),
        shown((!some.is_empty()).then(|| format!("{:?}", sum as f64 / some.len() as f64))),
        some.iter().collect::<BTreeSet<_>>().len()
    )
}

const COMPUTE: &str = "compute = \"count(*) AS a, count(n) AS b, sum(n) AS c, min(n) AS d, max(n) AS e, avg(n) AS f, \
                       count(distinct n) AS g\"\n";

fn key(key: &str) -> String {
    if key.is_empty() { "\"\"".to_owned() } else { key.to_owned() }
}

#[test]
fn tumbling_and_sliding_windows_have_the_values_of_a_loop() {
    for seed in 0..CASES {
        let events = events(seed);
        for (window, size_ms, step_ms) in [("tumbling:1s", 1000, 1000), ("sliding:2s,500ms", 2000, 500)] {
            let mut groups: BTreeMap<(u64, &str), Vec<Option<i64>>> = BTreeMap::new();
            for (time, key, number) in &events {
                let first = (time / step_ms + 1) * step_ms;
                for end in (first..first + size_ms).step_by(step_ms as usize) {
                    groups.entry((end, key)).or_default().push(*number);
                }
            }
            let expected: String = groups
                .iter()
                .map(|((end, of), numbers)| {
                    let start = end.saturating_sub(size_ms);
                    format!("{},{},{},{}\n", at(start), at(*end), key(of), totals(numbers))
                })
                .collect();
            let steps = format!("[[step]]\nop = \"aggregate\"\nby = \"k\"\nwindow = \"{window}\"\n{COMPUTE}");
            let ended = run_steps(&steps, &input(&events));
            assert_eq!(ended.written.text(), expected, "seed {seed}, {window}");
            assert_eq!(ended.outcome.sources[0].1.late, 0);
        }
    }
}

#[test]
fn sessions_have_the_values_of_a_loop() {
    for seed in 0..CASES {
        let events = events(seed);
        let mut by_key: BTreeMap<&str, Vec<(u64, Option<i64>)>> = BTreeMap::new();
        events.iter().for_each(|(time, key, number)| by_key.entry(key).or_default().push((*time, *number)));
        let mut sessions = Vec::new();
        for (of, mut rows) in by_key {
            rows.sort_by_key(|(time, _)| *time);
            for session in rows.chunk_by(|one, other| other.0 - one.0 < 700) {
                let (start, end) = (session[0].0, session[session.len() - 1].0 + 700);
                let numbers: Vec<_> = session.iter().map(|(_, number)| *number).collect();
                sessions.push((
                    end,
                    of,
                    format!("{},{},{},{}\n", at(start), at(end), key(of), totals(&numbers)),
                ));
            }
        }
        sessions.sort();
        let expected: String = sessions.into_iter().map(|(.., line)| line).collect();
        let steps =
            format!("[[step]]\nop = \"aggregate\"\nby = \"k\"\nwindow = \"session:700ms\"\n{COMPUTE}");
        assert_eq!(run_steps(&steps, &input(&events)).written.text(), expected, "seed {seed}");
    }
}

#[test]
fn aggregates_without_a_window_come_at_the_end_in_the_order_of_their_keys() {
    let input = "3,b,1\n1,a,2\n2,b,3\n";
    let steps = "[[step]]\nop = \"aggregate\"\nby = \"k || '!' AS key\"\ncompute = \"sum(n * 2) AS s, count(*) AS c\"\n";
    assert_eq!(run_steps(steps, input).written.text(), "a!,4,1\nb!,8,2\n");
    let steps = "[[step]]\nop = \"aggregate\"\ncompute = \"max(k) AS k, min(t) AS t\"\n";
    assert_eq!(run_steps(steps, input).written.text(), "b,1970-01-01T00:00:00.001Z\n");
}

#[test]
fn the_highest_results_of_each_window_are_those_of_a_loop() {
    for seed in 0..CASES {
        let events = events(seed);
        let mut windows: BTreeMap<u64, BTreeMap<&str, i64>> = BTreeMap::new();
        for (time, key, _) in &events {
            *windows.entry(time / 2000).or_default().entry(key).or_default() += 1;
        }
        let mut expected = String::new();
        for (window, counts) in windows {
            let mut counts: Vec<(&str, i64)> = counts.into_iter().collect();
            counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
            for (rank, (of, count)) in counts.into_iter().take(3).enumerate() {
                let (start, end) = (at(window * 2000), at(window * 2000 + 2000));
                expected += &format!("{},{start},{end},{},{count}\n", rank + 1, key(of));
            }
        }
        let steps = "[[step]]\nop = \"aggregate\"\nby = \"k\"\nwindow = \"tumbling:2s\"\ncompute = \"count(*) AS c\"\n\
                     [[step]]\nop = \"top\"\nk = 3\nby = \"c\"\n";
        assert_eq!(run_steps(steps, &input(&events)).written.text(), expected, "seed {seed}");
    }
}

#[test]
fn the_highest_rows_per_key_are_those_of_a_loop() {
    for seed in 0..CASES {
        let events = events(seed);
        let mut groups: BTreeMap<_, Vec<(i64, u64, i64)>> = BTreeMap::new();
        for (time, key, number) in &events {
            if let Some(number) = number {
                groups.entry((time / 3000, key)).or_default().push((-(number * number), *time, *number));
            }
        }
        let mut expected = String::new();
        for ((_, of), mut rows) in groups {
            // Among equal rows, the first to arrive is the highest.
            rows.sort_by_key(|(score, ..)| *score);
            for (rank, (_, time, number)) in rows.into_iter().take(2).enumerate() {
                expected += &format!("{},{},{},{number}\n", rank + 1, at(time), key(of));
            }
        }
        let steps = "[[step]]\nop = \"filter\"\nwhere = \"n is not null\"\n\
                     [[step]]\nop = \"top\"\nk = 2\nby = \"n * n\"\nper = \"k\"\nwindow = \"tumbling:3s\"\n";
        assert_eq!(run_steps(steps, &input(&events)).written.text(), expected, "seed {seed}");
    }
}

#[test]
fn distinct_rows_are_the_first_ones() {
    for seed in 0..CASES {
        let events = events(seed);
        let first = |window_ms: u64| -> String {
            let mut seen = BTreeSet::new();
            let is_new = |(time, key, number): &&Event| seen.insert((time / window_ms, key.clone(), *number));
            events
                .iter()
                .filter(is_new)
                .map(|(_, of, number)| {
                    format!("{},{}\n", key(of), number.map(|number| number.to_string()).unwrap_or_default())
                })
                .collect()
        };
        let select = "[[step]]\nop = \"select\"\ncolumns = \"k, n\"\n";
        let windowed =
            format!("[[step]]\nop = \"distinct\"\nby = \"k, n\"\nwindow = \"tumbling:2s\"\n{select}");
        assert_eq!(run_steps(&windowed, &input(&events)).written.text(), first(2000), "seed {seed}");
        let all = format!("{select}[[step]]\nop = \"distinct\"\n");
        assert_eq!(run_steps(&all, &input(&events)).written.text(), first(u64::MAX), "seed {seed}");
    }
}

#[test]
fn a_distinct_with_few_keys_forgets_the_oldest() {
    let steps =
        "[[step]]\nop = \"distinct\"\nby = \"k\"\nkeys_max = 2\n[[step]]\nop = \"select\"\ncolumns = \"k\"\n";
    let ended = run_steps(steps, "1,a,\n1,b,\n1,a,\n1,c,\n1,a,\n");
    assert_eq!(ended.written.text(), "a\nb\nc\na\n");
    assert_eq!(ended.outcome.steps[0].1.late, 2);
}

#[test]
fn pairs_of_two_inputs_are_those_of_two_loops() {
    for seed in 0..CASES {
        let scratch = sakiyomi_testing::Scratch::new("pipeline_join");
        let (lefts, rights) = (events(seed), events(seed + 100));
        let file = scratch.file("right.csv", input(&rights));
        let mut expected: Vec<String> = Vec::new();
        for (time, of, number) in &lefts {
            for (other, with, more) in &rights {
                if of == with && number == more && number.is_some() && time.abs_diff(*other) <= 300 {
                    let number = number.unwrap();
                    expected.push(format!("{},{},{number},{}", at(*time), key(of), at(*other)));
                }
            }
        }
        expected.sort();
        let description = format!(
            "{}{}[[step]]\nop = \"join\"\ninput = \"in\"\nwith = \"other\"\non = \"k = k, n = n\"\nwithin = \"300ms\"\n{SINK}",
            source("in", "stdin"),
            source("other", &format!("file:{}", file.display()))
        );
        for cut in 0..3 {
            let stdin = Cursor::new(input(&lefts).into_bytes());
            let ended = run_on(&description, stdin, |operator| usize::from(operator > cut)).unwrap();
            let written = ended.written.text();
            let mut found: Vec<&str> = written.lines().collect();
            found.sort_unstable();
            assert_eq!(found, expected, "seed {seed}");
        }
    }
}

#[test]
fn late_rows_are_counted_or_change_their_window_again() {
    // The watermark follows each block; each line is one here.
    struct Lines(std::vec::IntoIter<&'static str>);
    impl std::io::Read for Lines {
        fn read(&mut self, space: &mut [u8]) -> std::io::Result<usize> {
            let line = self.0.next().unwrap_or("").as_bytes();
            space[..line.len()].copy_from_slice(line);
            Ok(line.len())
        }
    }
    let input =
        || Lines(vec!["1000,a,1\n", "5000,a,2\n", "1500,a,3\n", "9000,a,4\n", "1600,a,5\n"].into_iter());
    let description = |late: &str| {
        format!(
            "[source.in]\nfrom = \"stdin\"\nsplit = \",\"\nfields = [\"t\", \"k\", \"n\"]\n\
             columns = {{ t = \"timestamp(ms)\", n = \"int64\" }}\nevent_time = \"t\"\n{late}\n\
             [[step]]\nop = \"aggregate\"\nby = \"k\"\nwindow = \"tumbling:2s\"\ncompute = \"sum(n) AS s\"\n\
             [[step]]\nop = \"filter\"\nwhere = \"s > 0\"\n{SINK}"
        )
    };
    let dropped = crate::harness::run(&description("late = \"drop\""), input()).unwrap();
    assert_eq!(dropped.outcome.sources[0].1.late, 2);
    let sums = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.split(',').skip(3).collect::<Vec<_>>().join(",")).collect()
    };
    assert_eq!(sums(&dropped.written.text()), ["1", "2", "4"]);
    let allowed = crate::harness::run(&description("late = \"allow:5s\""), input()).unwrap();
    assert_eq!(sums(&allowed.written.text()), ["1,false", "4,true", "2,false", "4,false"]);
    assert_eq!(allowed.outcome.sources[0].1.late, 1);
}

#[test]
fn windows_of_a_generator_count_its_rows() {
    let description = "[source.in]\nfrom = \"generator\"\nrows = 10000\nkeys = 1\nevent_time = \"time\"\n\
                       [[step]]\nop = \"aggregate\"\nwindow = \"tumbling:1ms\"\ncompute = \"count(*) AS n, max(number) AS m\"\n\
                       [[step]]\nop = \"select\"\ncolumns = \"n, m\"\n[sink.out]\nto = \"stdout\"\nformat = \"csv\"\nheader = false\n";
    assert_eq!(
        lines(description, ""),
        (1..=10).map(|k| format!("1000,{}\n", k * 1000 - 1)).collect::<String>()
    );
}
