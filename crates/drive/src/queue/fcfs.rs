//! First come, first served.

use sakiyomi_model::Nanos;

use super::{Candidates, View, Waiting};

pub(super) fn choose<'a>(candidates: Candidates<'a>, view: View<'_>, preference: u64) -> Option<&'a Waiting> {
    let ready = |waiting: &&Waiting| waiting.ready <= view.now;
    let first = candidates.iter().find(ready)?;
    if preference == 0 && candidates.destage.is_none() {
        return Some(first);
    }
    // In order of arrival, so the first read and the first write compete, and dirty data, whose age is its own.
    let other = candidates.queue.older(None).filter(ready).find(|waiting| waiting.write != first.write);
    let destage = candidates.destage.filter(ready);
    [Some(first), other, destage].into_iter().flatten().min_by_key(|waiting| rank(waiting, preference))
}

/// Returns whether all `older` commands rank after a read that arrived at `since`.
pub(super) fn continues_transfer<'a>(
    since: Nanos,
    mut older: impl Iterator<Item = &'a Waiting>,
    preference: u64,
) -> bool {
    older.all(|waiting| cost(waiting) - waiting.read_bonus(preference) > since.0 as i64 - preference as i64)
}

/// Returns the cost of a command, and its place among those of equal cost.
fn rank(waiting: &Waiting, preference: u64) -> (i64, super::Ticket) {
    (cost(waiting) - waiting.read_bonus(preference), waiting.ticket)
}

fn cost(waiting: &Waiting) -> i64 {
    waiting.since.0 as i64
}
