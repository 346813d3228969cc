//! Cores in cache domains, and the costs of passing a tuple from one to another.

use serde::{Deserialize, Serialize};

use super::whole_ns;
use crate::chart::Chart;
use crate::document::Machine;
use crate::glossary;
use crate::number::{duration, plural};
use crate::rows::Rows;
use crate::section::{Fact, Finding, Glossary, Present, Section};
use crate::value::Value;

/// The machine as represented in the planner of streams.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamTopologyResult {
    /// The usable cores, by domain.
    pub cores: Vec<StreamCore>,
    /// Costs of a hop, the nearest first: within a domain, between domains.
    pub hops: Vec<StreamHop>,
}

/// A core.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamCore {
    /// Its number in plans.
    pub core: u64,
    /// The operating system's number of its CPU.
    pub cpu: u64,
    /// The number of its cache domain.
    pub domain: u64,
}

/// Costs of passing a tuple, each in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamHop {
    /// `near`, within a cache domain; or `far`, between two.
    pub distance: String,
    /// Whether it was measured on this machine; otherwise it is taken from another distance, or assumed.
    pub is_measured: bool,
    /// CPU time of the sender.
    pub send_ns: f64,
    /// Transit time, which no core spends.
    pub transit_ns: f64,
    /// CPU time of the receiver.
    pub receive_ns: f64,
    /// Time from the wake-up call until a parked receiver runs.
    pub wake_ns: f64,
    /// CPU time of the sender that wakes a parked receiver.
    pub waker_ns: f64,
}

impl StreamHop {
    /// Returns the time from the push until the receiver has the tuple, if it polls.
    fn hop_ns(&self) -> f64 {
        self.send_ns + self.transit_ns + self.receive_ns
    }
}

impl StreamTopologyResult {
    fn domains(&self) -> usize {
        self.cores.iter().map(|core| core.domain as usize + 1).max().unwrap_or(0)
    }
}

impl Present for StreamTopologyResult {
    const SCHEMA: &'static str = "sakiyomi.stream-topology/1";

    fn title(&self) -> String {
        "cores for streams".to_owned()
    }

    fn verdict(&self) -> Vec<Finding> {
        let cores = plural(self.cores.len() as u64, "core");
        let mut sentences = vec![match self.domains() {
            0 | 1 => format!("{cores} in one cache domain."),
            domains => format!("{cores} in {domains} cache domains."),
        }];
        if let Some(near) = self.hops.first() {
            let hop_ns = near.hop_ns();
            sentences.push(format!(
                "Passing a tuple to a polling core takes {}, and {:.0} times as long if the core has to be woken.",
                duration(whole_ns(hop_ns)),
                (hop_ns + near.wake_ns) / hop_ns.max(1.0)
            ));
        }
        Finding::whole(sentences)
    }

    fn settings(&self) -> Vec<Fact> {
        Vec::new()
    }

    fn sections(&self) -> Vec<Section> {
        let time = |ns: f64| Value::Time(whole_ns(ns));
        let measured = |hop: &&StreamHop| if hop.is_measured { "measured" } else { "assumed" };
        let hops = Rows::new("hops", "A tuple from core to core", &self.hops)
            .text("cores", |hop| hop.distance.clone())
            .text("", measured)
            .figure("send", |hop| time(hop.send_ns))
            .figure("transit", |hop| time(hop.transit_ns))
            .figure("receive", |hop| time(hop.receive_ns))
            .figure("wake-up", |hop| time(hop.wake_ns))
            .figure("waker's CPU", |hop| time(hop.waker_ns))
            .legend("near: within a cache domain; far: between two cache domains");
        let cores = Rows::new("cores", "Cores", &self.cores)
            .text("core", |core| core.core.to_string())
            .figure("CPU", |core| Value::Count(core.cpu))
            .figure("domain", |core| Value::Count(core.domain));
        vec![hops.section(), cores.section()]
    }

    fn charts(&self, _: &Machine) -> Vec<Chart> {
        Vec::new()
    }

    fn glossary(&self) -> Glossary {
        glossary::STREAM
    }
}
