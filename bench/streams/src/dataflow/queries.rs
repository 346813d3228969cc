//! Dataflows of the queries.

use std::collections::{BTreeMap, HashMap};

use timely::dataflow::StreamVec;
use timely::dataflow::channels::pact::Exchange;
use timely::dataflow::operators::vec::Map;
use timely::dataflow::operators::{OkErr, Operator};

use super::Rows;
use super::windows::{best_of_workers, highest_bids, hot_auctions};
use crate::event::{Auction, Bid, Event, Person};
use crate::query::{Query, Row, Windows, in_euros, is_selected, is_wanted_auction, is_wanted_person};

/// Tables with the hash of the other engine.
pub(super) type Table<K, V> = HashMap<K, V, ahash::RandomState>;

/// The rows of a query.
pub(super) fn rows<'scope>(
    query: Query,
    windows: Windows,
    events: StreamVec<'scope, u64, Event>,
    peers: usize,
) -> Rows<'scope> {
    let until_ns = windows.until_ns;
    match query {
        Query::Q1 => {
            events.flat_map(|event| bid(event).map(|bid| (Row::Converted(in_euros(bid)), bid.time_ns)))
        }
        Query::Q2 => events.flat_map(|event| {
            let selected = bid(event).filter(is_selected);
            selected.map(|bid| (Row::Selected(bid.auction, bid.price), bid.time_ns))
        }),
        Query::Q3 => sellers(events),
        Query::Q5 => {
            let hottest = best_of_workers(hot_auctions(events.flat_map(bid), windows), peers);
            let complete = hottest.flat_map(move |hot| (hot.end_ns <= until_ns).then_some(hot));
            complete.flat_map(|hot| {
                let (end_ns, bids) = (hot.end_ns, hot.score);
                hot.items.into_iter().map(move |auction| (Row::Hot(end_ns, auction, bids), end_ns))
            })
        }
        Query::Q7 => {
            let highest = best_of_workers(highest_bids(events.flat_map(bid), windows), peers);
            let complete = highest.flat_map(move |highest| (highest.end_ns <= until_ns).then_some(highest));
            complete.flat_map(|highest| {
                let end_ns = highest.end_ns;
                highest.items.into_iter().map(move |bid| (Row::Highest(end_ns, bid), end_ns))
            })
        }
        Query::Q8 => new_sellers(events, windows),
    }
}

fn bid(event: Event) -> Option<Bid> {
    if let Event::Bid(bid) = event { Some(bid) } else { None }
}

/// A join over all time, whose state grows with the stream.
fn sellers(events: StreamVec<'_, u64, Event>) -> Rows<'_> {
    let wanted = events.flat_map(|event| match event {
        Event::Auction(auction) => is_wanted_auction(&auction).then_some(Ok(auction)),
        Event::Person(person) => is_wanted_person(&person).then_some(Err(person)),
        Event::Bid(_) => None,
    });
    let (auctions, persons): (StreamVec<'_, u64, Auction>, StreamVec<'_, u64, Person>) =
        wanted.ok_err(|either| either);
    let by_seller = Exchange::new(|auction: &Auction| auction.seller);
    let by_person = Exchange::new(|person: &Person| person.id);
    auctions.binary(persons, by_seller, by_person, "sellers", |_, _| {
        let mut auctions_of: Table<u64, Vec<Auction>> = Table::default();
        let mut person_of: Table<u64, Person> = Table::default();
        let pair = |auction: &Auction, person: &Person| {
            (Row::Seller(person.profile.clone(), auction.id), auction.time_ns.max(person.time_ns))
        };
        move |auctions, persons, output| {
            auctions.for_each(|stamp, data| {
                let mut session = output.session(&stamp);
                for auction in data.drain(..) {
                    if let Some(person) = person_of.get(&auction.seller) {
                        session.give(pair(&auction, person));
                    }
                    auctions_of.entry(auction.seller).or_default().push(auction);
                }
            });
            persons.for_each(|stamp, data| {
                let mut session = output.session(&stamp);
                for person in data.drain(..) {
                    for auction in auctions_of.get(&person.id).into_iter().flatten() {
                        session.give(pair(auction, &person));
                    }
                    person_of.insert(person.id, person);
                }
            });
        }
    })
}

/// State of a window of query 8.
#[derive(Default)]
struct JoinWindow {
    /// Time of the first auction of each seller.
    sellers: Table<u64, u64>,
    persons: Table<u64, Person>,
}

/// A join in tumbling windows, which are dropped when both frontiers have passed them.
fn new_sellers<'scope>(events: StreamVec<'scope, u64, Event>, windows: Windows) -> Rows<'scope> {
    let rare = events.flat_map(|event| match event {
        Event::Auction(auction) => Some(Ok(auction)),
        Event::Person(person) => Some(Err(person)),
        Event::Bid(_) => None,
    });
    let (auctions, persons): (StreamVec<'_, u64, Auction>, StreamVec<'_, u64, Person>) =
        rare.ok_err(|either| either);
    let by_seller = Exchange::new(|auction: &Auction| auction.seller);
    let by_person = Exchange::new(|person: &Person| person.id);
    let size_ns = windows.join_ns();
    auctions.binary_frontier(persons, by_seller, by_person, "new sellers", |_, _| {
        let mut open: BTreeMap<u64, JoinWindow> = BTreeMap::new();
        let row = move |person: &Person, due_ns| {
            (Row::New(person.id, person.profile.clone(), person.time_ns / size_ns * size_ns), due_ns)
        };
        move |(auctions, auctions_frontier), (persons, persons_frontier), output| {
            auctions.for_each(|stamp, data| {
                let mut session = output.session(&stamp);
                for auction in data.drain(..) {
                    let window = open.entry(auction.time_ns / size_ns).or_default();
                    if window.sellers.contains_key(&auction.seller) {
                        continue;
                    }
                    if let Some(person) = window.persons.get(&auction.seller) {
                        session.give(row(person, auction.time_ns.max(person.time_ns)));
                    }
                    window.sellers.insert(auction.seller, auction.time_ns);
                }
            });
            persons.for_each(|stamp, data| {
                let mut session = output.session(&stamp);
                for person in data.drain(..) {
                    let window = open.entry(person.time_ns / size_ns).or_default();
                    if let Some(&auction_ns) = window.sellers.get(&person.id) {
                        session.give(row(&person, auction_ns.max(person.time_ns)));
                    }
                    window.persons.insert(person.id, person);
                }
            });
            while let Some(first) = open.first_entry() {
                let end_ns = (first.key() + 1) * size_ns;
                if auctions_frontier.less_than(&end_ns) || persons_frontier.less_than(&end_ns) {
                    break;
                }
                first.remove();
            }
        }
    })
}
