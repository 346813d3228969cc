//! First come, first served.

use sakiyomi_model::Nanos;

use super::{View, Waiting, cheapest};

pub(super) fn choose(waiting: &[Waiting], view: View<'_>, preference: u64) -> Option<usize> {
    cheapest(waiting, view, preference, cost, |_| true)
}

/// Returns whether all `older` commands rank after a read that arrived at `since`.
pub(super) fn continues_transfer<'a>(
    since: Nanos,
    mut older: impl Iterator<Item = &'a Waiting>,
    preference: u64,
) -> bool {
    older.all(|waiting| cost(waiting) - waiting.read_bonus(preference) > since.0 as i64 - preference as i64)
}

fn cost(waiting: &Waiting) -> i64 {
    waiting.since.0 as i64
}
