//! The results by plain loops over all events: obviously right, and slow.

use std::collections::{BTreeMap, BTreeSet};

use crate::event::{Auction, Bid, Event, Person};
use crate::query::{Query, Row, Windows, in_euros, is_selected, is_wanted_auction, is_wanted_person};

/// The rows of a query, in order.
#[must_use]
pub fn rows(query: Query, windows: Windows, events: &[Event]) -> Vec<Row> {
    let (mut persons, mut auctions, mut bids) = (Vec::new(), Vec::new(), Vec::new());
    for event in events {
        match event {
            Event::Person(person) => persons.push(person.clone()),
            Event::Auction(auction) => auctions.push(*auction),
            Event::Bid(bid) => bids.push(*bid),
        }
    }
    let mut rows = match query {
        Query::Q1 => bids.into_iter().map(in_euros).map(Row::Converted).collect(),
        Query::Q2 => bids.iter().filter(|bid| is_selected(bid)).map(selected).collect(),
        Query::Q3 => sellers(&persons, &auctions),
        Query::Q5 => hot_auctions(windows, &bids),
        Query::Q7 => highest_bids(windows, &bids),
        Query::Q8 => new_sellers(windows, &persons, &auctions),
    };
    rows.sort_unstable();
    rows
}

fn selected(bid: &Bid) -> Row {
    Row::Selected(bid.auction, bid.price)
}

fn sellers(persons: &[Person], auctions: &[Auction]) -> Vec<Row> {
    let mut rows = Vec::new();
    for auction in auctions.iter().filter(|auction| is_wanted_auction(auction)) {
        let sellers = persons.iter().filter(|person| person.id == auction.seller && is_wanted_person(person));
        rows.extend(sellers.map(|person| Row::Seller(person.profile.clone(), auction.id)));
    }
    rows
}

fn hot_auctions(windows: Windows, bids: &[Bid]) -> Vec<Row> {
    let mut counts: BTreeMap<u64, BTreeMap<u64, u64>> = BTreeMap::new();
    for bid in bids {
        // The first end after the bid, and all for which it is less than a window ago.
        let mut end_ns = (bid.time_ns / windows.hop_ns + 1) * windows.hop_ns;
        while end_ns <= bid.time_ns + windows.sliding_ns() {
            *counts.entry(end_ns).or_default().entry(bid.auction).or_default() += 1;
            end_ns += windows.hop_ns;
        }
    }
    let mut rows = Vec::new();
    for (end_ns, auctions) in counts.range(..=windows.until_ns) {
        let most = auctions.values().max();
        let hottest = auctions.iter().filter(|(_, bids)| Some(*bids) == most);
        rows.extend(hottest.map(|(&auction, &bids)| Row::Hot(*end_ns, auction, bids)));
    }
    rows
}

fn highest_bids(windows: Windows, bids: &[Bid]) -> Vec<Row> {
    let mut by_end: BTreeMap<u64, Vec<Bid>> = BTreeMap::new();
    for bid in bids {
        by_end.entry((bid.time_ns / windows.hop_ns + 1) * windows.hop_ns).or_default().push(*bid);
    }
    let mut rows = Vec::new();
    for (end_ns, bids) in by_end.range(..=windows.until_ns) {
        let highest = bids.iter().map(|bid| bid.price).max();
        let bids = bids.iter().filter(|bid| Some(bid.price) == highest);
        rows.extend(bids.map(|bid| Row::Highest(*end_ns, *bid)));
    }
    rows
}

fn new_sellers(windows: Windows, persons: &[Person], auctions: &[Auction]) -> Vec<Row> {
    let window = |time_ns: u64| time_ns / windows.join_ns();
    let sold: BTreeSet<(u64, u64)> =
        auctions.iter().map(|auction| (window(auction.time_ns), auction.seller)).collect();
    let new = persons.iter().filter(|person| sold.contains(&(window(person.time_ns), person.id)));
    let row = |person: &Person| {
        Row::New(person.id, person.profile.clone(), window(person.time_ns) * windows.join_ns())
    };
    new.map(row).collect()
}
