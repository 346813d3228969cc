//! Loser tree: selects the smallest head of many sorted sequences, with one comparison per level after a head changes
//! (Knuth, The Art of Computer Programming, volume 3, section 5.4.1).

/// A loser tree over numbered sequences. The root holds the overall winner, each other node the loser of its match.
#[derive(Debug)]
pub(crate) struct LoserTree {
    /// Node 0 is the winner; the sequences are implicit leaves after the last node.
    nodes: Vec<u32>,
}

impl LoserTree {
    /// Builds a tree over `sequences` (at least one). `is_before` returns whether the head of one sequence precedes
    /// that of another; it must be a strict total order.
    pub(crate) fn new(sequences: usize, is_before: impl Fn(usize, usize) -> bool) -> LoserTree {
        let mut winners = vec![0; 2 * sequences];
        let mut nodes = vec![0; sequences];
        (0..sequences).for_each(|sequence| winners[sequences + sequence] = sequence as u32);
        for node in (1..sequences).rev() {
            let (left, right) = (winners[2 * node], winners[2 * node + 1]);
            let (winner, loser) =
                if is_before(right as usize, left as usize) { (right, left) } else { (left, right) };
            (winners[node], nodes[node]) = (winner, loser);
        }
        nodes[0] = if sequences == 1 { 0 } else { winners[1] };
        LoserTree { nodes }
    }

    /// Returns the sequence with the smallest head.
    pub(crate) fn winner(&self) -> usize {
        self.nodes[0] as usize
    }

    /// Replays the matches of the winner after its head has changed.
    pub(crate) fn replay(&mut self, is_before: impl Fn(usize, usize) -> bool) {
        let mut winner = self.nodes[0];
        let mut node = (winner as usize + self.nodes.len()) / 2;
        while node > 0 {
            let loser = &mut self.nodes[node];
            if is_before(*loser as usize, winner as usize) {
                std::mem::swap(loser, &mut winner);
            }
            node /= 2;
        }
        self.nodes[0] = winner;
    }
}

#[cfg(test)]
mod tests;
