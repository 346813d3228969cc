//! A loser tree: the smallest of the heads of many sorted sequences, by one comparison on each level when a head has
//! changed (Knuth, The Art of Computer Programming, volume 3, section 5.4.1).

/// Sequences by number. Each node but the root holds the loser of the match at it, the root the winner of all.
#[derive(Debug)]
pub(crate) struct LoserTree {
    /// Node 0 is the winner; the sequences are the leaves behind the last node.
    nodes: Vec<u32>,
}

impl LoserTree {
    /// A tree over a number of sequences, at least one. `is_before` tells whether the head of one sequence comes before
    /// that of another; it must order them all.
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

    /// The sequence with the smallest head.
    pub(crate) fn winner(&self) -> usize {
        self.nodes[0] as usize
    }

    /// Plays the matches of the winner again, whose head has changed.
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
