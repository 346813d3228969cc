//! Blocks that have arrived, until the caller takes them.

use std::collections::VecDeque;

use super::block::Block;
use super::options::Order;
use crate::Error;

/// Blocks that have not been returned to the caller.
pub(super) struct ReadyBlocks {
    order: Order,
    /// In file order, the first is the next to return, and those that have not arrived are `None`. In the order of
    /// arrival, all have arrived.
    blocks: VecDeque<Option<Result<Block, Error>>>,
    /// Number of blocks that have arrived.
    pub(super) count: usize,
    /// Sequence number of the next block to return.
    given: u64,
}

impl ReadyBlocks {
    /// No blocks yet.
    pub(super) fn new(order: Order) -> ReadyBlocks {
        ReadyBlocks { order, blocks: VecDeque::new(), count: 0, given: 0 }
    }

    /// Adds the block, or the error in its place, with sequence number `place`.
    pub(super) fn insert(&mut self, place: u64, block: Result<Block, Error>) {
        self.count += 1;
        if self.order == Order::Arrival {
            return self.blocks.push_back(Some(block));
        }
        let at = usize::try_from(place - self.given).expect("as many as fit in memory");
        while self.blocks.len() <= at {
            self.blocks.push_back(None);
        }
        self.blocks[at] = Some(block);
    }

    /// Returns the next block, if it has arrived.
    pub(super) fn pop(&mut self) -> Option<Result<Block, Error>> {
        self.blocks.front()?.as_ref()?;
        self.count -= 1;
        self.given += 1;
        self.blocks.pop_front()?
    }
}
