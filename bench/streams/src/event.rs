//! Events of NEXMark, generated once and repeated at scheduled times.
//!
//! The generator makes texts of some hundred bytes, which no query reads and which cost more than most queries. A pool of
//! events is therefore made before a measurement, with the columns that the queries read, and repeated with later
//! identities and times: neither engine pays for the generator.

use std::sync::Arc;

use nexmark::EventGenerator;
use nexmark::config::NexmarkConfig;
use nexmark::event::Event as Generated;
use sakiyomi_stream::{Decode, Decoder, Encode, StateError};
use serde::{Deserialize, Serialize};

/// An event of one of the three streams.
#[derive(Clone, Debug)]
pub enum Event {
    /// A new person.
    Person(Person),
    /// A new auction.
    Auction(Auction),
    /// A bid for an auction.
    Bid(Bid),
}

/// A person, who may bid and sell.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Person {
    /// Identity.
    pub id: u64,
    /// Event time, in nanoseconds.
    pub time_ns: u64,
    /// Texts, which no query changes.
    pub profile: Arc<Profile>,
}

/// Texts of a person.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Profile {
    /// Name.
    pub name: String,
    /// City.
    pub city: String,
    /// State, as two letters.
    pub state: String,
}

/// An auction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Auction {
    /// Identity.
    pub id: u64,
    /// Identity of the person who sells.
    pub seller: u64,
    /// Category, from 10.
    pub category: u64,
    /// Event time, in nanoseconds.
    pub time_ns: u64,
}

/// A bid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Bid {
    /// Identity of the auction.
    pub auction: u64,
    /// Identity of the person who bids.
    pub bidder: u64,
    /// Price in cents.
    pub price: u64,
    /// Event time, in nanoseconds.
    pub time_ns: u64,
}

/// Events that are repeated.
#[derive(Debug)]
pub struct Pool {
    events: Vec<Event>,
    persons: u64,
    auctions: u64,
}

impl Pool {
    /// Generates `count` events, at least 1. The generator seeds each event by its number: `seed` chooses the first one,
    /// and is multiplied so that pools of two seeds share no event.
    #[must_use]
    pub fn generate(seed: u64, count: usize) -> Pool {
        let generator = EventGenerator::new(NexmarkConfig::default()).with_offset(seed * SEED_EVENTS);
        let events: Vec<Event> = generator.take(count.max(1)).map(Event::from).collect();
        let persons = events.iter().filter(|event| matches!(event, Event::Person(_))).count() as u64;
        let auctions = events.iter().filter(|event| matches!(event, Event::Auction(_))).count() as u64;
        Pool { events, persons, auctions }
    }

    /// The event at an index, in a repetition of the pool, at a time. Identities continue from one repetition to the next.
    fn event(&self, index: usize, repetition: u64, time_ns: u64) -> Event {
        let (persons, auctions) = (repetition * self.persons, repetition * self.auctions);
        match &self.events[index] {
            Event::Person(person) => Event::Person(Person {
                id: person.id + persons,
                time_ns,
                profile: Arc::clone(&person.profile),
            }),
            Event::Auction(auction) => Event::Auction(Auction {
                id: auction.id + auctions,
                seller: auction.seller + persons,
                category: auction.category,
                time_ns,
            }),
            Event::Bid(bid) => Event::Bid(Bid {
                auction: bid.auction + auctions,
                bidder: bid.bidder + persons,
                price: bid.price,
                time_ns,
            }),
        }
    }
}

/// Events between the first ones of two seeds: more than any pool has.
const SEED_EVENTS: u64 = 1 << 32;

/// Time before the first event: threads start and dataflows are built meanwhile, and delay no event.
const LEAD_NS: u64 = 50_000_000;

/// The times of events, which are the same in both engines: their scheduled arrivals, and their event times.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    /// Events of a run.
    pub events: u64,
    /// Events in a second.
    pub rate_per_s: f64,
}

impl Schedule {
    /// The time of an event by its number, in nanoseconds since the start of the stream.
    #[must_use]
    pub fn time_ns(&self, number: u64) -> u64 {
        LEAD_NS + (number as f64 * 1e9 / self.rate_per_s) as u64
    }

    /// The time after all events.
    #[must_use]
    pub fn end_ns(&self) -> u64 {
        self.time_ns(self.events)
    }
}

/// Each `stride`-th event of a schedule, in order.
#[derive(Clone, Debug)]
pub struct Feed {
    pool: Arc<Pool>,
    schedule: Schedule,
    stride: u64,
    number: u64,
    index: usize,
    repetition: u64,
    time_ns: u64,
}

impl Feed {
    /// The events `first`, `first + stride` and so on.
    #[must_use]
    pub fn new(pool: Arc<Pool>, schedule: Schedule, first: u64, stride: u64) -> Feed {
        let length = pool.events.len() as u64;
        Feed {
            schedule,
            stride,
            number: first,
            index: (first % length) as usize,
            repetition: first / length,
            time_ns: schedule.time_ns(first),
            pool,
        }
    }

    /// The time of the next event; none after the last one.
    #[must_use]
    pub fn time_ns(&self) -> Option<u64> {
        (self.number < self.schedule.events).then_some(self.time_ns)
    }
}

impl Iterator for Feed {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let time_ns = self.time_ns()?;
        let event = self.pool.event(self.index, self.repetition, time_ns);
        self.number += self.stride;
        self.time_ns = self.schedule.time_ns(self.number);
        self.index += self.stride as usize;
        while self.index >= self.pool.events.len() {
            self.index -= self.pool.events.len();
            self.repetition += 1;
        }
        Some(event)
    }
}

impl From<Generated> for Event {
    fn from(event: Generated) -> Event {
        match event {
            Generated::Person(person) => {
                let profile = Profile { name: person.name, city: person.city, state: person.state };
                Event::Person(Person { id: person.id as u64, time_ns: 0, profile: Arc::new(profile) })
            }
            Generated::Auction(auction) => Event::Auction(Auction {
                id: auction.id as u64,
                seller: auction.seller as u64,
                category: auction.category as u64,
                time_ns: 0,
            }),
            Generated::Bid(bid) => Event::Bid(Bid {
                auction: bid.auction as u64,
                bidder: bid.bidder as u64,
                price: bid.price as u64,
                time_ns: 0,
            }),
        }
    }
}

impl Encode for Person {
    fn encode(&self, out: &mut Vec<u8>) {
        let Profile { name, city, state } = &*self.profile;
        (self.id, self.time_ns).encode(out);
        [name, city, state].into_iter().for_each(|text| text.encode(out));
    }
}

impl Decode for Person {
    fn decode(from: &mut Decoder<'_>) -> Result<Person, StateError> {
        let (id, time_ns) = Decode::decode(from)?;
        let (name, city, state) = Decode::decode(from)?;
        Ok(Person { id, time_ns, profile: Arc::new(Profile { name, city, state }) })
    }
}

impl Encode for Auction {
    fn encode(&self, out: &mut Vec<u8>) {
        (self.id, self.seller, self.category, self.time_ns).encode(out);
    }
}

impl Decode for Auction {
    fn decode(from: &mut Decoder<'_>) -> Result<Auction, StateError> {
        let (id, seller, category, time_ns) = Decode::decode(from)?;
        Ok(Auction { id, seller, category, time_ns })
    }
}

impl Encode for Bid {
    fn encode(&self, out: &mut Vec<u8>) {
        (self.auction, self.bidder, self.price, self.time_ns).encode(out);
    }
}

impl Decode for Bid {
    fn decode(from: &mut Decoder<'_>) -> Result<Bid, StateError> {
        let (auction, bidder, price, time_ns) = Decode::decode(from)?;
        Ok(Bid { auction, bidder, price, time_ns })
    }
}
