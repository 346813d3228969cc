//! First come, first served.

use super::{View, Waiting, least};

pub(super) fn choose(waiting: &[Waiting], view: View<'_>, preference: u64) -> Option<usize> {
    least(waiting, view, preference, |candidate| candidate.since.0 as i64)
}
