//! Session windows.

use std::collections::BTreeMap;

use sakiyomi_stream::operators::{Count, Sessions, Window, WindowResult};

use super::{BEGINS, Step, call, events, key, places, run, run_with_reloads, steps, time};
use crate::inputs::random;

/// Gaps that split much, little and nothing.
const GAPS: [u64; 5] = [1, 4, 15, 100, u64::MAX];

/// End, key and start of all sessions by sorting all values, with the numbers of values.
pub(super) fn sessions(steps: &[Step], gap: u64) -> BTreeMap<(u64, u64, u64), u64> {
    let mut keys: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    events(steps).for_each(|(event, _)| keys.entry(event.key).or_default().push(event.time_ns));
    let mut sessions = BTreeMap::new();
    for (key, mut times) in keys {
        times.sort_unstable();
        for session in times.chunk_by(|one, next| next - one < gap) {
            let end = session.last().unwrap().saturating_add(gap);
            sessions.insert((end, key, session[0]), session.len() as u64);
        }
    }
    sessions
}

fn expected(steps: &[Step], gap: u64) -> Vec<WindowResult<u64, u64>> {
    let result = |((end_ns, key, start_ns), value)| WindowResult {
        window: Window { start_ns, end_ns },
        key,
        value,
        is_update: false,
    };
    sessions(steps, gap).into_iter().map(result).collect()
}

#[test]
fn sessions_are_those_of_sorting_all_values_in_the_order_of_their_ends() {
    let mut random = random(21);
    for begin in BEGINS {
        for gap in GAPS {
            let steps = steps(&mut random, 600, begin);
            let mut operator = Sessions::new(gap, time, key, Count);
            let outputs = run(&mut operator, &steps);
            let results: Vec<_> = outputs.iter().map(|(result, _)| result.clone()).collect();
            assert_eq!(results, expected(&steps, gap), "gap {gap} from {begin}");
            assert_eq!((operator.entries(), operator.late_counter().get()), (0, 0));
            for (result, arrival_ns) in outputs {
                let Window { start_ns, end_ns } = result.window;
                let is_in = |time_ns| start_ns <= time_ns && (time_ns < end_ns || end_ns == u64::MAX);
                let its = events(&steps).filter(|(event, _)| event.key == result.key && is_in(event.time_ns));
                assert_eq!(Some(arrival_ns), its.map(|(_, arrival_ns)| arrival_ns).max());
            }
        }
    }
}

#[test]
fn sessions_that_are_saved_and_loaded_go_on_as_if_they_were_not() {
    let mut random = random(22);
    for begin in BEGINS {
        for gap in GAPS {
            let steps = steps(&mut random, 400, begin);
            let at = places(&mut random, steps.len());
            let outputs = run_with_reloads(|| Sessions::new(gap, time, key, Count), &steps, &at);
            let results: Vec<_> = outputs.into_iter().map(|(result, _)| result).collect();
            assert_eq!(results, expected(&steps, gap));
        }
    }
}

#[test]
fn a_watermark_frees_the_sessions_that_have_ended() {
    let mut random = random(23);
    for gap in [1, 4, 15] {
        let (mut operator, mut outputs) = (Sessions::new(gap, time, key, Count), Vec::new());
        let (mut so_far, mut watermark_ns) = (Vec::new(), 0);
        for step in steps(&mut random, 500, 9) {
            call(&mut operator, step, &mut outputs);
            so_far.push(step);
            if let Step::Watermark(time_ns) = step {
                watermark_ns = watermark_ns.max(time_ns);
                let open =
                    sessions(&so_far, gap).into_keys().filter(|session| session.0 > watermark_ns).count();
                assert_eq!(operator.entries(), open);
            }
        }
        call(&mut operator, Step::Watermark(u64::MAX), &mut outputs);
        assert_eq!(operator.entries(), 0);
    }
}
