//! The queries: their statements, their rows, and the conditions that all engines share.
//!
//! Statements are those of Tucker, Tufte, Papadimos and Maier, *NEXMark: A Benchmark for Queries over Data Streams*
//! (2002), and of Apache Beam's suite for 5, 7 and 8. Ties are kept: of two auctions with the most bids, both are rows.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::event::{Auction, Bid, Person, Profile};

/// A query, by its number in the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Query {
    /// Prices of all bids in euros.
    Q1,
    /// Bids for some auctions.
    Q2,
    /// Persons of three states who sell in a category, with their auctions: a join over all time.
    Q3,
    /// The auctions with the most bids in a sliding window.
    Q5,
    /// The highest bids of a tumbling window.
    Q7,
    /// Persons who have opened an auction in the window in which they were new: a join in windows.
    Q8,
}

impl Query {
    /// All queries.
    pub const ALL: [Query; 6] = [Query::Q1, Query::Q2, Query::Q3, Query::Q5, Query::Q7, Query::Q8];

    /// The number in the benchmark.
    #[must_use]
    pub fn number(self) -> u32 {
        match self {
            Query::Q1 => 1,
            Query::Q2 => 2,
            Query::Q3 => 3,
            Query::Q5 => 5,
            Query::Q7 => 7,
            Query::Q8 => 8,
        }
    }

    /// The query of a number.
    #[must_use]
    pub fn of_number(number: u32) -> Option<Query> {
        Query::ALL.into_iter().find(|query| query.number() == number)
    }
}

impl fmt::Display for Query {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "Q{}", self.number())
    }
}

/// Sizes of windows.
#[derive(Clone, Copy, Debug)]
pub struct Windows {
    /// Time between the ends of two windows of query 5, and size of those of query 7, in nanoseconds.
    pub hop_ns: u64,
    /// Windows that end later are left out: they are incomplete when a run ends.
    pub until_ns: u64,
}

/// Hops in a window of query 5; its original has 60 minutes and 1 minute.
const SLIDING_HOPS: u64 = 10;

/// Hops in a window of query 8. Persons and their auctions are rare: 1 and 3 of 50 events.
const JOIN_HOPS: u64 = 100;

impl Windows {
    /// Windows of this hop, in nanoseconds, without an end.
    #[must_use]
    pub fn endless(hop_ns: u64) -> Windows {
        Windows { hop_ns, until_ns: u64::MAX }
    }

    /// Size of the windows of query 5, in nanoseconds.
    #[must_use]
    pub fn sliding_ns(&self) -> u64 {
        self.hop_ns * SLIDING_HOPS
    }

    /// Size of the windows of query 8, in nanoseconds.
    #[must_use]
    pub fn join_ns(&self) -> u64 {
        self.hop_ns * JOIN_HOPS
    }
}

/// A row of a result.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Row {
    /// Row of query 1: a bid with its price in euro cents.
    Converted(Bid),
    /// Row of query 2: auction and price.
    Selected(u64, u64),
    /// Row of query 3: texts of the seller, and the auction.
    Seller(Arc<Profile>, u64),
    /// Row of query 5: end of the window in nanoseconds, auction, and number of bids.
    Hot(u64, u64, u64),
    /// Row of query 7: end of the window in nanoseconds, and the bid.
    Highest(u64, Bid),
    /// Row of query 8: person, name, and start of the window in nanoseconds.
    New(u64, Arc<Profile>, u64),
}

impl Row {
    /// A number that differs between most different rows. Sums of it tell whether two results have the same rows.
    #[must_use]
    pub fn digest(&self) -> u64 {
        let mixed = |values: [u64; 4]| {
            values
                .into_iter()
                .fold(0, |sum: u64, value| (sum.rotate_left(23) ^ value).wrapping_mul(MIX_FACTOR))
        };
        match self {
            Row::Converted(bid) => mixed([bid.auction, bid.bidder, bid.price, bid.time_ns]),
            Row::Selected(auction, price) => mixed([*auction, *price, 0, 2]),
            Row::Seller(profile, auction) => mixed([*auction, profile.name.len() as u64, 0, 3]),
            Row::Hot(end_ns, auction, bids) => mixed([*end_ns, *auction, *bids, 5]),
            Row::Highest(end_ns, bid) => mixed([*end_ns, bid.auction, bid.price, bid.time_ns]),
            Row::New(person, profile, start_ns) => mixed([*person, *start_ns, profile.name.len() as u64, 8]),
        }
    }
}

/// An odd number whose bits look random: the golden ratio, as in SplitMix64.
const MIX_FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

/// Euro cents for 1,000 cents, by the benchmark.
const EUROS_PER_1000: u64 = 908;

/// The bid with its price in euro cents, rounded down.
#[must_use]
pub fn in_euros(bid: Bid) -> Bid {
    Bid { price: bid.price * EUROS_PER_1000 / 1000, ..bid }
}

/// Every auction whose number is divisible by this one is selected: the condition of later suites, which the original's
/// list of five auctions would hardly ever fulfill.
pub const SELECTED_DIVISOR: u64 = 123;

/// Whether query 2 selects a bid.
#[must_use]
pub fn is_selected(bid: &Bid) -> bool {
    bid.auction.is_multiple_of(SELECTED_DIVISOR)
}

/// The category of query 3.
const CATEGORY_WANTED: u64 = 10;

/// Whether query 3 joins an auction.
#[must_use]
pub fn is_wanted_auction(auction: &Auction) -> bool {
    auction.category == CATEGORY_WANTED
}

/// Whether query 3 joins a person.
#[must_use]
pub fn is_wanted_person(person: &Person) -> bool {
    ["or", "id", "ca"].contains(&person.profile.state.as_str())
}
