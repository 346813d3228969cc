//! From the types of the libraries to results.

use sakiyomi_os::topology::Distance;
use sakiyomi_placement::{
    Arrivals, Cut, Distance as Hops, Limit, Optimality, Placement, Plan, PlanTable, Settings, Shortfall,
    Topology,
};
use sakiyomi_probe::cores::CoreCost;
use sakiyomi_report::result::{
    StreamCore, StreamCut, StreamGroup, StreamHop, StreamPlanResult, StreamRate, StreamShortfall,
    StreamTopologyResult,
};

/// Returns the cores, and the costs that were measured between them.
pub(super) fn topology(topology: &Topology, measured: &[CoreCost]) -> StreamTopologyResult {
    let core = |core: usize| StreamCore {
        core: core as u64,
        cpu: topology.cpu_of(core) as u64,
        domain: topology.domain_of(core) as u64,
    };
    let has_far = topology.domains().len() > 1;
    let hop = |distance: Hops| {
        let hop = topology.hop(distance);
        let measured_over = match distance {
            Hops::Near if topology.domains().iter().any(|&cores| cores > 1) => Distance::SharedCache,
            Hops::Far if measured.iter().any(|cost| cost.distance == Distance::OtherNode) => {
                Distance::OtherNode
            }
            _ => Distance::SameNode,
        };
        let has_all = |cost: &CoreCost| cost.hop_ns.is_some() && cost.wake_ns.is_some();
        StreamHop {
            distance: if distance == Hops::Near { "near" } else { "far" }.to_owned(),
            is_measured: measured.iter().any(|cost| cost.distance == measured_over && has_all(cost)),
            send_ns: hop.send_ns,
            transit_ns: hop.transit_ns,
            receive_ns: hop.receive_ns,
            wake_ns: hop.wake_ns,
            waker_ns: hop.waker_ns,
        }
    };
    let distances = Hops::ALL.into_iter().filter(|&distance| distance == Hops::Near || has_far);
    StreamTopologyResult {
        cores: (0..topology.cores()).map(core).collect(),
        hops: distances.map(hop).collect(),
    }
}

/// Findings of the planner for a rate.
#[derive(Clone, Copy)]
pub(super) struct Found<'a> {
    pub(super) planned: &'a Result<Plan, Shortfall>,
    /// Plans of all rates.
    pub(super) table: Option<&'a PlanTable>,
    /// The cheapest cut of a rate without a plan.
    pub(super) cut: Option<&'a Cut>,
}

/// Returns the plan of a rate, and those of all rates.
pub(super) fn plan(
    pipeline: &str,
    operators: &[&str],
    topology: &Topology,
    settings: Settings,
    arrivals: Arrivals,
    Found { planned, table, cut }: Found<'_>,
) -> StreamPlanResult {
    let groups = |plan: &Plan| {
        let groups = plan.placement.groups.iter().zip(&plan.figures.utilization);
        let group = groups.map(|(group, &utilization_ratio)| StreamGroup {
            operators: group.operators.iter().map(|&operator| operators[operator].to_owned()).collect(),
            cpus: group.cores.iter().map(|&core| topology.cpu_of(core) as u64).collect(),
            utilization_ratio,
        });
        group.collect()
    };
    let rate = |&(to_per_s, ref plan): &(f64, Plan)| StreamRate {
        to_per_s,
        cores: plan.placement.cores_used() as u64,
        groups: describe(&plan.placement, operators),
        latency_ns: plan.figures.latency_ns,
    };
    StreamPlanResult {
        pipeline: pipeline.to_owned(),
        rate_per_s: arrivals.rate_per_s(),
        cores: topology.cores() as u64,
        utilization_max_ratio: settings.utilization_max,
        groups: planned.as_ref().map(groups).unwrap_or_default(),
        latency_ns: planned.as_ref().ok().map(|plan| plan.figures.latency_ns),
        is_exact: planned.as_ref().is_ok_and(|plan| plan.optimality == Optimality::Exact),
        shortfall: planned.as_ref().err().map(|shortfall| StreamShortfall {
            held_per_s: shortfall.held_per_s,
            limit: limit(shortfall.limit, operators),
            cut: cut.map(|cut| StreamCut {
                stays: named(&cut.stays, operators),
                goes: named(&cut.goes, operators),
                records_per_s: cut.tuples_per_s,
                bytes_per_s: cut.bytes_per_s,
            }),
        }),
        rates: table.into_iter().flat_map(PlanTable::entries).map(rate).collect(),
    }
}

fn named(numbers: &[usize], operators: &[&str]) -> Vec<String> {
    numbers.iter().map(|&operator| operators[operator].to_owned()).collect()
}

/// Operators that share a core by `+`, cores by ` | `.
pub(super) fn describe(placement: &Placement, operators: &[&str]) -> String {
    let group = |group: &sakiyomi_placement::Group| {
        let names: Vec<&str> = group.operators.iter().map(|&operator| operators[operator]).collect();
        let replicas = match group.cores.len() {
            1 => String::new(),
            replicas => format!(" × {replicas}"),
        };
        names.join("+") + &replicas
    };
    placement.groups.iter().map(group).collect::<Vec<_>>().join(" | ")
}

/// Returns the limit of a rate, and a remedy.
fn limit(limit: Limit, operators: &[&str]) -> String {
    match limit {
        Limit::Operator { operator, replicas_max: 1 } => {
            format!("{} is too slow for it on a core of its own: make it faster.", operators[operator])
        }
        Limit::Operator { operator, replicas_max } => format!(
            "{} is too slow for it even on {replicas_max} cores: make it faster, or its key finer.",
            operators[operator]
        ),
        Limit::Cores(_) => "More cores would help.".to_owned(),
        Limit::Pins => "No plan leaves the pinned operators on their cores: let them move.".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use sakiyomi_placement::{Hop, Operator, Pipeline, Planner};

    use super::*;

    fn planned(rate_per_s: f64) -> StreamPlanResult {
        let pipeline = Pipeline::chain(vec![Operator::new(300.0), Operator::new(500.0)], &[1.0]).unwrap();
        let topology = Topology::uniform(2, Hop { transit_ns: 150.0, ..Hop::FREE }).unwrap();
        let topology = topology.with_cpus(vec![3, 1]).unwrap();
        let planner = Planner::new(&pipeline, &topology, Settings::default()).unwrap();
        let arrivals = Arrivals::constant(rate_per_s).unwrap();
        let table = planner.table(arrivals, 1e4..=1.6e6).unwrap();
        let plan = planner.plan(arrivals);
        super::plan(
            "a.toml",
            &["parse", "count"],
            &topology,
            Settings::default(),
            arrivals,
            Found {
                planned: &plan,
                table: Some(&table),
                cut: planner.cheapest_cut(arrivals, &[16.0], 100.0).as_ref(),
            },
        )
    }

    #[test]
    fn a_plan_names_operators_and_cpus() {
        let result = planned(1.5e6);
        let groups: Vec<_> =
            result.groups.iter().map(|group| (&group.operators[..], &group.cpus[..])).collect();
        assert_eq!(groups, [(&["parse".to_owned()][..], &[3][..]), (&["count".to_owned()], &[1])]);
        assert!(result.is_exact && result.shortfall.is_none());
        let rates: Vec<_> = result.rates.iter().map(|rate| (rate.cores, &*rate.groups)).collect();
        assert_eq!(rates, [(1, "parse+count"), (2, "parse | count")]);
    }

    #[test]
    fn a_rate_that_is_too_high_names_the_operator_that_limits_it() {
        let result = planned(2e6);
        assert!(result.groups.is_empty() && result.latency_ns.is_none());
        let shortfall = result.shortfall.unwrap();
        assert!((shortfall.held_per_s / 1.7e6 - 1.0).abs() < 0.01, "{shortfall:?}");
        assert!(shortfall.limit.starts_with("count is too slow"), "{shortfall:?}");
        let cut = shortfall.cut.unwrap();
        assert_eq!((&cut.stays[..], &cut.goes[..]), (&["parse".to_owned()][..], &["count".to_owned()][..]));
        assert!((cut.bytes_per_s / 3.2e7 - 1.0).abs() < 1e-9, "{cut:?}");
    }
}
