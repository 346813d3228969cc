//! Joins of two sources: watermarks, arrivals and ends.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use sakiyomi_stream::{
    Emitter, Join, Next, OperatorId, Recover, Settings, Sink, Source, StreamBuilder, Tuple,
};

/// Emits a list of entries.
struct Script(VecDeque<Entry>);

#[derive(Clone, Copy)]
enum Entry {
    /// A value and its arrival.
    Value(char, u64),
    Watermark(u64),
}

impl Source for Script {
    type Out = char;

    fn next(&mut self, _: u64) -> Next<char> {
        match self.0.pop_front() {
            Some(Entry::Value(value, arrival_ns)) => Next::Value { value, arrival_ns },
            Some(Entry::Watermark(time_ns)) => Next::Watermark(time_ns),
            None => Next::End,
        }
    }
}

/// Passes all values on, and emits a character at each watermark and at the end.
struct Merge;

impl Recover for Merge {}

impl Join for Merge {
    type Left = char;
    type Right = char;
    type Out = char;

    fn left(&mut self, value: char, out: &mut Emitter<char>) {
        out.emit(value);
    }

    fn right(&mut self, value: char, out: &mut Emitter<char>) {
        out.emit(value);
    }

    fn watermark(&mut self, time_ns: u64, out: &mut Emitter<char>) {
        out.emit(char::from_digit(u32::try_from(time_ns).unwrap(), 10).unwrap());
    }

    fn end(&mut self, out: &mut Emitter<char>) {
        out.emit('.');
    }
}

/// Values with their arrivals, and watermarks as `w`.
struct Trace(Arc<Mutex<Vec<(char, u64)>>>);

impl Recover for Trace {}

impl Sink for Trace {
    type In = char;

    fn consume(&mut self, tuple: Tuple<char>) {
        self.0.lock().unwrap().push((tuple.value, tuple.arrival_ns));
    }

    fn watermark(&mut self, time_ns: u64) {
        self.0.lock().unwrap().push(('w', time_ns));
    }
}

/// Output of a join of two lists with the operators on these workers.
fn join(left: &[Entry], right: &[Entry], workers: [usize; 4]) -> Vec<(char, u64)> {
    run(left, right, workers, Merge)
}

/// Like [`join`], with a join of one's choice.
fn run(
    left: &[Entry],
    right: &[Entry],
    workers: [usize; 4],
    join: impl Join<Left = char, Right = char, Out = char>,
) -> Vec<(char, u64)> {
    let script = |entries: &[Entry]| Script(entries.iter().copied().collect());
    let trace = Arc::new(Mutex::new(Vec::new()));
    let builder = StreamBuilder::new(2);
    let (left, right) = (builder.source("left", script(left)), builder.source("right", script(right)));
    let joined = left.join("join", right, join);
    assert_eq!(joined.from(), OperatorId(2));
    joined.sink("trace", Trace(Arc::clone(&trace)));
    let report = builder.build().unwrap().start(Settings::unpinned(3), &workers).unwrap().finish().unwrap();
    assert!(report.operators.iter().all(|operator| operator.sequence_violations == 0), "{report:?}");
    let trace = trace.lock().unwrap();
    trace.clone()
}

const PLACEMENTS: [[usize; 4]; 5] = [[0, 0, 0, 0], [0, 1, 0, 0], [0, 1, 1, 1], [0, 1, 2, 0], [0, 0, 1, 2]];

#[test]
fn the_watermark_of_a_join_is_the_earlier_one_of_its_inputs() {
    use Entry::Watermark;
    for workers in PLACEMENTS {
        let trace = join(&[Watermark(3), Watermark(5)], &[Watermark(4), Watermark(7)], workers);
        let watermarks: Vec<u64> =
            trace.iter().filter(|(kind, _)| *kind == 'w').map(|&(_, time)| time).collect();
        // How the inputs interleave decides which watermarks between the first and the last are seen.
        assert!(watermarks.is_sorted_by(|a, b| a < b), "{watermarks:?}");
        assert_eq!(watermarks.last(), Some(&7));
        assert_eq!(trace.last().map(|last| last.0), Some('.'));
        assert_eq!(trace.iter().filter(|(kind, _)| kind.is_ascii_digit()).count(), watermarks.len());
    }
}

#[test]
fn outputs_inherit_the_arrival_of_the_input_that_caused_them() {
    use Entry::Value;
    for workers in PLACEMENTS {
        let mut trace = join(&[Value('a', 10), Value('b', 30)], &[Value('x', 20)], workers);
        assert_eq!(trace.pop().map(|last| last.0), Some('.'));
        trace.sort_unstable();
        assert_eq!(trace, [('a', 10), ('b', 30), ('x', 20)]);
    }
}

#[test]
fn an_input_that_has_ended_holds_no_watermark_back() {
    for workers in PLACEMENTS {
        let trace = join(&[], &[Entry::Watermark(6)], workers);
        let &[('6', at_ns), ('w', 6), ('.', end_ns)] = &trace[..] else { panic!("{trace:?}") };
        assert!(0 < at_ns && at_ns <= end_ns, "the sources' clock when they emitted them: {trace:?}");
    }
}

/// Matches each value of one side with the last one of the other; emits the first match again at the end.
#[derive(Default)]
struct Pairs {
    last: [Option<u64>; 2],
    first_ns: Option<u64>,
}

impl Pairs {
    fn matches(&mut self, side: usize, out: &mut Emitter<char>) {
        self.last[side] = Some(out.arrival_ns());
        if let Some(other_ns) = self.last[1 - side] {
            let arrival_ns = out.arrival_ns().max(other_ns);
            self.first_ns.get_or_insert(arrival_ns);
            out.emit_at('=', arrival_ns);
        }
    }
}

impl Recover for Pairs {}

impl Join for Pairs {
    type Left = char;
    type Right = char;
    type Out = char;

    fn left(&mut self, _: char, out: &mut Emitter<char>) {
        self.matches(0, out);
    }

    fn right(&mut self, _: char, out: &mut Emitter<char>) {
        self.matches(1, out);
    }

    fn end(&mut self, out: &mut Emitter<char>) {
        self.first_ns.iter().for_each(|&arrival_ns| out.emit_at('.', arrival_ns));
    }
}

#[test]
fn a_match_has_the_later_arrival_of_both_sides_in_any_placement() {
    use Entry::Value;
    for (left_ns, right_ns) in [(10, 20), (20, 10)] {
        for workers in PLACEMENTS {
            let trace = run(&[Value('a', left_ns)], &[Value('x', right_ns)], workers, Pairs::default());
            assert_eq!(trace, [('=', 20), ('.', 20)]);
        }
    }
}
