//! Invalid input gives a helpful error; a graph that sends in a cycle is never placed.

use sakiyomi_placement::{
    Arrivals, Edge, Error, Figures, Group, Hop, Idle, Key, Model, Operator, Pipeline, Placement, Planner,
    Settings, Topology,
};

const HOP: Hop = Hop { send_ns: 20.0, transit_ns: 150.0, receive_ns: 40.0, wake_ns: 0.0, waker_ns: 0.0 };

fn operators(count: usize) -> Vec<Operator> {
    vec![Operator::new(500.0); count]
}

/// Returns the text of an error.
#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn figures_out_of_range_are_refused_by_name_and_range() {
    let text = refused(Pipeline::chain(vec![Operator::new(-1.0)], &[]));
    assert_eq!(text, "service time in ns is -1; it must be more than 0");
    assert!(Pipeline::chain(operators(2), &[f64::NAN]).is_err());
    assert!(refused(Pipeline::chain(operators(2), &[-0.5])).contains("selectivity"));
    let key = Key { max_share: vec![1.0, 0.4] };
    assert!(refused(Pipeline::keyed_chain(operators(1), &[], vec![key])).contains("share of the busiest"));
    assert!(Arrivals::constant(0.0).is_err() && Arrivals::new(1.0, -1.0).is_err());
    assert!(Topology::uniform(0, HOP).is_err());
    assert!(Topology::uniform(1, Hop { send_ns: f64::INFINITY, ..HOP }).is_err());
    let (pipeline, topology) =
        (Pipeline::chain(operators(1), &[]).unwrap(), Topology::uniform(1, HOP).unwrap());
    let settings = Settings::default().with_utilization_max(1.0);
    assert!(refused(Planner::new(&pipeline, &topology, settings)).contains("above 0 and below 1"));
}

#[test]
fn inconsistent_pipelines_are_refused() {
    let edge = |from, to| Edge { from, to, selectivity: 1.0 };
    let graph = |edges: Vec<Edge>| Pipeline::graph(operators(3), edges, &[(0, 1.0)], Vec::new());
    assert!(refused(Pipeline::chain(Vec::new(), &[])).contains("no operators"));
    assert!(refused(Pipeline::chain(operators(3), &[1.0])).contains("a chain of 3 operators"));
    assert!(refused(graph(vec![edge(0, 2), edge(2, 1)])).contains("from operator 2 to 1"));
    assert!(refused(graph(vec![edge(0, 1), edge(1, 7)])).contains("from operator 1 to 7"));
    assert!(refused(graph(vec![edge(0, 1), edge(1, 2), edge(1, 2)])).contains("two edges"));
    assert!(refused(graph(vec![edge(0, 2)])).contains("operator 1 receives no tuples"));
}

/// Returns the figures of groups of operators, each with its cores, of a graph with a branch and a join: 0 to 1 and
/// 2, both to 3.
fn diamond(groups: &[(&[usize], &[usize])]) -> Result<Figures, Error> {
    let edges = [(0, 1), (0, 2), (1, 3), (2, 3)].map(|(from, to)| Edge { from, to, selectivity: 1.0 });
    let pipeline = Pipeline::graph(operators(4), edges.to_vec(), &[(0, 1.0)], Vec::new())?;
    let topology = Topology::two_level(vec![2, 2], HOP, HOP)?;
    let group = |(operators, cores): &(&[usize], &[usize])| Group {
        operators: operators.to_vec(),
        cores: cores.to_vec(),
    };
    let placement = Placement { groups: groups.iter().map(group).collect() };
    Model::new(&pipeline, &topology, Idle::Spin, Arrivals::constant(1e5)?).figures(&placement)
}

#[test]
fn invalid_placements_are_refused() {
    assert!(diamond(&[(&[0, 1, 2, 3], &[0])]).is_ok());
    assert!(refused(diamond(&[(&[0, 1, 2], &[0])])).contains("operator 3"));
    assert!(refused(diamond(&[(&[0, 1, 2, 3], &[0]), (&[3], &[1])])).contains("operator 3"));
    assert!(refused(diamond(&[(&[0, 1], &[0]), (&[2, 3], &[0])])).contains("core 0"));
    assert!(refused(diamond(&[(&[0, 1, 2, 3], &[4])])).contains("core 4"));
    assert!(refused(diamond(&[(&[0, 1, 2, 3], &[])])).contains("group 0"));
    assert!(refused(diamond(&[(&[0, 1, 2, 3], &[0, 1])])).contains("replicated"));
    assert!(refused(diamond(&[(&[0, 3], &[0]), (&[1, 2], &[1])])).contains("cycle"));
}

#[test]
fn the_latency_of_a_graph_is_that_of_its_longest_path() {
    // On one core the second branch waits for the first: all four services count.
    let one_core = diamond(&[(&[0, 1, 2, 3], &[0])]).unwrap().latency_ns;
    // Operator 3 runs once for each branch, and the first run delays the second branch too.
    assert!((one_core - 5.0 * 500.0).abs() < 1e-6, "{one_core}");
    // Branches on cores of their own: three services, two hops, the push to the first branch before the
    // second, and the mean wait for the sibling at the join, half of an occupancy of 540 ns.
    let apart = diamond(&[(&[0], &[0]), (&[1], &[1]), (&[2], &[2]), (&[3], &[3])]).unwrap().latency_ns;
    assert!((apart - (3.0 * 500.0 + 2.0 * 210.0 + 20.0 + 270.0)).abs() < 1e-6, "{apart}");
}

#[test]
fn a_cut_after_a_filter_adds_its_hop_and_no_work() {
    let pipeline = Pipeline::chain(operators(2), &[0.01]).unwrap();
    let topology = Topology::uniform(2, HOP).unwrap();
    let model = Model::new(&pipeline, &topology, Idle::Spin, Arrivals::constant(1.0).unwrap());
    let latency_ns = |groups: Vec<Group>| model.figures(&Placement { groups }).unwrap().latency_ns;
    let group = |operators: &[usize], core| Group { operators: operators.to_vec(), cores: vec![core] };
    let (fused, cut) =
        (latency_ns(vec![group(&[0, 1], 0)]), latency_ns(vec![group(&[0], 0), group(&[1], 1)]));
    assert!((fused - 1000.0).abs() < 0.01 && (cut - 1210.0).abs() < 0.01, "{fused}, {cut}");
}

#[test]
fn the_cores_of_source_and_sink_are_not_replicated() {
    let topology = Topology::uniform(8, HOP).unwrap();
    let key = || vec![Key { max_share: vec![1.0, 0.5, 0.34, 0.25] }];
    let keyed = Operator::new(1000.0).with_key(0);
    let rate = Arrivals::constant(2e6).unwrap();
    let alone = Pipeline::keyed_chain(vec![keyed.clone()], &[], key()).unwrap();
    let replicas = Placement { groups: vec![Group { operators: vec![0], cores: vec![0, 1, 2, 3] }] };
    let model = Model::new(&alone, &topology, Idle::Spin, rate);
    assert!(refused(model.figures(&replicas)).contains("before and after"));
    assert!(Planner::new(&alone, &topology, Settings::default()).unwrap().plan(rate).is_err());
    // With separate operators for source and sink, each has its core, which pays for pushes and pops.
    let operators = vec![Operator::new(100.0), keyed, Operator::new(100.0)];
    let between = Pipeline::keyed_chain(operators, &[1.0, 1.0], key()).unwrap();
    let plan = Planner::new(&between, &topology, Settings::default()).unwrap().plan(rate).unwrap();
    assert_eq!(plan.placement.cores_used(), 6, "{plan:?}");
    let expected = [0.24, 0.53, 0.28];
    let is_expected =
        plan.figures.utilization.iter().zip(expected).all(|(one, other)| (one - other).abs() < 0.01);
    assert!(is_expected, "{plan:?}");
}

#[test]
fn measured_figures_are_accepted() {
    // A filter that has passed nothing, and keys that four replicas divide worse than three.
    let key = Key { max_share: vec![1.0, 0.6, 0.4, 0.45] };
    let pipeline = Pipeline::keyed_chain(operators(4), &[0.0, 1.0, 0.0], vec![key]).unwrap();
    let topology = Topology::uniform(4, HOP).unwrap();
    let planner = Planner::new(&pipeline, &topology, Settings::default()).unwrap();
    let plan = planner.plan(Arrivals::poisson(1.5e6).unwrap()).unwrap();
    let latency_ns = plan.figures.latency_ns;
    assert!(latency_ns.is_finite() && latency_ns > 2000.0, "{plan:?}");
}

#[test]
fn cores_have_the_numbers_of_the_operating_system() {
    let topology = || Topology::two_level(vec![2, 2], HOP, HOP).unwrap();
    assert_eq!((topology().cpu_of(3), topology().core_of_cpu(3)), (3, Some(3)));
    let numbered = topology().with_cpus(vec![0, 8, 1, 9]).unwrap();
    assert_eq!((0..4).map(|core| numbered.cpu_of(core)).collect::<Vec<_>>(), [0, 8, 1, 9]);
    assert_eq!((numbered.core_of_cpu(9), numbered.core_of_cpu(2)), (Some(3), None));
    assert!(refused(topology().with_cpus(vec![0, 1, 2])).contains("number of CPU numbers is 3"));
    assert!(refused(topology().with_cpus(vec![0, 1, 2, 0])).contains("CPU number is 0"));
}
