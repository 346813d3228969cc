//! The queries on `sakiyomi-stream`.

use std::sync::mpsc;

use anyhow::{Context, Result, bail};
use sakiyomi_stream::operators::{
    Aggregate, EventTime, MostFrequent, TimeJoin, WindowDistinct, WindowResult, Windows as WindowOperator,
    flat_map, side,
};
use sakiyomi_stream::{
    DueValues, Emitter, Flow, Next, Pause, Recover, Settings, Sink, Source, Stream, StreamBuilder, Tuple,
    each,
};

use crate::event::{Auction, Bid, Event, Feed, Person};
use crate::load::{Load, Moment, Outcome, Pace, Results, histogram};
use crate::query::{Query, Row, Windows, in_euros, is_selected, is_wanted_auction, is_wanted_person};

/// Slots of a ring between two workers.
const RING_SLOTS: usize = 1024;

/// Runs a query.
///
/// # Errors
/// If the stream cannot be started, or an operator stopped.
pub fn run(load: &Load) -> Result<Outcome> {
    let (rows, ended) = Rows::new(load.keeps_rows);
    let (stream, first_on_second) = build(load, rows)?;
    let last = load.workers.len() - 1;
    let operators = stream.names().count();
    let worker_of: Vec<usize> =
        (0..operators).map(|operator| usize::from(operator >= first_on_second).min(last)).collect();
    let settings = Settings { workers: load.workers.clone(), spin: load.spin };
    let begin = Moment::now();
    let report = stream.start(settings, &worker_of)?.finish()?;
    if let Some(failure) = report.failures.first() {
        bail!("{}: {failure}", load.query);
    }
    let (end, results) = ended.recv().context("the sink has not ended")?;
    let (elapsed, cpu) = end.since(begin);
    let latency = report.operators.last().and_then(|sink| sink.latency.clone());
    Ok(Outcome { elapsed, cpu, results, latency: latency.map_or_else(histogram, |latency| latency.total) })
}

/// The stream of a query, and the first operator on the second worker, if there are two.
fn build(load: &Load, sink: Rows) -> Result<(Stream, usize)> {
    let builder = StreamBuilder::new(RING_SLOTS);
    let source = builder.source("events", Events { feed: load.feed(0, 1), pace: load.pace });
    let windows = load.windows;
    let rows = match load.query {
        Query::Q1 => source.then("euros", flat_map(|event| bid(event).map(in_euros).map(Row::Converted))),
        Query::Q2 => source.then("selected", flat_map(selected)),
        Query::Q3 => sellers(source),
        Query::Q5 => hot_auctions(source, windows),
        Query::Q7 => highest_bids(source, windows),
        Query::Q8 => new_sellers(source, windows),
    };
    rows.sink("rows", sink);
    let first_on_second = match load.query {
        // After the source.
        Query::Q1 | Query::Q2 => 1,
        // After the filter of events.
        Query::Q3 => 2,
        // After the event times.
        Query::Q5 | Query::Q7 | Query::Q8 => 3,
    };
    Ok((builder.build()?, first_on_second))
}

fn bid(event: Event) -> Option<Bid> {
    if let Event::Bid(bid) = event { Some(bid) } else { None }
}

fn auction(event: Event) -> Option<Auction> {
    if let Event::Auction(auction) = event { Some(auction) } else { None }
}

fn person(event: Event) -> Option<Person> {
    if let Event::Person(person) = event { Some(person) } else { None }
}

fn selected(event: Event) -> Option<Row> {
    bid(event).filter(is_selected).map(|bid| Row::Selected(bid.auction, bid.price))
}

fn sellers(events: Flow<Event>) -> Flow<Row> {
    let wanted = each(|event, out: &mut Emitter<Event>| {
        let is_wanted = match &event {
            Event::Person(person) => is_wanted_person(person),
            Event::Auction(auction) => is_wanted_auction(auction),
            Event::Bid(_) => false,
        };
        if is_wanted {
            out.emit(event);
        }
    });
    let (auctions, persons) = events.then("wanted", wanted).split("kinds");
    let auctions = auctions.then("auctions", flat_map(auction));
    let persons = persons.then("persons", flat_map(person));
    let join = TimeJoin::interval(
        i64::MIN..=i64::MAX,
        side(|auction: &Auction| auction.time_ns, |auction: &Auction| auction.seller),
        side(|person: &Person| person.time_ns, |person: &Person| person.id),
        |auction: &Auction, person: &Person| Row::Seller(person.profile.clone(), auction.id),
    );
    auctions.join("sellers", persons, join)
}

fn hot_auctions(events: Flow<Event>, windows: Windows) -> Flow<Row> {
    let Windows { hop_ns, until_ns } = windows;
    let hottest =
        MostFrequent::sliding(windows.sliding_ns(), hop_ns, |bid: &Bid| bid.time_ns, |bid: &Bid| bid.auction);
    let rows = each(move |hottest: WindowResult<(), (u64, Vec<u64>)>, out: &mut Emitter<Row>| {
        let (end_ns, (bids, auctions)) = (hottest.window.end_ns, hottest.value);
        if end_ns <= until_ns {
            auctions.into_iter().for_each(|auction| out.emit_at(Row::Hot(end_ns, auction, bids), end_ns));
        }
    });
    timed_bids(events, hop_ns).then("hottest", hottest).then("complete", rows)
}

fn highest_bids(events: Flow<Event>, windows: Windows) -> Flow<Row> {
    let Windows { hop_ns, until_ns } = windows;
    let highest = WindowOperator::tumbling(hop_ns, |bid: &Bid| bid.time_ns, |_: &Bid| (), Highest);
    let rows = each(move |highest: WindowResult<(), Vec<Bid>>, out: &mut Emitter<Row>| {
        let end_ns = highest.window.end_ns;
        if end_ns <= until_ns {
            highest.value.into_iter().for_each(|bid| out.emit_at(Row::Highest(end_ns, bid), end_ns));
        }
    });
    timed_bids(events, hop_ns).then("highest", highest).then("complete", rows)
}

/// The bids with their event times, and a watermark for each hop.
fn timed_bids(events: Flow<Event>, hop_ns: u64) -> Flow<Bid> {
    let bids = events.then("bids", flat_map(bid));
    bids.then("time", EventTime::new(0, |bid: &Bid| bid.time_ns).step(hop_ns))
}

fn new_sellers(events: Flow<Event>, windows: Windows) -> Flow<Row> {
    let size_ns = windows.join_ns();
    let rare = each(|event, out: &mut Emitter<Event>| {
        if !matches!(event, Event::Bid(_)) {
            out.emit(event);
        }
    });
    let timed = events.then("rare", rare).then("time", EventTime::new(0, time_ns).step(windows.hop_ns));
    let (auctions, persons) = timed.split("kinds");
    let sellers =
        WindowDistinct::new(size_ns, |auction: &Auction| auction.time_ns, |auction: &Auction| auction.seller);
    let auctions = auctions.then("auctions", flat_map(auction)).then("sellers", sellers);
    let persons = persons.then("persons", flat_map(person));
    let join = TimeJoin::window(
        size_ns,
        side(|auction: &Auction| auction.time_ns, |auction: &Auction| auction.seller),
        side(|person: &Person| person.time_ns, |person: &Person| person.id),
        move |_: &Auction, person: &Person| {
            Row::New(person.id, person.profile.clone(), person.time_ns / size_ns * size_ns)
        },
    );
    auctions.join("new", persons, join)
}

fn time_ns(event: &Event) -> u64 {
    match event {
        Event::Person(person) => person.time_ns,
        Event::Auction(auction) => auction.time_ns,
        Event::Bid(bid) => bid.time_ns,
    }
}

/// All bids with the highest price.
#[derive(Clone, Copy)]
struct Highest;

impl Aggregate<Bid> for Highest {
    type State = Vec<Bid>;
    type Output = Vec<Bid>;

    fn init(&self) -> Vec<Bid> {
        Vec::new()
    }

    fn add(&self, highest: &mut Vec<Bid>, bid: &Bid) {
        let price = highest.first().map_or(0, |bid| bid.price);
        if bid.price > price {
            highest.clear();
        }
        if bid.price >= price {
            highest.push(*bid);
        }
    }

    fn merge(&self, highest: &mut Vec<Bid>, later: &Vec<Bid>) {
        later.iter().for_each(|bid| self.add(highest, bid));
    }

    fn output(&self, highest: &Vec<Bid>) -> Vec<Bid> {
        highest.clone()
    }
}

/// The events of a load.
struct Events {
    feed: Feed,
    pace: Pace,
}

impl Source for Events {
    type Out = Event;

    fn next(&mut self, now_ns: u64) -> Next<Event> {
        let Some(time_ns) = self.feed.time_ns() else { return Next::End };
        if self.pace == Pace::Scheduled && time_ns > now_ns {
            return Next::At(time_ns);
        }
        let arrival_ns = if self.pace == Pace::Scheduled { time_ns } else { now_ns };
        self.feed.next().map_or(Next::End, |value| Next::Value { value, arrival_ns })
    }

    fn fill(&mut self, now_ns: u64, due: &mut DueValues<'_, Event>) -> Option<Pause> {
        while !due.is_full() {
            let Some(time_ns) = self.feed.time_ns() else { return Some(Pause::End) };
            if self.pace == Pace::Scheduled && time_ns > now_ns {
                return Some(Pause::At(time_ns));
            }
            let arrival_ns = if self.pace == Pace::Scheduled { time_ns } else { now_ns };
            let Some(event) = self.feed.next() else { return Some(Pause::End) };
            due.push(event, arrival_ns);
        }
        None
    }
}

/// Counts rows, and sends the result at their end.
pub(crate) struct Rows {
    results: Results,
    keeps_rows: bool,
    ended: mpsc::Sender<(Moment, Results)>,
}

impl Rows {
    pub(crate) fn new(keeps_rows: bool) -> (Rows, mpsc::Receiver<(Moment, Results)>) {
        let (ended, receiver) = mpsc::channel();
        (Rows { results: Results::default(), keeps_rows, ended }, receiver)
    }
}

impl Recover for Rows {}

impl Sink for Rows {
    type In = Row;

    fn consume(&mut self, tuple: Tuple<Row>) {
        self.results.add(tuple.value, self.keeps_rows);
    }

    fn end(&mut self) {
        // The receiver waits for this.
        let _ = self.ended.send((Moment::now(), std::mem::take(&mut self.results)));
    }
}
