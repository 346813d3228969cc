//! Detects sequential access from the moves of a position.

/// Bytes that a program may skip while its accesses still count as sequential: the position and the number of bytes
/// read are sampled at slightly different instants.
const SKIPPED_MAX_BYTES: u64 = 256 << 10;
/// Forward moves that make accesses sequential, initially.
const FORWARD_MOVES_MIN: u32 = 2;

/// Moves of a position.
#[derive(Debug)]
pub(super) struct Access {
    /// Forward moves since the last other move.
    forward: u32,
    /// Forward moves that make the access sequential; doubles each time that it turns out not to be.
    wanted: u32,
    /// Start of the current run, and the bytes that the program had read by then.
    from: (u64, Option<u64>),
}

impl Access {
    /// Starts at a position without moves.
    pub(super) fn at(from: u64) -> Access {
        Access { forward: 0, wanted: FORWARD_MOVES_MIN, from: (from, None) }
    }

    /// Processes a move; returns whether the access may still be sequential.
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

    /// Returns whether no move has been observed.
    pub(super) fn is_fresh(&self) -> bool {
        self.forward == 0 && self.wanted == FORWARD_MOVES_MIN
    }

    /// Returns whether the access was non-sequential at some time.
    pub(super) fn was_elsewhere(&self) -> bool {
        self.wanted > FORWARD_MOVES_MIN
    }

    pub(super) fn is_sequential(&self) -> bool {
        self.forward >= self.wanted
    }
}
