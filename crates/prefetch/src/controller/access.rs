//! Whether a program's accesses are sequential: how its position moves.

/// Bytes that a program may skip while its accesses still count as sequential: the position and the number of bytes
/// read are sampled at slightly different instants.
const SKIPPED_MAX_BYTES: u64 = 256 << 10;
/// Forward moves that make accesses sequential, initially.
const FORWARD_MOVES_MIN: u32 = 2;

/// How the position moves.
#[derive(Debug)]
pub(super) struct Access {
    /// Moves forward since the last one that was not.
    forward: u32,
    /// How many of them make it sequential: more, each time that it was not.
    wanted: u32,
    /// Where the present run began, and what the program had read by then.
    from: (u64, Option<u64>),
}

impl Access {
    /// Nothing has been seen to move from there.
    pub(super) fn at(from: u64) -> Access {
        Access { forward: 0, wanted: FORWARD_MOVES_MIN, from: (from, None) }
    }

    /// Takes in a move, and says whether the accesses may still be taken for sequential.
    pub(super) fn see(&mut self, before: u64, at: u64, read: Option<u64>) -> bool {
        /// Limit of the forward moves required, which double each time that the accesses turn out not to be sequential.
        const FORWARD_MOVES_MAX: u32 = 64;
        let skipped = match (self.from.1, read) {
            (Some(had), Some(has)) => {
                at.saturating_sub(self.from.0) > has.saturating_sub(had).saturating_add(SKIPPED_MAX_BYTES)
            }
            _ => false,
        };
        if at < before || skipped {
            self.forward = 0;
            self.wanted = (self.wanted * 2).min(FORWARD_MOVES_MAX);
            self.from = (at, read);
            return false;
        }
        if at > before {
            self.forward = self.forward.saturating_add(1);
        }
        if self.from.1.is_none() || at.saturating_sub(self.from.0) > 64 * SKIPPED_MAX_BYTES {
            self.from = (at, read);
        }
        true
    }

    /// Nothing has been seen to move.
    pub(super) fn is_fresh(&self) -> bool {
        self.forward == 0 && self.wanted == FORWARD_MOVES_MIN
    }

    /// Whether they have once not been sequential.
    pub(super) fn was_elsewhere(&self) -> bool {
        self.wanted > FORWARD_MOVES_MIN
    }

    pub(super) fn is_sequential(&self) -> bool {
        self.forward >= self.wanted
    }
}
