//! Charts as SVG: one file per kind; frame, axes and colours are shared.
//!
//! Every mark, be it a line, a bar or a point, carries a text that describes it (`plot`). Each chart is drawn twice,
//! wide and narrow (`layout`), so that its text can be read on a phone.
//!
//! Two runs of a comparison are drawn one above the other with the same scales, so that heights can be compared. All
//! charts over time have the same left and right edge and the same time axis. The drawing is complete without a script;
//! the page's cursor only reads the numbers out.

mod axis;
mod bars;
mod breakdown;
mod curve;
mod distribution;
mod ends;
mod frame;
mod job;
mod layout;
mod lines;
mod mount;
mod over_time;
mod palette;
mod path;
mod plot;
mod probe;
mod regulation;
mod room;
mod run;
mod scenario;
mod stroke;
mod top;
mod tradeoff;
mod validation;

use crate::schema::{
    Document, MountResult, ProbeResult, RunResult, ScenarioResult, SimResult, SweepResult, TopResult,
    ValidateResult,
};

use frame::{Drawing, Frame};

pub(crate) use over_time::{Panel, TimeChart};

/// Names of all charts, by which a caller can determine in advance the files that would be overwritten.
pub const NAMES: [&str; 30] = [
    "accesses",
    "accuracy",
    "backlog",
    "breakdown",
    "busy",
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
    "in-flight",
    "ios",
    "limit",
    "positions",
    "queue",
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
    pub caption: String,
    /// A complete SVG document that fills the width it is given.
    pub svg: String,
    /// The same for a phone.
    pub(crate) narrow_svg: String,
    /// The numbers behind a chart over time.
    pub(crate) time: Option<TimeChart>,
}

impl Chart {
    fn new(frame: &Frame, caption: impl Into<String>, drawing: Drawing) -> Chart {
        Chart {
            name: frame.name,
            title: frame.title,
            caption: caption.into(),
            svg: drawing.wide,
            narrow_svg: drawing.narrow,
            time: None,
        }
    }
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

/// The charts of a mounted drive over its time; none where it did not last a second.
#[must_use]
pub fn mount(result: &MountResult) -> Vec<Chart> {
    mount::charts(&result.windows)
}

/// The charts of a regulated device over the time that it was watched; none where there was but one look.
#[must_use]
pub fn top(result: &TopResult) -> Vec<Chart> {
    top::charts(result)
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
            mount(&sample::live::mount()),
            top(&sample::live::top()),
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
        [&chart.svg, &chart.narrow_svg].into_iter().all(|svg| {
            svg.starts_with("<svg ")
                && svg.ends_with("</svg>\n")
                && !svg.contains("NaN")
                && !svg.contains("inf\"")
                && marks(svg).iter().all(|mark| !mark.words.is_empty())
        })
    }

    /// A mark drawn for data, unlike aids such as the grid and the legend.
    struct Mark<'a> {
        words: &'a str,
        colours: Vec<&'a str>,
    }

    fn between<'a>(text: &'a str, from: &str, to: &str) -> Option<&'a str> {
        let start = text.find(from)? + from.len();
        Some(&text[start..start + text[start..].find(to)?])
    }

    fn colours(line: &str) -> Vec<&str> {
        let of = |attribute: &str| between(line, attribute, "\"");
        [of("fill=\""), of("stroke=\"")]
            .into_iter()
            .flatten()
            .filter(|colour| colour.starts_with('#'))
            .collect()
    }

    fn shapes(svg: &str) -> impl Iterator<Item = &str> {
        svg.lines().filter(|line| ["<path", "<rect", "<circle"].iter().any(|shape| line.starts_with(shape)))
    }

    fn marks(svg: &str) -> Vec<Mark<'_>> {
        let data = shapes(svg).filter(|line| !line.contains("class=\"aid\""));
        let mark = |line| Mark {
            words: between(line, "<title>", "</title>").unwrap_or_default(),
            colours: colours(line),
        };
        data.map(mark).collect()
    }

    /// Charts of every kind.
    fn gallery() -> Vec<Chart> {
        let (short, long) = (sample::result("short"), sample::result("long"));
        let mut charts = sim(&short);
        charts.extend(compare(&short, &long));
        charts.extend(sweep(&sample::sweep().result));
        charts.extend(validate(&sample::validation().result));
        charts.extend(probe(&sample::probe()));
        charts.extend(run(&sample::followed().result));
        charts.extend(mount(&sample::live::mount()));
        charts.extend(top(&sample::live::top()));
        for document in [sample::scenario(), sample::jobs(), sample::regulated(), sample::searched()] {
            charts.extend(scenario(&document.result));
        }
        charts
    }

    #[test]
    fn every_line_bar_and_point_says_what_it_is() {
        for chart in gallery() {
            for svg in [&chart.svg, &chart.narrow_svg] {
                let marks = marks(svg);
                assert!(!marks.is_empty(), "{} shows nothing", chart.name);
                for mark in marks {
                    assert!(!mark.words.trim().is_empty(), "{}: a mark without words", chart.name);
                }
            }
        }
    }

    #[test]
    fn every_colour_is_in_the_legend_where_there_are_several() {
        for chart in gallery() {
            for svg in [&chart.svg, &chart.narrow_svg] {
                let marks = marks(svg);
                let mut used: Vec<&str> = marks.iter().flat_map(|mark| mark.colours.clone()).collect();
                used.sort_unstable();
                used.dedup();
                let keys: Vec<&str> = shapes(svg)
                    .filter(|line| line.contains("class=\"aid\"") && line.contains("<text"))
                    .flat_map(colours)
                    .collect();
                for colour in used.iter().filter(|_| used.len() > 1) {
                    assert!(keys.contains(colour), "{}: nothing says what {colour} is", chart.name);
                }
            }
        }
    }

    #[test]
    fn a_thousand_chunks_are_joined_and_the_caption_says_so() {
        let mut result = sample::result("long");
        let chunk = result.chunks[0];
        result.chunks = (0..1000)
            .map(|index| crate::schema::ChunkPoint {
                start_ns: index * 1_000_000,
                end_ns: (index + 1) * 1_000_000,
                ..chunk
            })
            .collect();
        for chart in sim(&result).iter().filter(|chart| chart.time.is_some()) {
            assert!(chart.caption.contains("as one"), "{}: {}", chart.name, chart.caption);
        }
        let few = sim(&sample::result("long"));
        assert!(few.iter().all(|chart| !chart.caption.contains("as one")));
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
        fn any_mount_and_any_watched_device_can_be_drawn(
            mounted in sample::any_mount(),
            watched in sample::any_top(),
        ) {
            prop_assert!(mount(&mounted).iter().chain(&top(&watched)).all(is_sound));
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
