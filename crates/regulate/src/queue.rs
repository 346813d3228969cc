//! Requests queued for the device.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use sakiyomi_model::{Nanos, RequestId};

use crate::rate::Share;

/// A position in the order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Turn {
    pub(crate) arrived: Nanos,
    pub(crate) id: RequestId,
}

/// Queued requests: regulated ones in descending order of requested performance (section 4.2), others in order of
/// arrival.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue {
    regulated: BTreeSet<(Reverse<Share>, Turn)>,
    others: BTreeSet<Turn>,
}

impl Queue {
    pub(crate) fn insert(&mut self, share: Option<Share>, turn: Turn) {
        let new = match share {
            Some(share) => self.regulated.insert((Reverse(share), turn)),
            None => self.others.insert(turn),
        };
        assert!(new, "request {} waits already", turn.id.0);
    }

    pub(crate) fn remove(&mut self, share: Option<Share>, turn: Turn) {
        let there = match share {
            Some(share) => self.regulated.remove(&(Reverse(share), turn)),
            None => self.others.remove(&turn),
        };
        assert!(there, "request {} does not wait", turn.id.0);
    }

    pub(crate) fn first_regulated(&self) -> Option<RequestId> {
        self.regulated.first().map(|(_, turn)| turn.id)
    }

    pub(crate) fn first_other(&self) -> Option<Turn> {
        self.others.first().copied()
    }

    /// Returns the unregulated requests in order of arrival.
    pub(crate) fn others(&self) -> impl Iterator<Item = Turn> {
        self.others.iter().copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.regulated.len() + self.others.len()
    }
}
