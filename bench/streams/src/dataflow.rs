//! The queries on timely dataflow: an open loop in each worker, as in timely's example `openloop`.
//!
//! A worker introduces all events that are due as one epoch, steps the dataflow, and polls or parks until the next event
//! is due. The frontier follows the event times: it is that of the last event, as the watermark of the other engine is.

mod queries;
mod windows;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use hdrhistogram::Histogram;
use sakiyomi_os::affinity::pin;
use sakiyomi_os::topology::Cpus;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::channels::pact::Pipeline;
use timely::dataflow::operators::{Input, Operator, Probe};
use timely::dataflow::{InputHandleVec, ProbeHandle, StreamVec};
use timely::worker::Worker;
use timely::{CommunicationConfig, Config, WorkerConfig};

use crate::event::{Event, Feed};
use crate::load::{Load, Moment, Outcome, Pace, Results, histogram};
use crate::query::Row;

/// Rows with their scheduled times in nanoseconds.
type Rows<'scope> = StreamVec<'scope, u64, (Row, u64)>;

/// Events of an epoch at most. With fewer of them the peak is lower; with more, an engine that is behind is so for longer
/// before it steps.
const EPOCH_EVENTS_MAX: usize = 4096;

/// Epochs that have been introduced and not completed, at most, while events come as fast as they can be processed.
const EPOCHS_OPEN_MAX: usize = 2;

/// Messages that a worker has received.
struct Received {
    results: Results,
    latency: Histogram<u64>,
}

/// Runs a query.
///
/// # Errors
/// If a worker cannot be started or pinned, or panicked.
pub fn run(load: &Load) -> Result<Outcome> {
    let communication = match load.workers.len() {
        1 => CommunicationConfig::Thread,
        workers => CommunicationConfig::Process(workers),
    };
    let config = Config { communication, worker: WorkerConfig::default().idle_spin(load.spin) };
    let (begin, epoch, load) = (Moment::now(), Instant::now(), load.clone());
    let workers =
        timely::execute(config, move |worker| work(worker, &load, epoch)).map_err(|error| anyhow!(error))?;
    let mut all: Option<(Moment, Received)> = None;
    for worker in workers.join() {
        let (end, received) =
            worker.map_err(|error| anyhow!("a worker of timely has panicked: {error}"))??;
        all = Some(match all {
            None => (end, received),
            Some((latest, mut sum)) => {
                sum.results.merge(received.results);
                sum.latency.add(&received.latency)?;
                (latest.max(end), sum)
            }
        });
    }
    let (end, Received { results, latency }) = all.ok_or_else(|| anyhow!("timely has no worker"))?;
    let (elapsed, cpu) = end.since(begin);
    Ok(Outcome { elapsed, cpu, results, latency })
}

/// The work of a worker: its share of the events from its dataflow's begin to its end.
fn work(worker: &mut Worker, load: &Load, epoch: Instant) -> Result<(Moment, Received)> {
    let (index, peers) = (worker.index(), worker.peers());
    let _pinned = load.workers[index].map(|cpu| pin(&Cpus::from([cpu]))).transpose()?;
    let received = Rc::new(RefCell::new(Received { results: Results::default(), latency: histogram() }));
    let (mut input, probe) = (InputHandleVec::new(), ProbeHandle::new());
    worker.dataflow(|scope| {
        let rows = queries::rows(load.query, load.windows, scope.input_from(&mut input), peers);
        receive(rows, Rc::clone(&received), epoch, load.keeps_rows).probe_with(&probe);
    });
    let feed = load.feed(index, peers);
    match load.pace {
        Pace::Unlimited => unlimited(worker, feed, &mut input, &probe),
        Pace::Scheduled => scheduled(worker, feed, &mut input, epoch, load.spin),
    }
    input.close();
    while !probe.done() {
        worker.step_or_park(None);
    }
    let end = Moment::now();
    let received = received.replace(Received { results: Results::default(), latency: histogram() });
    Ok((end, received))
}

/// Records the rows; the stream that results has none.
fn receive(
    rows: Rows<'_>,
    received: Rc<RefCell<Received>>,
    epoch: Instant,
    keeps_rows: bool,
) -> StreamVec<'_, u64, ()> {
    rows.unary::<CapacityContainerBuilder<Vec<()>>, _, _, _>(Pipeline, "rows", move |_, _| {
        move |input, _output| {
            let Received { results, latency } = &mut *received.borrow_mut();
            input.for_each(|_, rows| {
                let now_ns = elapsed_ns(epoch);
                for (row, due_ns) in rows.drain(..) {
                    latency.saturating_record(now_ns.saturating_sub(due_ns));
                    results.add(row, keeps_rows);
                }
            });
        }
    })
}

fn elapsed_ns(epoch: Instant) -> u64 {
    u64::try_from(epoch.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Introduces events as fast as epochs complete.
fn unlimited(
    worker: &mut Worker,
    mut feed: Feed,
    input: &mut InputHandleVec<u64, Event>,
    probe: &ProbeHandle<u64>,
) {
    let mut open = std::collections::VecDeque::new();
    while introduce(&mut feed, input, u64::MAX) > 0 {
        open.push_back(*input.time());
        worker.step();
        while open.len() > EPOCHS_OPEN_MAX {
            if probe.less_than(&open[0]) {
                worker.step();
            } else {
                open.pop_front();
            }
        }
    }
}

/// Introduces events when they are due.
fn scheduled(
    worker: &mut Worker,
    mut feed: Feed,
    input: &mut InputHandleVec<u64, Event>,
    epoch: Instant,
    spin: Duration,
) {
    while let Some(due_ns) = feed.time_ns() {
        let now_ns = elapsed_ns(epoch);
        let left = Duration::from_nanos(due_ns.saturating_sub(now_ns));
        if left.is_zero() {
            introduce(&mut feed, input, now_ns);
            worker.step();
        } else if left > spin {
            worker.step_or_park(Some(left - spin));
        } else {
            worker.step();
        }
    }
}

/// Introduces the events that are due as an epoch; their number.
fn introduce(feed: &mut Feed, input: &mut InputHandleVec<u64, Event>, now_ns: u64) -> usize {
    let (mut last_ns, mut events) = (0, 0);
    while let Some(due_ns) = feed.time_ns().filter(|&due_ns| due_ns <= now_ns)
        && events < EPOCH_EVENTS_MAX
        && let Some(event) = feed.next()
    {
        input.send(event);
        (last_ns, events) = (due_ns, events + 1);
    }
    if events > 0 {
        input.advance_to(last_ns);
    }
    events
}
