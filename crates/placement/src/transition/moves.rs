//! The order of changes from one placement to another.
//!
//! A *piece* is the operators that share a group both in the current and in the wanted placement. Pieces are split
//! from their groups, moved, and fused with others of their wanted group. Splitting the first or the last piece of a
//! group, in the order in which wanted groups send, never creates a cycle, nor does fusing pieces of a wanted group
//! that have no others between them. If no core is free, two groups that share a wanted group are fused, and then
//! split as wanted; as a last resort all groups that may be fused are fused first.

use crate::model::constraints::Pin;
use crate::{Group, Model, Placement};

/// A change of a placement. Cores are named by their index in the topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Move {
    /// A group moves to an idle core.
    Move {
        /// Core of the group.
        from: usize,
        /// An idle core.
        to: usize,
    },
    /// Operators leave their group for an idle core: calls between them become a ring.
    Split {
        /// The operators that leave, in ascending order.
        operators: Vec<usize>,
        /// Core of their group.
        from: usize,
        /// An idle core.
        to: usize,
    },
    /// A group joins that of another core: rings between them become calls.
    Fuse {
        /// Core of the group, idle afterwards.
        from: usize,
        /// Core of the other group.
        into: usize,
    },
    /// The replicas of a group change.
    Repartition {
        /// Cores of the group.
        from: Vec<usize>,
        /// Its cores afterwards: present or idle ones.
        to: Vec<usize>,
    },
}

impl Placement {
    /// Returns the placement after a change; `None` if the change does not fit this placement.
    #[must_use]
    pub fn after(&self, change: &Move) -> Option<Placement> {
        let is_idle = |core: &usize| self.groups.iter().all(|group| !group.cores.contains(core));
        let with = |cores: &[usize]| self.groups.iter().position(|group| group.cores == cores);
        let mut groups = self.groups.clone();
        match change {
            Move::Move { from, to } => {
                groups[with(&[*from])?].cores = Some(vec![*to]).filter(|_| is_idle(to))?;
            }
            Move::Split { operators, from, to } => {
                let group = &mut groups[with(&[*from])?].operators;
                let before = group.len();
                group.retain(|operator| !operators.contains(operator));
                let is_part =
                    before == group.len() + operators.len() && !group.is_empty() && !operators.is_empty();
                (is_part && is_idle(to)).then_some(())?;
                groups.push(Group { operators: operators.clone(), cores: vec![*to] });
            }
            Move::Fuse { from, into } => {
                let joining = (from != into).then(|| with(&[*from])).flatten()?;
                let operators = groups[joining].operators.clone();
                let group = &mut groups[with(&[*into])?].operators;
                group.extend(operators);
                group.sort_unstable();
                groups.remove(joining);
            }
            Move::Repartition { from, to } => {
                let is_free = |core: &usize| from.contains(core) || is_idle(core);
                let is_once = |index: usize| !to[..index].contains(&to[index]);
                let is_set = !to.is_empty() && (0..to.len()).all(is_once);
                groups[with(from)?].cores = Some(to.clone()).filter(|to| is_set && to.iter().all(is_free))?;
            }
        }
        groups.sort_by(|one, other| one.operators.cmp(&other.operators));
        Some(Placement { groups })
    }
}

/// The state of a transition: the changes made so far.
pub(super) struct Transition<'a> {
    model: &'a Model<'a>,
    to: &'a Placement,
    /// The wanted group of each operator.
    wanted: Vec<usize>,
    /// For each wanted group its position in the order in which they send.
    rank: Vec<usize>,
    /// The core of each wanted group; that of its first replica if it has several.
    home: Vec<usize>,
    at: Placement,
    moves: Vec<Move>,
    /// Whether all groups that may be fused have been fused.
    is_fused: bool,
}

impl<'a> Transition<'a> {
    pub(super) fn new(model: &'a Model<'a>, from: &Placement, to: &'a Placement) -> Transition<'a> {
        let wanted = to.group_of(model.pipeline.operators().len());
        let order = model.sending_order(to);
        let mut rank = vec![0; order.len()];
        order.into_iter().enumerate().for_each(|(place, group)| rank[group] = place);
        let home = to.groups.iter().map(|group| group.cores[0]).collect();
        Transition { model, to, wanted, rank, home, at: from.clone(), moves: Vec::new(), is_fused: false }
    }

    /// Returns all changes; `None` if none were found that lead to the wanted placement.
    pub(super) fn moves(mut self) -> Option<Vec<Move>> {
        self.shrink();
        while !self.is_grouped() {
            let is_done = self.split_home()
                || self.move_home()
                || self.fuse()
                || self.split_aside()
                || self.exchange()
                || self.fuse_all();
            if !is_done {
                return None;
            }
        }
        self.grow();
        Some(self.moves)
    }

    /// Applies a change if the placement after it is valid.
    fn apply(&mut self, change: Move) -> bool {
        match self.at.after(&change) {
            Some(next) if self.model.check(&next).is_ok() => {
                self.at = next;
                self.moves.push(change);
                true
            }
            _ => false,
        }
    }

    /// Gives replicated groups their wanted cores at once if these are idle and the operators stay together, and
    /// other groups a single core.
    fn shrink(&mut self) {
        for group in self.at.groups.clone() {
            let wanted = self.wanted[group.operators[0]];
            let to = &self.to.groups[wanted];
            let is_same = to.operators == group.operators;
            if group.cores.len() == 1 && !(is_same && to.cores.len() > 1)
                || is_same && is_same_set(&group.cores, &to.cores)
            {
                continue;
            }
            let all = Move::Repartition { from: group.cores.clone(), to: to.cores.clone() };
            if is_same && self.apply(all) {
                continue;
            }
            if group.cores.len() > 1 {
                let stays =
                    group.cores.iter().find(|core| to.cores.contains(core)).unwrap_or(&group.cores[0]);
                if is_same && to.cores.contains(stays) {
                    self.home[wanted] = *stays;
                }
                self.apply(Move::Repartition { from: group.cores.clone(), to: vec![*stays] });
            }
        }
        for group in self.at.groups.clone().iter().filter(|group| group.cores.len() == 1) {
            // A wanted replica that already runs is as good a home as the first.
            let wanted = self.wanted[group.operators[0]];
            if self.to.groups[wanted].cores.contains(&group.cores[0]) && self.is_homeless(wanted) {
                self.home[wanted] = group.cores[0];
            }
        }
    }

    /// Returns whether no operator of a wanted group is at its home.
    fn is_homeless(&self, wanted: usize) -> bool {
        let home = self.home[wanted];
        let is_there = |group: &Group| group.cores.contains(&home) && self.pieces(group).contains(&wanted);
        !self.at.groups.iter().any(is_there)
    }

    /// Adds the wanted replicas.
    fn grow(&mut self) {
        for group in &self.to.groups {
            let from = self.at.groups.iter().find(|other| other.operators == group.operators);
            let from = from.map_or_else(Vec::new, |from| from.cores.clone());
            if !is_same_set(&from, &group.cores) {
                let is_grown = self.apply(Move::Repartition { from, to: group.cores.clone() });
                debug_assert!(is_grown, "{group:?} from {:?}", self.at);
            }
        }
    }

    /// Returns whether all groups are the wanted ones, at home.
    fn is_grouped(&self) -> bool {
        self.at.groups.len() == self.to.groups.len()
            && self.at.groups.iter().all(|group| {
                let wanted = self.wanted[group.operators[0]];
                self.to.groups[wanted].operators == group.operators
                    && group.cores.contains(&self.home[wanted])
            })
    }

    /// Returns the wanted groups of a group's operators, in the order in which they send.
    fn pieces(&self, group: &Group) -> Vec<usize> {
        let mut pieces: Vec<usize> = group.operators.iter().map(|&operator| self.wanted[operator]).collect();
        pieces.sort_by_key(|&piece| self.rank[piece]);
        pieces.dedup();
        pieces
    }

    fn is_idle(&self, core: usize) -> bool {
        self.at.groups.iter().all(|group| !group.cores.contains(&core))
    }

    /// Returns an idle core, if possible one that is not a home of a wanted group.
    fn idle(&self) -> Option<usize> {
        let is_idle = |&core: &usize| self.model.constraints.is_open(core) && self.is_idle(core);
        let is_home = |core: &usize| self.to.groups.iter().any(|group| group.cores.contains(core));
        (0..self.model.topology.cores()).filter(is_idle).min_by_key(is_home)
    }

    /// Returns the first and the last piece of a group of several, each with its operators.
    fn ends(&self, group: &Group) -> Vec<(usize, Vec<usize>)> {
        let pieces = self.pieces(group);
        let [first, .., last] = pieces[..] else { return Vec::new() };
        let operators = |piece: usize| {
            group.operators.iter().copied().filter(|&operator| self.wanted[operator] == piece).collect()
        };
        [last, first].map(|piece| (piece, operators(piece))).into()
    }

    /// Splits a piece from its group, to its home.
    fn split_home(&mut self) -> bool {
        for group in self.at.groups.clone() {
            for (piece, operators) in self.ends(&group) {
                let (from, to) = (group.cores[0], self.home[piece]);
                if self.is_idle(to) && self.apply(Move::Split { operators, from, to }) {
                    return true;
                }
            }
        }
        false
    }

    /// Moves a group that is a piece to its home.
    fn move_home(&mut self) -> bool {
        for group in self.at.groups.clone() {
            if let [piece] = self.pieces(&group)[..] {
                let (from, to) = (group.cores[0], self.home[piece]);
                if from != to && group.cores.len() == 1 && self.apply(Move::Move { from, to }) {
                    return true;
                }
            }
        }
        false
    }

    /// Fuses two groups that are pieces of one wanted group.
    fn fuse(&mut self) -> bool {
        let groups = self.at.groups.clone();
        for one in &groups {
            for other in &groups {
                let (pieces, others) = (self.pieces(one), self.pieces(other));
                let is_same = pieces.len() == 1 && pieces == others && one.cores != other.cores;
                // Onto the core of the one at home, if there is one.
                if is_same && one.cores[0] != self.home[pieces[0]] && self.join(one, other) {
                    return true;
                }
            }
        }
        false
    }

    /// Splits a piece from its group, or moves one that occupies another's home, to any idle core.
    fn split_aside(&mut self) -> bool {
        let Some(to) = self.idle() else { return false };
        for group in self.at.groups.clone() {
            let from = group.cores[0];
            for (piece, operators) in self.ends(&group) {
                if self.home[piece] != from && self.apply(Move::Split { operators, from, to }) {
                    return true;
                }
            }
        }
        for group in self.at.groups.clone() {
            let from = group.cores[0];
            let is_in_the_way =
                self.home[self.wanted[group.operators[0]]] != from && self.home.contains(&from);
            if is_in_the_way && group.cores.len() == 1 && self.apply(Move::Move { from, to }) {
                return true;
            }
        }
        false
    }

    /// Without an idle core: fuses the group of a piece with that at its home, or with others of its wanted group,
    /// and splits off what does not belong there.
    fn exchange(&mut self) -> bool {
        let groups = self.at.groups.clone();
        for one in &groups {
            for piece in self.pieces(one) {
                for other in groups.iter().filter(|other| other.cores != one.cores) {
                    let is_home = other.cores[0] == self.home[piece];
                    if !is_home && !self.pieces(other).contains(&piece) || one.cores[0] == self.home[piece] {
                        continue;
                    }
                    if self.try_exchange(one, other, piece) {
                        return true;
                    }
                }
            }
        }
        false
    }

    /// Fuses two groups on the core of `other`, and splits off the operators that are not of `piece`, or not of
    /// `one`, so that there are fewer pieces or more of them at home.
    fn try_exchange(&mut self, one: &Group, other: &Group, piece: usize) -> bool {
        let before = (self.at.clone(), self.moves.len(), self.progress());
        if self.join(one, other) {
            let (idle, at) = if self.is_idle(one.cores[0]) {
                (one.cores[0], other.cores[0])
            } else {
                (other.cores[0], one.cores[0])
            };
            let of = |group: &Group, is_piece: bool| -> Vec<usize> {
                let is_wanted = |operator: &usize| (self.wanted[*operator] == piece) == is_piece;
                group.operators.iter().copied().filter(is_wanted).collect()
            };
            let candidates = [of(one, false), of(other, false), of(one, true), of(other, true)];
            let fused = (self.at.clone(), self.moves.len());
            for operators in candidates {
                if self.apply(Move::Split { operators, from: at, to: idle }) && self.progress() > before.2 {
                    return true;
                }
                self.at = fused.0.clone();
                self.moves.truncate(fused.1);
            }
        }
        self.at = before.0;
        self.moves.truncate(before.1);
        false
    }

    /// Returns a measure of progress: fewer pieces, then more operators at home.
    fn progress(&self) -> (std::cmp::Reverse<usize>, usize) {
        let pieces = self.at.groups.iter().map(|group| self.pieces(group).len()).sum();
        let at_home = self.at.groups.iter().flat_map(|group| {
            group
                .operators
                .iter()
                .filter(|&&operator| group.cores.contains(&self.home[self.wanted[operator]]))
        });
        (std::cmp::Reverse(pieces), at_home.count())
    }

    /// Fuses groups, once, until no more may be fused.
    fn fuse_all(&mut self) -> bool {
        if std::mem::replace(&mut self.is_fused, true) {
            return false;
        }
        let before = self.moves.len();
        for group in self.at.groups.clone().into_iter().filter(|group| group.cores.len() > 1) {
            self.apply(Move::Repartition { to: vec![group.cores[0]], from: group.cores });
        }
        while self.fuse_any() {}
        self.moves.len() > before
    }

    fn fuse_any(&mut self) -> bool {
        let groups = self.at.groups.clone();
        groups.iter().any(|one| groups.iter().any(|other| one.cores != other.cores && self.join(one, other)))
    }

    /// Fuses two groups on the core of the second, or on that of the first if it has pinned operators.
    fn join(&mut self, one: &Group, other: &Group) -> bool {
        if one.cores.len() > 1 || other.cores.len() > 1 {
            return false;
        }
        let is_pinned = matches!(self.model.constraints.pin_of(&one.operators), Pin::Core(_));
        let (from, into) = if is_pinned { (other, one) } else { (one, other) };
        self.apply(Move::Fuse { from: from.cores[0], into: into.cores[0] })
    }
}

/// Returns whether two lists of distinct cores contain the same cores.
fn is_same_set(one: &[usize], other: &[usize]) -> bool {
    one.len() == other.len() && one.iter().all(|core| other.contains(core))
}
