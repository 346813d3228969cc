//! Latency and overflow against the number of cores, simulated: for each number the division of a row of operators into
//! so many segments that has the least latency by the model, and the planner's choice.
//! With `--live`, a chain on this machine beside its simulation.
//!
//! ```text
//! stream_curve [--rate 450000] [--time 0.5]
//! stream_curve --live [--time 1] [--seed 1] [--json]
//! ```
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "an example prints its table")]

#[path = "../../../stream/examples/driver/mod.rs"]
#[allow(dead_code, reason = "each example uses a part")]
mod driver;
mod live;

use std::time::{Duration, Instant};

use sakiyomi_model::Nanos;
use sakiyomi_placement::{
    Arrivals, Figures, Group, Hop, Model, Operator, Pipeline, Placement, Planner, Settings, Topology,
};
use sakiyomi_scenario::stream::{
    ArrivalPattern, OverloadPolicy, Spacing, StreamOutcome, StreamSettings, StreamSpec, simulate,
};

use driver::options::Options;

/// Cores of each of the two cache domains.
const DOMAIN_CORES: usize = 8;

/// Costs of hops in a cache domain, as measured on two cores.
const NEAR: Hop =
    Hop { send_ns: 11.0, transit_ns: 60.0, receive_ns: 40.0, wake_ns: 20_000.0, waker_ns: 8000.0 };

/// Costs of hops between cache domains, as published for larger machines.
const FAR: Hop = Hop { transit_ns: 170.0, receive_ns: 100.0, ..NEAR };

/// Service times of the operators, in nanoseconds: one on each core at most.
const SERVICES_NS: [f64; 2 * DOMAIN_CORES] = [
    150.0, 80.0, 600.0, 100.0, 450.0, 400.0, 250.0, 120.0, 300.0, 700.0, 90.0, 200.0, 350.0, 60.0, 500.0,
    250.0,
];

/// The segments that begin at operator 0 and wherever a bit is set, on the first cores.
fn division(cuts: u32) -> Placement {
    let mut groups = vec![Group { operators: vec![0], cores: vec![0] }];
    for operator in 1..SERVICES_NS.len() {
        if cuts & 1 << (operator - 1) != 0 {
            groups.push(Group { operators: Vec::new(), cores: vec![groups.len()] });
        }
        if let Some(group) = groups.last_mut() {
            group.operators.push(operator);
        }
    }
    Placement { groups }
}

/// For each number of cores the best division; by the busiest core where none holds the rate.
fn best_divisions(model: &Model<'_>) -> Result<Vec<Placement>, sakiyomi_placement::Error> {
    let rank = |figures: &Figures| (figures.latency_ns, figures.utilization_max());
    let mut best: Vec<Option<((f64, f64), Placement)>> = vec![None; SERVICES_NS.len()];
    for cuts in 0..1 << (SERVICES_NS.len() - 1) {
        let placement = division(cuts);
        let rank = rank(&model.figures(&placement)?);
        let best = &mut best[placement.groups.len() - 1];
        if best.as_ref().is_none_or(|(other, _)| rank < *other) {
            *best = Some((rank, placement));
        }
    }
    Ok(best.into_iter().flatten().map(|(_, placement)| placement).collect())
}

fn print(placement: &Placement, outcome: &StreamOutcome, model: &Model<'_>) {
    let micros = |time: Nanos| time.0 as f64 * 1e-3;
    let busiest = outcome.cores.iter().map(|core| core.utilization).fold(0.0, f64::max);
    let offered = (outcome.arrived_tuples + outcome.shed_tuples) as f64;
    let modeled_ns = model.figures(placement).map_or(f64::NAN, |figures| figures.latency_ns);
    println!(
        "{:5} {:9.2} {:9.2} {:9.2} {:9.2} {:9.2} {:7.2} {:9.1} {:10.2} {:6.2}",
        placement.cores_used(),
        modeled_ns * 1e-3,
        outcome.latency.mean_ns * 1e-3,
        micros(outcome.latency.p50),
        micros(outcome.latency.p99),
        micros(outcome.latency.p999),
        outcome.shed_tuples as f64 / offered * 100.0,
        busiest * 100.0,
        outcome.hops_per_tuple(),
        outcome.cpu_time().as_secs_f64(),
    );
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut options = Options::of_process();
    let is_live = options.flag("--live");
    let is_json = options.flag("--json");
    let rate_per_s = options.value("--rate", 450e3)?;
    let seconds = options.value("--time", if is_live { 1.0 } else { 0.5 })?;
    let seed = options.value("--seed", 1)?;
    options.end()?;
    if is_live {
        let validation = live::validate(Duration::from_secs_f64(seconds), seed)?;
        println!("{}", if is_json { validation.json().to_string() } else { validation.text() });
        return Ok(());
    }
    curve(rate_per_s, seconds)
}

/// Prints the table of divisions.
fn curve(rate_per_s: f64, seconds: f64) -> Result<(), Box<dyn std::error::Error>> {
    let operators = SERVICES_NS.map(|service_ns| Operator::new(service_ns).with_scv(0.1)).to_vec();
    let pipeline = Pipeline::chain(operators, &[1.0; SERVICES_NS.len() - 1])?;
    let topology = Topology::two_level(vec![DOMAIN_CORES; 2], NEAR, FAR)?;
    let arrivals = Arrivals::poisson(rate_per_s)?;
    let planner = Planner::new(&pipeline, &topology, Settings::default())?;
    let model = planner.model(arrivals);
    let divisions = best_divisions(&model)?;
    let run = |placement: &Placement| {
        let settings = StreamSettings {
            overload: OverloadPolicy::Shed,
            ..StreamSettings::new(Nanos::from_secs_f64(seconds), 1)
        };
        let arrivals = ArrivalPattern::steady(rate_per_s, Spacing::Poisson);
        simulate(&StreamSpec::new(&pipeline, &topology, placement.clone(), arrivals, settings))
    };
    println!(
        "simulated: {rate_per_s:.0} tuples/s, Poisson, {seconds} s; rings of 1024 slots, tuples beyond are shed"
    );
    println!("cores  model_us   mean_us    p50_us    p99_us   p999_us  shed_% busiest_% hops/tuple  cpu_s");
    let (mut steps, begin) = (0, Instant::now());
    for placement in &divisions {
        let outcome = run(placement)?;
        steps += outcome.operator_steps;
        print(placement, &outcome, &model);
    }
    let rate = steps as f64 / begin.elapsed().as_secs_f64();
    match planner.plan(arrivals) {
        Ok(plan) => {
            println!("the planner's choice, the fewest cores within 5 % of the least latency of the model:");
            print(&plan.placement, &run(&plan.placement)?, &model);
        }
        Err(short) => println!("{short}"),
    }
    eprintln!("{steps} operator steps, {:.2} million a second", rate * 1e-6);
    Ok(())
}
