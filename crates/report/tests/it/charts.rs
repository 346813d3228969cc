//! The pictures.

use crate::sample;
use proptest::prelude::*;
use sakiyomi_report::chart::{Chart, NAMES};
use sakiyomi_report::result::*;
use sakiyomi_report::{Comparison, Present, Reported};

/// Returns whether a page's script displays the numbers of a chart.
fn is_over_time(chart: &Chart) -> bool {
    ["hits", "seeks", "response", "disk-time", "backlog"].contains(&chart.name)
}

/// Returns the charts of a result on an unknown machine.
fn drawn<R: Present>(result: &R) -> Vec<Chart> {
    result.charts(&Machine::default())
}

fn compared(a: &SimResult, b: &SimResult) -> Vec<Chart> {
    let [a, b] = [a, b].map(|result| Document::new(Run::default(), result.clone()));
    Comparison { a: &a, b: &b }.charts()
}

#[test]
fn every_chart_s_name_is_known_beforehand() {
    let (a, b) = (sample::result("short"), sample::result("long"));
    let all = [
        drawn(&a),
        compared(&a, &b),
        sample::sweep().charts(),
        sample::validation().charts(),
        sample::probe().charts(),
        drawn(&sample::followed().result),
        drawn(&sample::explained().result),
        drawn(&sample::sorted().result),
        sample::scenario().charts(),
        sample::jobs().charts(),
        sample::regulated().charts(),
        sample::searched().charts(),
        drawn(&sample::live::mount()),
        drawn(&sample::live::top()),
        drawn(&sample::stream::run()),
        drawn(&sample::stream::simulated()),
    ];
    let drawn: std::collections::BTreeSet<&str> = all.iter().flatten().map(|chart| chart.name).collect();
    let unknown: Vec<_> = drawn.iter().filter(|name| !NAMES.contains(name)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn a_small_chart() {
    let mut result = sample::result("long");
    result.chunks.truncate(4);
    let charts = drawn(&result);
    let seeks = charts.iter().find(|chart| chart.name == "seeks").unwrap();
    insta::assert_snapshot!(seeks.svg);
}

#[test]
fn charts_of_a_probe() {
    let mut document = sample::probe();
    document.result.cases.retain(|case| case.target == "loop" || case.random);
    let svgs: Vec<String> = document.charts().into_iter().map(|chart| chart.svg).collect();
    insta::assert_snapshot!(svgs.join("\n"));
}

#[test]
fn a_run_is_drawn_whatever_is_in_it() {
    let mut document = sample::followed();
    assert!(drawn(&document.result).iter().all(is_sound) && drawn(&document.result).len() == 2);
    let points = &mut document.result.readings[0].points;
    points[1].main_bytes = u64::MAX;
    points[2].at_ns = u64::MAX;
    points[4].io_wait_ns = 0;
    assert!(drawn(&document.result).iter().all(is_sound));
    assert!(drawn(&RunResult::default()).is_empty());
}

#[test]
fn regulated_programs_have_charts_of_their_own() {
    let names = |document: &Document<ScenarioResult>| {
        let charts = drawn(&document.result);
        assert!(charts.iter().all(is_sound));
        charts.iter().map(|chart| chart.name).collect::<Vec<_>>()
    };
    assert_eq!(names(&sample::regulated()), ["accuracy", "spread", "throughput", "course", "distribution"]);
    assert_eq!(names(&sample::searched()), ["search", "course"]);
}

#[test]
fn charts_have_different_names() {
    let (a, b) = (sample::result("short"), sample::result("long"));
    let mut names: Vec<&str> = compared(&a, &b).iter().map(|chart| chart.name).collect();
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
        assert!(drawn(&result).iter().all(is_sound));
    }
    assert!(drawn(&SimResult::default()).is_empty());
    assert!(drawn(&SweepResult::default()).iter().all(is_sound));
    let no_curves = ValidateResult { judged: 1, ..ValidateResult::default() };
    assert!(drawn(&no_curves).iter().all(is_sound));
    assert!(drawn(&ValidateResult::default()).is_empty());
    assert!(drawn(&ProbeResult::default()).is_empty());
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

/// A mark that represents data, unlike aids such as the grid and the legend.
struct Mark<'a> {
    words: &'a str,
    colors: Vec<&'a str>,
}

fn between<'a>(text: &'a str, from: &str, to: &str) -> Option<&'a str> {
    let start = text.find(from)? + from.len();
    Some(&text[start..start + text[start..].find(to)?])
}

fn colors(line: &str) -> Vec<&str> {
    let of = |attribute: &str| between(line, attribute, "\"");
    [of("fill=\""), of("stroke=\"")].into_iter().flatten().filter(|color| color.starts_with('#')).collect()
}

fn shapes(svg: &str) -> impl Iterator<Item = &str> {
    svg.lines().filter(|line| ["<path", "<rect", "<circle"].iter().any(|shape| line.starts_with(shape)))
}

fn marks(svg: &str) -> Vec<Mark<'_>> {
    let data = shapes(svg).filter(|line| !line.contains("class=\"aid\""));
    let mark =
        |line| Mark { words: between(line, "<title>", "</title>").unwrap_or_default(), colors: colors(line) };
    data.map(mark).collect()
}

/// Returns charts of every kind.
fn gallery() -> Vec<Chart> {
    let (short, long) = (sample::result("short"), sample::result("long"));
    let mut charts = drawn(&short);
    charts.extend(compared(&short, &long));
    charts.extend(sample::sweep().charts());
    charts.extend(sample::validation().charts());
    charts.extend(sample::probe().charts());
    charts.extend(drawn(&sample::followed().result));
    charts.extend(drawn(&sample::live::mount()));
    charts.extend(drawn(&sample::live::top()));
    charts.extend(drawn(&sample::stream::run()));
    charts.extend(drawn(&sample::stream::simulated()));
    for document in [sample::scenario(), sample::jobs(), sample::regulated(), sample::searched()] {
        charts.extend(drawn(&document.result));
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
fn every_color_is_in_the_legend_where_there_are_several() {
    for chart in gallery() {
        for svg in [&chart.svg, &chart.narrow_svg] {
            let marks = marks(svg);
            let mut used: Vec<&str> = marks.iter().flat_map(|mark| mark.colors.clone()).collect();
            used.sort_unstable();
            used.dedup();
            let keys: Vec<&str> = shapes(svg)
                .filter(|line| line.contains("class=\"aid\"") && line.contains("<text"))
                .flat_map(colors)
                .collect();
            for color in used.iter().filter(|_| used.len() > 1) {
                assert!(keys.contains(color), "{}: nothing says what {color} is", chart.name);
            }
        }
    }
}

#[test]
fn a_thousand_chunks_are_joined_and_the_caption_says_so() {
    let mut result = sample::result("long");
    let chunk = result.chunks[0];
    result.chunks = (0..1000)
        .map(|index| sakiyomi_report::result::ChunkPoint {
            start_ns: index * 1_000_000,
            end_ns: (index + 1) * 1_000_000,
            ..chunk
        })
        .collect();
    for chart in drawn(&result).iter().filter(|chart| is_over_time(chart)) {
        assert!(chart.caption.contains("as one"), "{}: {}", chart.name, chart.caption);
    }
    let few = drawn(&sample::result("long"));
    assert!(few.iter().all(|chart| !chart.caption.contains("as one")));
}

proptest! {
    #[test]
    fn any_result_can_be_drawn(a in sample::any_result(), b in sample::any_result()) {
        prop_assert!(compared(&a, &b).iter().all(is_sound));
    }

    #[test]
    fn any_validation_can_be_drawn(result in sample::any_validation()) {
        prop_assert!(drawn(&result).iter().all(is_sound));
    }

    #[test]
    fn any_probe_can_be_drawn(result in sample::any_broken_probe()) {
        prop_assert!(drawn(&result).iter().all(is_sound));
    }

    #[test]
    fn any_mount_and_any_watched_device_can_be_drawn(
        mounted in sample::any_mount(),
        watched in sample::any_top(),
    ) {
        prop_assert!(drawn(&mounted).iter().chain(&drawn(&watched)).all(is_sound));
    }

    #[test]
    fn any_scenario_can_be_drawn(result in sample::any_scenario()) {
        prop_assert!(drawn(&result).iter().all(is_sound));
    }

    #[test]
    fn any_exploration_can_be_drawn(result in sample::any_sweep()) {
        prop_assert!(drawn(&result).iter().all(is_sound));
    }
}
