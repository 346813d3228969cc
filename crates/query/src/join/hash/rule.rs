//! Which rows a hash join gives, said of its build and its probe side (pure).

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

/// Which rows of a side are given by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alone {
    Never,
    /// Those that have a partner.
    Matched,
    /// Those that have none.
    Unmatched,
}

impl Alone {
    /// Whether a row is given, by whether it has a partner.
    pub(super) fn gives(self, is_matched: bool) -> bool {
        match self {
            Alone::Never => false,
            Alone::Matched => is_matched,
            Alone::Unmatched => !is_matched,
        }
    }
}

/// The rows of a hash join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    /// The side in the hash table.
    pub(super) build: JoinSide,
    /// Whether pairs are given.
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

    /// Whether the first partner of a probe row decides.
    pub(super) fn needs_one_partner(self) -> bool {
        !self.pairs && self.build_alone == Alone::Never
    }

    /// Whether nothing is given without rows of the build side.
    pub(super) fn is_empty_without_build(self) -> bool {
        self.probe_alone != Alone::Unmatched
    }

    /// Gives a row of the probe side by itself.
    pub(super) fn give_probe_row(self, row: usize, pairs: &mut Pairs) {
        match self.build {
            JoinSide::Left => pairs.right_only(row..row + 1),
            JoinSide::Right => pairs.left_only(row..row + 1),
        }
    }

    /// Gives a row of the build side by itself.
    pub(super) fn give_build_row(self, row: usize, pairs: &mut Pairs) {
        match self.build {
            JoinSide::Left => pairs.left_only(row..row + 1),
            JoinSide::Right => pairs.right_only(row..row + 1),
        }
    }
}
