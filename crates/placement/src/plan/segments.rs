//! The cost of every segment of a chain: first and last operator, replicas, distance of the hop into it and out of
//! it.

use super::Settings;
use crate::model::constraints::Pin;
use crate::model::stage::Stage;
use crate::{Distance, Model};

/// Hops into a segment, or out of it: `None` at the ends of the chain.
pub(super) const HOPS: [Option<Distance>; 3] = [None, Some(Distance::Near), Some(Distance::Far)];

/// Neighboring operators on one core, or on one per replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// First operator.
    pub(super) first: usize,
    /// The operator after the last one.
    pub(super) end: usize,
    /// Number of cores.
    pub(super) replicas: usize,
}

/// Contribution of a segment to the latency, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cost {
    /// Time that adds up over segments, with the hop into it.
    pub(super) path_ns: f64,
    /// Wait, of which only the maximum over the segments counts.
    pub(super) wait_ns: f64,
}

/// Costs of all segments whose cores are within the utilization limit.
pub(super) struct Segments<'a> {
    pub(super) model: &'a Model<'a>,
    /// By first operator, end, replicas, hop in, hop out.
    costs: Vec<Option<Cost>>,
    operators: usize,
    replicas_max: usize,
}

impl<'a> Segments<'a> {
    /// Computes the costs of all segments of a chain.
    ///
    /// # Panics
    /// If the pipeline is not a chain.
    pub(super) fn new(model: &'a Model<'a>, settings: &Settings) -> Segments<'a> {
        assert!(model.pipeline.is_chain());
        let operators = model.pipeline.operators().len();
        let replicas_max = model.pipeline.keys().iter().map(|key| key.max_share.len()).max();
        let room = model.constraints.room(model.topology);
        let replicas_max = replicas_max.unwrap_or(1).min(room.into_iter().max().unwrap_or(0)).max(1);
        let costs = vec![None; operators * operators * replicas_max * HOPS.len() * HOPS.len()];
        let mut segments = Segments { model, costs, operators, replicas_max };
        for first in 0..operators {
            for end in first + 1..=operators {
                for replicas in 1..=segments.replicas_max_of(first, end) {
                    segments.fill(Segment { first, end, replicas }, settings);
                }
            }
        }
        segments
    }

    /// Returns the number of operators.
    pub(super) fn operators(&self) -> usize {
        self.operators
    }

    /// Returns the segments that begin with an operator.
    pub(super) fn from(&self, first: usize) -> impl Iterator<Item = Segment> {
        let replicas = move |end| (1..=self.replicas_max_of(first, end)).map(move |replicas| (end, replicas));
        (first + 1..=self.operators).flat_map(replicas).map(move |(end, replicas)| Segment {
            first,
            end,
            replicas,
        })
    }

    /// Returns the hops that may follow a segment.
    pub(super) fn hops_after(&self, segment: Segment) -> &'static [Option<Distance>] {
        if segment.end == self.operators { &HOPS[..1] } else { &HOPS[1..] }
    }

    /// Returns the cost of a segment; `None` if its cores would exceed the utilization limit.
    pub(super) fn cost(
        &self,
        segment: Segment,
        input: Option<Distance>,
        output: Option<Distance>,
    ) -> Option<Cost> {
        self.costs[self.index(segment, input, output)]
    }

    /// Returns whether some segment with this operator sustains the rate, on any number of cores.
    pub(super) fn can_hold(&self, operator: usize) -> bool {
        (0..=operator).flat_map(|first| self.from(first)).filter(|segment| segment.end > operator).any(
            |segment| {
                let begin = self.index(segment, HOPS[0], HOPS[0]);
                self.costs[begin..begin + HOPS.len() * HOPS.len()].iter().any(Option::is_some)
            },
        )
    }

    fn replicas_max_of(&self, first: usize, end: usize) -> usize {
        self.model.pipeline.replicas_max(first..end).min(self.replicas_max)
    }

    fn index(&self, segment: Segment, input: Option<Distance>, output: Option<Distance>) -> usize {
        let Segment { first, end, replicas } = segment;
        let interval = (first * self.operators + end - 1) * self.replicas_max + replicas - 1;
        (interval * HOPS.len() + hop_index(input)) * HOPS.len() + hop_index(output)
    }

    /// Returns the core of a segment with pinned operators.
    pub(super) fn core(&self, segment: Segment) -> Option<usize> {
        match self.pin(segment) {
            Pin::Core(core) => Some(core),
            Pin::Open | Pin::Torn => None,
        }
    }

    /// Returns the number of open cores that a segment takes.
    pub(super) fn taken(&self, segment: Segment) -> usize {
        if self.core(segment).is_some() { 0 } else { segment.replicas }
    }

    fn pin(&self, segment: Segment) -> Pin {
        if self.model.constraints.has_no_pins() {
            return Pin::Open;
        }
        self.model.constraints.pin_of(&(segment.first..segment.end).collect::<Vec<usize>>())
    }

    fn fill(&mut self, segment: Segment, settings: &Settings) {
        let pin = self.pin(segment);
        if pin == Pin::Torn || pin != Pin::Open && segment.replicas > 1 {
            return;
        }
        let inputs = if segment.first == 0 { &HOPS[..1] } else { &HOPS[1..] };
        for &input in inputs {
            for &output in self.hops_after(segment) {
                let index = self.index(segment, input, output);
                self.costs[index] = cost(self.model, segment, input, output, settings);
            }
        }
    }
}

fn hop_index(hop: Option<Distance>) -> usize {
    match hop {
        None => 0,
        Some(Distance::Near) => 1,
        Some(Distance::Far) => 2,
    }
}

fn cost(
    model: &Model<'_>,
    segment: Segment,
    input: Option<Distance>,
    output: Option<Distance>,
    settings: &Settings,
) -> Option<Cost> {
    let pipeline = model.pipeline;
    let operators: Vec<usize> = (segment.first..segment.end).collect();
    let hop_of = |edge: usize| match pipeline.edges()[edge] {
        edge if edge.to == segment.first => input,
        edge if edge.to == segment.end => output,
        _ => None,
    };
    let stage = Stage::new(model, &operators, segment.replicas, &hop_of)?;
    if settings.excess(stage.utilization) > 0.0 {
        return None;
    }
    let entry_ns = match (pipeline.incoming(segment.first), input) {
        (&[edge], Some(distance)) => stage.hop_ns(model, edge, distance),
        _ => stage.entry_ns(),
    };
    let service_ns = |operator: usize| match pipeline.outgoing(operator) {
        &[edge] => stage.service_ns(model, edge, hop_of(edge)),
        _ => pipeline.operators()[operator].service_ns,
    };
    let path_ns = entry_ns + operators.iter().map(|&operator| service_ns(operator)).sum::<f64>();
    Some(Cost { path_ns, wait_ns: stage.arrival_wait_ns })
}
