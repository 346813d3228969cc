//! Shortest seek time first: rotational latency is ignored.

use super::{Candidates, View, Waiting, least};

pub(super) fn choose<'a>(candidates: Candidates<'a>, view: View<'_>, preference: u64) -> Option<&'a Waiting> {
    let phase = view.servo.phase(view.now);
    least(candidates, view, preference, |candidate| {
        i64::from(view.servo.travel(phase, view.arm, candidate.target, candidate.write))
    })
}
