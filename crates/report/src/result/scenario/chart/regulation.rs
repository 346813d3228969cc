//! Charts of regulated programs in an experiment: accuracy, spread and throughput over the requested rate, the search
//! for the best allowance, the course of the allowance, and the distribution of the I/O time.

use crate::chart::Chart;
use crate::chart::axis::Axis;
use crate::chart::lines::{self, Level, Look, Panels, Point};
use crate::number::round_decimal;
use crate::result::points;
use crate::result::regulation::{ALLOWANCE, regulated};
use crate::result::{AllowancePoint, RegulationPoint, ScenarioPoint, ScenarioResult};
use crate::value::GOOD_ACCURACY_MAX;

/// Maximum panels that are drawn; the table has all.
const PANELS_MAX: usize = 8;
/// Maximum lines of a panel that are drawn; the table has all.
const LINES_MAX: usize = 16;
/// Height of a panel, in pixels.
const PANEL_HEIGHT: u32 = 280;
/// Multiple of the ideal time at which the distribution is truncated.
const DRAWN_RATIO_MAX: f64 = 2.0;
/// Accuracies above this are drawn at the edge.
const DRAWN_ACCURACY_MAX: f64 = 1.6;
const ACCURACIES: &[Level] = &[(1.0, "1 is exact"), (GOOD_ACCURACY_MAX, "up to 1.1 is good")];

type At<'a> = (&'a ScenarioPoint, &'a RegulationPoint);
type Extract = fn(&RegulationPoint) -> f64;

pub(crate) fn charts(result: &ScenarioResult) -> Vec<Chart> {
    let rate = result.varied.iter().position(|key| key.ends_with(".rate"));
    let allowance = result.varied.iter().position(|key| key == ALLOWANCE);
    let by_rate = rate.filter(|_| allowance.is_none()).map(|key| by_rate(result, key)).unwrap_or_default();
    let search = allowance.and_then(|key| search(result, key));
    let distribution = allowance.is_none().then(|| distribution(result, rate)).flatten();
    by_rate.into_iter().chain(search).chain(course(result, rate)).chain(distribution).collect()
}

/// Properties of a chart.
struct View {
    name: &'static str,
    title: &'static str,
    caption: &'static str,
    x_title: &'static str,
    y_title: &'static str,
    levels: &'static [Level],
    /// Whether points are marked.
    is_dotted: bool,
    /// Whether the y axis begins at zero.
    from_zero: bool,
}

/// Arranges points in panels: lines differ by the last of the keys that are not in `not`, panels by the others.
fn panels(result: &ScenarioResult, not: &[usize], places: impl Fn(At<'_>) -> Vec<(f64, f64)>) -> Panels {
    let mut panels = Panels::default();
    for point in regulated(result) {
        let mut rest: Vec<String> = (point.0.values.iter().enumerate())
            .filter(|(index, _)| !not.contains(index))
            .map(|(index, value)| points::named(result.varied.get(index), value))
            .collect();
        let places = places(point);
        if places.is_empty() {
            continue;
        }
        let label = rest.pop().unwrap_or_default();
        let all = point.0.values.join(", ");
        let words = |value: f64| format!("{all}: {}", round_decimal((value * 1e3).round() / 1e3));
        let points = places.into_iter().map(|(x, y)| Point { x, y, words: words(y) });
        panels.line(rest.join(", "), label).points.extend(points);
    }
    panels
}

fn draw(mut panels: Panels, view: &View) -> Option<Chart> {
    let is_cut = panels.limit(PANELS_MAX, LINES_MAX);
    panels.points().next()?;
    let zero = view.from_zero.then_some(0.0);
    let levels = view.levels.iter().map(|(level, _)| *level);
    let mut caption = view.caption.to_owned();
    if is_cut {
        caption.push_str(" Lines beyond those that can be distinguished are only in the table.");
    }
    let look = Look {
        name: view.name,
        title: view.title,
        caption,
        x: Axis::numbers(view.x_title, panels.points().map(|point| point.x)),
        y: Axis::heights(view.y_title, panels.points().map(|point| point.y).chain(levels).chain(zero)),
        levels: view.levels,
        is_dotted: view.is_dotted,
        height: if panels.0.len() == 1 { 2 * PANEL_HEIGHT } else { PANEL_HEIGHT },
    };
    Some(lines::chart(&panels, look))
}

/// Returns the charts of accuracy, spread and throughput over the rate (figures 6.2 to 6.4 and 6.8).
fn by_rate(result: &ScenarioResult, key: usize) -> Vec<Chart> {
    let views: [(View, Extract); 3] = [
        (
            View {
                name: "accuracy",
                title: "Accuracy over the rate",
                caption: "Mean of actual over ideal time: 1 is exact, and up to 1.1 is good (section 6.2).",
                x_title: "rate, % of the device",
                y_title: "actual over ideal time",
                levels: ACCURACIES,
                is_dotted: true,
                from_zero: false,
            },
            accuracy,
        ),
        (
            View {
                name: "spread",
                title: "Spread of the I/O time over the rate",
                caption: "A lower spread is a more constant I/O time.",
                x_title: "rate, % of the device",
                y_title: "standard deviation over mean",
                levels: &[],
                is_dotted: true,
                from_zero: true,
            },
            RegulationPoint::worst_cov,
        ),
        (
            View {
                name: "throughput",
                title: "Throughput of all programs over the rate",
                caption: "Throughput of the device that remains while one program's I/O time is kept constant.",
                x_title: "rate, % of the device",
                y_title: "I/Os per second",
                levels: &[],
                is_dotted: true,
                from_zero: true,
            },
            |point| point.ios_per_s,
        ),
    ];
    let chart = |(view, extract): &(View, Extract)| draw(over(result, key, *extract), view);
    views.iter().filter_map(chart).collect()
}

fn accuracy(point: &RegulationPoint) -> f64 {
    point.worst_accuracy().min(DRAWN_ACCURACY_MAX)
}

/// Returns panels of a figure over a numeric key; empty if it has only one value.
fn over(result: &ScenarioResult, key: usize, extract: Extract) -> Panels {
    let mut panels = panels(result, &[key], |(point, regulation)| {
        let at = point.values.get(key).and_then(|value| value.parse::<f64>().ok());
        let value = extract(regulation);
        at.filter(|_| value.is_finite()).map(|at| (at, value)).into_iter().collect()
    });
    for line in panels.0.iter_mut().flat_map(|panel| &mut panel.lines) {
        line.points.sort_by(|a, b| a.x.total_cmp(&b.x));
    }
    panels.0.iter_mut().for_each(|panel| panel.lines.retain(|line| line.points.len() > 1));
    panels.0.retain(|panel| !panel.lines.is_empty());
    panels
}

/// Returns the chart of the accuracy over the allowance (figure 6.1).
fn search(result: &ScenarioResult, key: usize) -> Option<Chart> {
    let view = View {
        name: "search",
        title: "Accuracy over the allowance",
        caption: "The best allowance is the largest at which the accuracy is up to 1.1 (section 6.2), no more than the \
                  formula's.",
        x_title: "allowance",
        y_title: "actual over ideal time",
        levels: ACCURACIES,
        is_dotted: true,
        from_zero: false,
    };
    draw(over(result, key, accuracy), &view)
}

/// Returns the chart of the allowance over the regulated I/Os (figures 6.5 to 6.7), if it is corrected.
fn course(result: &ScenarioResult, rate: Option<usize>) -> Option<Chart> {
    let view = View {
        name: "course",
        title: "Allowance over time",
        caption: "From the allowance of the formula to the corrected one, in the first run.",
        x_title: "I/Os of regulated programs",
        y_title: "allowance",
        levels: &[],
        is_dotted: false,
        from_zero: true,
    };
    let steps = |point: &RegulationPoint| {
        let course = &point.allowance_course;
        let ends = course.iter().skip(1).map(|next| next.ios).chain([point.regulated_ios]);
        let step = |(at, end): (&AllowancePoint, u64)| {
            [(at.ios as f64, f64::from(at.allowance)), (end as f64, f64::from(at.allowance))]
        };
        course.iter().zip(ends).flat_map(step).collect()
    };
    // Lines differ by the rate, whichever key comes last.
    let mut ordered = result.clone();
    if let Some(rate) = rate {
        for point in ordered.points.iter_mut().filter(|point| rate < point.values.len()) {
            let value = point.values.remove(rate);
            point.values.push(format!("{value} %"));
        }
    }
    let panels = panels(&ordered, &[], |(_, point)| {
        let is_corrected = ["corrected", "both-ways"].contains(&point.decided_by.as_str());
        if is_corrected { steps(point) } else { Vec::new() }
    });
    draw(panels, &view)
}

/// Returns the distribution of actual over ideal I/O time, at the median of the rates.
fn distribution(result: &ScenarioResult, rate: Option<usize>) -> Option<Chart> {
    let view = View {
        name: "distribution",
        title: "Distribution of the I/O time",
        caption: "Cumulative share of the I/Os over their actual to ideal time, in the first run at the \
                  middle rate: the steeper at 1, the more constant. The axis ends before the longest \
                  I/Os.",
        x_title: "actual over ideal time",
        y_title: "share of the I/Os, %",
        levels: &[],
        is_dotted: false,
        from_zero: true,
    };
    let value = |point: &ScenarioPoint| rate.and_then(|rate| point.values.get(rate)).cloned();
    let mut rates: Vec<Option<String>> = Vec::new();
    for (point, _) in regulated(result) {
        if !rates.contains(&value(point)) {
            rates.push(value(point));
        }
    }
    let middle = rates.get(rates.len() / 2)?.clone();
    let not: Vec<usize> = rate.into_iter().collect();
    let panels = panels(result, &not, |(point, regulation)| {
        let owner = regulation.owners.first().filter(|_| value(point) == middle);
        let quantiles = owner.map(|owner| owner.quantile_ratios.as_slice()).unwrap_or_default();
        let shares = quantiles.iter().enumerate().map(|(percent, ratio)| (*ratio, percent as f64));
        shares.take_while(|(ratio, _)| *ratio <= DRAWN_RATIO_MAX).collect()
    });
    draw(panels, &view)
}
