//! For each number of cores a division of the operators.

use sakiyomi_placement::{Figures, Group, Model, Placement, Plan};

/// Divisions of the operators into one group, two groups and so on, each on cores of its own in their order: from
/// one to the next the group is cut that leaves the least latency by the model, or the least utilization of the busiest
/// core while one is overloaded. Where the planner's choice has as many cores and is better, it stands instead.
pub(super) fn by_cores(
    model: &Model<'_>,
    operators: usize,
    cores: usize,
    chosen: Option<&Plan>,
) -> Vec<Placement> {
    let whole = Placement { groups: vec![Group { operators: (0..operators).collect(), cores: vec![0] }] };
    let mut divisions = vec![whole];
    while divisions.len() < cores.min(operators) {
        let Some(last) = divisions.last() else { break };
        let candidates =
            cuts(last).into_iter().filter_map(|cut| Some((rank(&model.figures(&cut).ok()?), cut)));
        let Some((_, best)) =
            candidates.min_by(|(a, _), (b, _)| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)))
        else {
            break;
        };
        divisions.push(best);
    }
    if let Some(chosen) = chosen {
        adopt(&mut divisions, chosen, model);
    }
    divisions
}

/// Replaces the division on as many cores as a plan has, unless it is better.
fn adopt(divisions: &mut Vec<Placement>, chosen: &Plan, model: &Model<'_>) {
    let cores = chosen.placement.cores_used();
    let latency_ns = |placement| model.figures(placement).map_or(f64::INFINITY, |figures| figures.latency_ns);
    match divisions.iter_mut().find(|division| division.cores_used() == cores) {
        Some(division) if latency_ns(division) < chosen.figures.latency_ns => {}
        Some(division) => division.clone_from(&chosen.placement),
        None => {
            divisions.push(chosen.placement.clone());
            divisions.sort_by_key(Placement::cores_used);
        }
    }
}

/// Latency, or while it is infinite the utilization that makes it so.
fn rank(figures: &Figures) -> (f64, f64) {
    (figures.latency_ns, figures.utilization_max())
}

/// Returns all divisions with one group more.
fn cuts(placement: &Placement) -> Vec<Placement> {
    let mut cuts = Vec::new();
    for (index, group) in placement.groups.iter().enumerate() {
        for at in 1..group.operators.len() {
            let mut groups = placement.groups.clone();
            let tail = groups[index].operators.split_off(at);
            groups.insert(index + 1, Group { operators: tail, cores: Vec::new() });
            groups.sort_by_key(|group| group.operators[0]);
            groups.iter_mut().enumerate().for_each(|(core, group)| group.cores = vec![core]);
            cuts.push(Placement { groups });
        }
    }
    cuts
}

#[cfg(test)]
mod tests {
    use sakiyomi_placement::{Arrivals, Hop, Operator, Pipeline, Planner, Settings, Topology};

    use super::*;

    #[test]
    fn each_number_of_cores_up_to_that_of_operators_has_a_division() {
        let operators = [300.0, 500.0, 200.0, 900.0].map(Operator::new).to_vec();
        let pipeline = Pipeline::chain(operators, &[1.0; 3]).unwrap();
        let topology = Topology::uniform(8, Hop { transit_ns: 150.0, ..Hop::FREE }).unwrap();
        let planner = Planner::new(&pipeline, &topology, Settings::default()).unwrap();
        for rate_per_s in [1e5, 8e5, 5e6] {
            let arrivals = Arrivals::poisson(rate_per_s).unwrap();
            let chosen = planner.plan(arrivals).ok();
            let model = planner.model(arrivals);
            let divisions = by_cores(&model, 4, 8, chosen.as_ref());
            assert_eq!(divisions.iter().map(Placement::cores_used).collect::<Vec<_>>(), [1, 2, 3, 4]);
            assert!(divisions.iter().all(|division| model.figures(division).is_ok()));
            let Some(plan) = chosen else { continue };
            let division = &divisions[plan.placement.cores_used() - 1];
            assert!(model.figures(division).unwrap().latency_ns <= plan.figures.latency_ns);
        }
    }
}
