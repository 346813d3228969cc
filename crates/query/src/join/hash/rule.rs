//! Output rows of a hash join, in terms of its build and probe side (pure).

use crate::join::kind::JoinKind;
use crate::join::pairs::Pairs;

/// A side of a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinSide {
    /// The first table.
    Left,
    /// The second table.
    Right,
}

/// Rows of a side that are returned unpaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alone {
    Never,
    /// Rows that have a match.
    Matched,
    /// Rows that have no match.
    Unmatched,
}

impl Alone {
    /// Returns whether a row is returned, depending on whether it has a match.
    pub(super) fn gives(self, is_matched: bool) -> bool {
        match self {
            Alone::Never => false,
            Alone::Matched => is_matched,
            Alone::Unmatched => !is_matched,
        }
    }
}

/// Output rows of a hash join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    /// The build side.
    pub(super) build: JoinSide,
    /// Whether pairs of matching rows are returned.
    pub(super) pairs: bool,
    pub(super) probe_alone: Alone,
    pub(super) build_alone: Alone,
}

impl Rule {
    pub(super) fn new(kind: JoinKind, build: JoinSide) -> Rule {
        let left = match kind {
            JoinKind::Left | JoinKind::Full | JoinKind::Anti => Alone::Unmatched,
            JoinKind::Semi => Alone::Matched,
            JoinKind::Inner | JoinKind::Right => Alone::Never,
        };
        let right = if kind.keeps_right() { Alone::Unmatched } else { Alone::Never };
        let (build_alone, probe_alone) = if build == JoinSide::Left { (left, right) } else { (right, left) };
        Rule { build, pairs: kind.gives_pairs(), probe_alone, build_alone }
    }

    /// Returns whether the first match of a probe row suffices.
    pub(super) fn needs_one_partner(self) -> bool {
        !self.pairs && self.build_alone == Alone::Never
    }

    /// Returns whether an empty build side makes the result empty.
    pub(super) fn is_empty_without_build(self) -> bool {
        self.probe_alone != Alone::Unmatched
    }

    /// Adds an unpaired probe row.
    pub(super) fn give_probe_row(self, row: usize, pairs: &mut Pairs) {
        match self.build {
            JoinSide::Left => pairs.right_only(row..row + 1),
            JoinSide::Right => pairs.left_only(row..row + 1),
        }
    }

    /// Adds an unpaired build row.
    pub(super) fn give_build_row(self, row: usize, pairs: &mut Pairs) {
        match self.build {
            JoinSide::Left => pairs.left_only(row..row + 1),
            JoinSide::Right => pairs.right_only(row..row + 1),
        }
    }
}
