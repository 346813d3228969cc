//! Operators of windows: the best of each window by a score.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};
use timely::dataflow::StreamVec;
use timely::dataflow::channels::pact::{Exchange, Pipeline};
use timely::dataflow::operators::{Capability, Operator};

use super::queries::Table;
use crate::event::Bid;
use crate::query::Windows;

/// The highest score of a window, and all that have it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Best<T> {
    pub(super) end_ns: u64,
    pub(super) score: u64,
    pub(super) items: Vec<T>,
}

impl<T> Best<T> {
    fn new(end_ns: u64) -> Best<T> {
        Best { end_ns, score: 0, items: Vec::new() }
    }

    fn add(&mut self, score: u64, items: impl IntoIterator<Item = T>) {
        if score > self.score {
            self.score = score;
            self.items.clear();
        }
        if score == self.score {
            self.items.extend(items);
        }
    }
}

/// The counts of a pane that no frontier has passed.
struct Pane {
    counts: Table<u64, u64>,
    /// For the end of the pane.
    capability: Capability<u64>,
}

/// A sliding window over panes, with the sums of its counts.
#[derive(Default)]
struct Sliding {
    /// Panes in the window, by their numbers.
    panes: VecDeque<(u64, Table<u64, u64>)>,
    totals: Table<u64, u64>,
    /// Number of the last pane of the window, and a capability for its end; after its row for the end of the next one, so
    /// that no operator waits for that.
    last: Option<(u64, Capability<u64>)>,
}

impl Sliding {
    /// Number of the last pane of the next window that is not empty.
    fn next(&self, open: &BTreeMap<u64, Pane>) -> Option<u64> {
        match &self.last {
            Some((last, _)) => Some(last + 1),
            None => open.first_key_value().map(|(&number, _)| number),
        }
    }

    /// Moves the window on to end with a pane, which may be empty.
    fn advance(&mut self, number: u64, pane: Option<Pane>, hops: u64) {
        if let Some(Pane { counts, capability }) = pane {
            for (&auction, &bids) in &counts {
                *self.totals.entry(auction).or_default() += bids;
            }
            self.panes.push_back((number, counts));
            self.last = Some((number, capability));
        } else if let Some((last, _)) = &mut self.last {
            *last = number;
        }
        while self.panes.front().is_some_and(|&(first, _)| first + hops <= number)
            && let Some((_, counts)) = self.panes.pop_front()
        {
            for (auction, bids) in counts {
                if let Some(total) = self.totals.get_mut(&auction) {
                    *total -= bids;
                    if *total == 0 {
                        self.totals.remove(&auction);
                    }
                }
            }
        }
        if self.panes.is_empty() {
            self.last = None;
        }
    }
}

/// The auctions with the most bids of each sliding window, of the auctions of each worker. The sums of a window are those
/// of the previous one, with the new pane added and the old one subtracted.
pub(super) fn hot_auctions<'scope>(
    bids: StreamVec<'scope, u64, Bid>,
    windows: Windows,
) -> StreamVec<'scope, u64, Best<u64>> {
    let (hop_ns, hops) = (windows.hop_ns, windows.sliding_ns() / windows.hop_ns);
    bids.unary_frontier(Exchange::new(|bid: &Bid| bid.auction), "hot auctions", |_, _| {
        let (mut open, mut window) = (BTreeMap::<u64, Pane>::new(), Sliding::default());
        move |(input, frontier), output| {
            input.for_each(|stamp, data| {
                for bid in data.drain(..) {
                    let number = bid.time_ns / hop_ns;
                    let pane = open.entry(number).or_insert_with(|| Pane {
                        counts: Table::default(),
                        capability: stamp.delayed(&((number + 1) * hop_ns), 0),
                    });
                    *pane.counts.entry(bid.auction).or_default() += 1;
                }
            });
            while let Some(number) = window.next(&open) {
                let end_ns = (number + 1) * hop_ns;
                if frontier.less_than(&end_ns) {
                    break;
                }
                window.advance(number, open.remove(&number), hops);
                if let Sliding { totals, last: Some((_, capability)), .. } = &mut window {
                    let mut best = Best::new(end_ns);
                    totals.iter().for_each(|(&auction, &bids)| best.add(bids, [auction]));
                    output.session(&*capability).give(best);
                    capability.downgrade(&(end_ns + hop_ns));
                }
            }
        }
    })
}

/// The highest bids of each tumbling window, of the bids of each worker.
pub(super) fn highest_bids<'scope>(
    bids: StreamVec<'scope, u64, Bid>,
    windows: Windows,
) -> StreamVec<'scope, u64, Best<Bid>> {
    let hop_ns = windows.hop_ns;
    bids.unary_frontier(Pipeline, "highest bids", |_, _| {
        let mut open: BTreeMap<u64, (Best<Bid>, Capability<u64>)> = BTreeMap::new();
        move |(input, frontier), output| {
            input.for_each(|stamp, data| {
                for bid in data.drain(..) {
                    let end_ns = (bid.time_ns / hop_ns + 1) * hop_ns;
                    let (best, _) =
                        open.entry(end_ns).or_insert_with(|| (Best::new(end_ns), stamp.delayed(&end_ns, 0)));
                    best.add(bid.price, [bid]);
                }
            });
            while let Some(first) = open.first_entry().filter(|first| !frontier.less_than(first.key())) {
                let (best, capability) = first.remove();
                output.session(&capability).give(best);
            }
        }
    })
}

/// The best of each window over all workers; nothing is to be done for one.
pub(super) fn best_of_workers<'scope, T>(
    bests: StreamVec<'scope, u64, Best<T>>,
    peers: usize,
) -> StreamVec<'scope, u64, Best<T>>
where
    T: Clone + Send + Serialize + for<'a> Deserialize<'a> + 'static,
{
    if peers == 1 {
        return bests;
    }
    bests.unary_frontier(Exchange::new(|best: &Best<T>| best.end_ns), "best of workers", |_, _| {
        let mut open: BTreeMap<u64, (Best<T>, Capability<u64>)> = BTreeMap::new();
        move |(input, frontier), output| {
            input.for_each(|stamp, data| {
                for Best { end_ns, score, items } in data.drain(..) {
                    let (best, _) =
                        open.entry(end_ns).or_insert_with(|| (Best::new(end_ns), stamp.delayed(&end_ns, 0)));
                    best.add(score, items);
                }
            });
            // Inputs of the time of an end may still come while the frontier is there.
            while let Some(first) = open.first_entry().filter(|first| !frontier.less_equal(first.key())) {
                let (best, capability) = first.remove();
                output.session(&capability).give(best);
            }
        }
    })
}
