//! Quality of the local search, compared with all placements of a graph.

use super::brute::best_graph;
use super::random::{FarHops, Random};
use crate::plan::search;

/// Random graphs of each kind.
const INSTANCES: u64 = 50;

/// Results of the search on graphs of one kind.
#[derive(Debug, Default)]
struct Found {
    /// Graphs that can be placed.
    placeable: u64,
    /// Graphs for which the search finds no plan.
    missed: u64,
    /// Graphs for which the search finds the optimum, on as many cores.
    best: u64,
    /// Largest ratio of the latency to the optimum.
    worst_ratio: f64,
}

fn search_all(far: FarHops, is_tree: bool, is_constrained: bool) -> Found {
    let mut found = Found::default();
    for seed in 0..INSTANCES {
        let random = &mut Random::new(seed);
        let mut instance = random.graph(6, far, is_tree);
        if is_constrained {
            instance = random.constrain(instance);
        }
        let Some(best) = best_graph(&instance) else { continue };
        found.placeable += 1;
        match search::best(&instance.model(), &instance.settings) {
            None => found.missed += 1,
            Some(plan) => {
                let ratio = plan.latency_ns() / best.latency_ns();
                let is_best = ratio < 1.0 + 1e-9 && plan.cores() == best.cores();
                found.best += u64::from(is_best);
                found.worst_ratio = found.worst_ratio.max(ratio);
            }
        }
    }
    found
}

#[test]
fn local_search_finds_nearly_always_the_best_placement_of_a_small_graph() {
    for far in [FarHops::Uniform, FarHops::Slower, FarHops::Dear] {
        for is_tree in [true, false] {
            let found = search_all(far, is_tree, false);
            let is_good = found.missed == 0 && found.best * 100 >= found.placeable * 98;
            assert!(found.placeable > INSTANCES / 3, "{far:?}, tree {is_tree}: {found:?}");
            assert!(is_good && found.worst_ratio < 1.1, "{far:?}, tree {is_tree}: {found:?}");
        }
    }
}

#[test]
fn local_search_honors_pinned_operators_and_reserved_cores() {
    for far in [FarHops::Uniform, FarHops::Dear] {
        let found = search_all(far, false, true);
        let is_good = found.missed * 100 <= found.placeable && found.best * 100 >= found.placeable * 95;
        assert!(found.placeable > INSTANCES / 4, "{far:?}: {found:?}");
        assert!(is_good && found.worst_ratio < 1.1, "{far:?}: {found:?}");
    }
}
