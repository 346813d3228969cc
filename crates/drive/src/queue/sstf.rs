//! Shortest seek time first: rotational latency is ignored.

use super::{View, Waiting, least};

pub(super) fn choose(waiting: &[Waiting], view: View<'_>, preference: u64) -> Option<usize> {
    let phase = view.servo.phase(view.now);
    least(waiting, view, preference, |candidate| {
        i64::from(view.servo.travel(phase, view.arm, candidate.target, candidate.write))
    })
}
