//! Shortest seek time first: rotation is not looked at.

use super::{View, Waiting, least};

pub(super) fn choose(waiting: &[Waiting], view: View<'_>, preference: u64) -> Option<usize> {
    least(waiting, view, preference, |candidate| {
        i64::from(view.servo.travel(view.arm, candidate.target, candidate.write))
    })
}
