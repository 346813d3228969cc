//! Charts as SVG: one file per kind; frame, axes and colours are shared.
//!
//! Two runs of a comparison are drawn one above the other with the same scales, so that what looks higher is higher.
//! All charts over time have the same left and right edge and the same time axis. Whatever is drawn is complete without
//! a script; the page's cursor only reads the numbers out.

mod axis;
mod breakdown;
mod curve;
mod distribution;
mod ends;
mod frame;
mod job;
mod over_time;
mod palette;
mod probe;
mod regulation;
mod room;
mod run;
mod scenario;
mod svg;
mod tradeoff;
mod validation;

use crate::schema::{
    Document, ProbeResult, RunResult, ScenarioResult, SimResult, SweepResult, ValidateResult,
};

pub(crate) use frame::{BELOW, LEFT, RIGHT, TOP, WIDTH};
pub(crate) use over_time::{TimeChart, TimeRange};

/// The names of all charts: whoever writes them into a directory can so tell beforehand what would be overwritten.
pub const NAMES: [&str; 25] = [
    "accuracy",
    "backlog",
    "breakdown",
    "commands",
    "course",
    "cpu",
    "cpu-against-throughput",
    "disk-time",
    "distance",
    "distribution",
    "distributions",
    "errors",
    "hits",
    "limit",
    "positions",
    "response",
    "response-curve",
    "runs",
    "search",
    "seeks",
    "spread",
    "threads",
    "throughput",
    "times",
    "trade-off",
];

/// One picture.
#[derive(Clone, Debug)]
pub struct Chart {
    /// A short name for a file or an anchor: `hits`, `response-curve`.
    pub name: &'static str,
    /// The heading, which the picture also carries.
    pub title: &'static str,
    /// What to look for, in a sentence.
    pub caption: &'static str,
    /// A complete SVG document that fills the width it is given.
    pub svg: String,
    /// The numbers behind a chart over time.
    pub(crate) time: Option<TimeChart>,
}

/// One side of a comparison, or the only result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Side<'a> {
    /// `A` or `B`; empty where there is only one.
    pub(crate) name: &'static str,
    pub(crate) result: &'a SimResult,
}

/// The charts of one simulation, in the order of the page; none where no command was counted.
#[must_use]
pub fn sim(result: &SimResult) -> Vec<Chart> {
    of_sides(&[Side { name: "", result }])
}

/// The charts of two simulations on the same scales; none where neither counted a command.
#[must_use]
pub fn compare(a: &SimResult, b: &SimResult) -> Vec<Chart> {
    of_sides(&[Side { name: "A", result: a }, Side { name: "B", result: b }])
}

/// The charts of an exploration of parameters.
#[must_use]
pub fn sweep(result: &SweepResult) -> Vec<Chart> {
    vec![tradeoff::chart(result)]
}

/// The charts of a simulated drive held against a measured one; none where no request was judged.
#[must_use]
pub fn validate(result: &ValidateResult) -> Vec<Chart> {
    if result.judged == 0 { Vec::new() } else { validation::charts(result) }
}

/// The charts of a probe; none where no method was measured. The document also knows how many cores the machine has.
#[must_use]
pub fn probe(document: &Document<ProbeResult>) -> Vec<Chart> {
    probe::charts(document)
}

/// The charts of a program that was run with reading ahead; none where no file was followed.
#[must_use]
pub fn run(result: &RunResult) -> Vec<Chart> {
    run::charts(result)
}

/// The charts of an experiment in virtual time; none where nothing was run.
#[must_use]
pub fn scenario(result: &ScenarioResult) -> Vec<Chart> {
    let mut charts = regulation::charts(result);
    // Where I/O times are kept, where the time goes says little.
    if charts.is_empty() {
        charts = scenario::charts(result);
    }
    charts.extend(job::charts(result));
    charts
}

fn of_sides(sides: &[Side<'_>]) -> Vec<Chart> {
    if sides.iter().all(|side| side.result.commands == 0) {
        return Vec::new();
    }
    let mut charts = over_time::charts(sides);
    charts.push(curve::chart(sides));
    charts.push(distribution::chart(sides));
    charts.push(breakdown::chart(sides));
    charts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use crate::schema::Run;
    use proptest::prelude::*;

    #[test]
    fn every_chart_s_name_is_known_beforehand() {
        let (a, b) = (sample::result("short"), sample::result("long"));
        let all = [
            sim(&a),
            compare(&a, &b),
            sweep(&sample::sweep().result),
            validate(&sample::validation().result),
            probe(&sample::probe()),
            run(&sample::followed().result),
            scenario(&sample::scenario().result),
            scenario(&sample::jobs().result),
            scenario(&sample::regulated().result),
            scenario(&sample::searched().result),
        ];
        let drawn: std::collections::BTreeSet<&str> = all.iter().flatten().map(|chart| chart.name).collect();
        let unknown: Vec<_> = drawn.iter().filter(|name| !NAMES.contains(name)).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }

    #[test]
    fn a_small_chart() {
        let mut result = sample::result("long");
        result.chunks.truncate(4);
        let charts = sim(&result);
        let seeks = charts.iter().find(|chart| chart.name == "seeks").unwrap();
        insta::assert_snapshot!(seeks.svg);
    }

    #[test]
    fn charts_of_a_probe() {
        let mut document = sample::probe();
        document.result.cases.retain(|case| case.target == "loop" || case.random);
        let svgs: Vec<String> = probe(&document).into_iter().map(|chart| chart.svg).collect();
        insta::assert_snapshot!(svgs.join("\n"));
    }

    #[test]
    fn a_run_is_drawn_whatever_is_in_it() {
        let mut document = sample::followed();
        assert!(run(&document.result).iter().all(is_sound) && run(&document.result).len() == 2);
        let points = &mut document.result.readings[0].points;
        points[1].main_bytes = u64::MAX;
        points[2].at_ns = u64::MAX;
        points[4].io_wait_ns = 0;
        assert!(run(&document.result).iter().all(is_sound));
        assert!(run(&RunResult::default()).is_empty());
    }

    #[test]
    fn regulated_programs_have_charts_of_their_own() {
        let names = |document: &Document<ScenarioResult>| {
            let charts = scenario(&document.result);
            assert!(charts.iter().all(is_sound));
            charts.iter().map(|chart| chart.name).collect::<Vec<_>>()
        };
        assert_eq!(
            names(&sample::regulated()),
            ["accuracy", "spread", "throughput", "course", "distribution"]
        );
        assert_eq!(names(&sample::searched()), ["search", "course"]);
    }

    #[test]
    fn charts_have_different_names() {
        let (a, b) = (sample::result("short"), sample::result("long"));
        let mut names: Vec<&str> = compare(&a, &b).iter().map(|chart| chart.name).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn nothing_is_drawn_without_harm() {
        let zero_times = SimResult {
            commands: 1,
            chunks: vec![Default::default()],
            response_curve: vec![Default::default()],
            response_histogram: vec![Default::default()],
            breakdown_mean_ns: vec![Default::default()],
            ..SimResult::default()
        };
        let no_series = SimResult { commands: 1, ..SimResult::default() };
        for result in [no_series, zero_times] {
            assert!(sim(&result).iter().all(is_sound));
        }
        assert!(sim(&SimResult::default()).is_empty());
        assert!(sweep(&SweepResult::default()).iter().all(is_sound));
        let no_curves = ValidateResult { judged: 1, ..ValidateResult::default() };
        assert!(validate(&no_curves).iter().all(is_sound));
        assert!(validate(&ValidateResult::default()).is_empty());
        assert!(probe(&Document::probe(Run::default(), ProbeResult::default())).is_empty());
    }

    fn is_sound(chart: &Chart) -> bool {
        let svg = &chart.svg;
        svg.starts_with("<svg ")
            && svg.ends_with("</svg>\n")
            && !svg.contains("NaN")
            && !svg.contains("inf\"")
    }

    proptest! {
        #[test]
        fn any_result_can_be_drawn(a in sample::any_result(), b in sample::any_result()) {
            prop_assert!(compare(&a, &b).iter().all(is_sound));
        }

        #[test]
        fn any_validation_can_be_drawn(result in sample::any_validation()) {
            prop_assert!(validate(&result).iter().all(is_sound));
        }

        #[test]
        fn any_probe_can_be_drawn(result in sample::any_broken_probe()) {
            prop_assert!(probe(&Document::probe(Run::default(), result)).iter().all(is_sound));
        }

        #[test]
        fn any_scenario_can_be_drawn(result in sample::any_scenario()) {
            prop_assert!(scenario(&result).iter().all(is_sound));
        }

        #[test]
        fn any_exploration_can_be_drawn(result in sample::any_sweep()) {
            prop_assert!(sweep(&result).iter().all(is_sound));
        }
    }
}
