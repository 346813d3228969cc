//! Regulated programs in an experiment: accuracy, spread and throughput over what was asked for, the search for the best
//! allowance, the allowance's course, and how the I/O time is distributed.

use plotters::prelude::*;

use super::axis::Axis;
use super::ends::{self, End};
use super::frame::{self, Frame, LEFT, PanelFrame};
use super::{Chart, palette};
use crate::regulation::{ALLOWANCE, GOOD, regulated};
use crate::schema::{RegulationPoint, ScenarioPoint, ScenarioResult};

/// More panels than this are not drawn; the table has them.
const PANELS: usize = 8;
/// More lines than this in a panel are not drawn.
const LINES: usize = 12;
const PANEL_HEIGHT: u32 = 300;
/// Room behind the lines for their names, as a share of the axis.
const FREE: f64 = 0.16;
/// Beyond so many times the ideal time the distribution is cut off.
const MOST_RATIO: f64 = 2.0;
/// Beyond so many times the ideal time an accuracy is drawn at the edge.
const MOST_ACCURACY: f64 = 1.6;

type Point<'a> = (&'a ScenarioPoint, &'a RegulationPoint);
type Extract = fn(&RegulationPoint) -> f64;

pub(super) fn charts(result: &ScenarioResult) -> Vec<Chart> {
    let rate = result.varied.iter().position(|key| key.ends_with(".rate"));
    let allowance = result.varied.iter().position(|key| key == ALLOWANCE);
    let by_rate = rate.filter(|_| allowance.is_none()).map(|key| by_rate(result, key)).unwrap_or_default();
    let search = allowance.and_then(|key| search(result, key));
    let distribution = allowance.is_none().then(|| distribution(result, rate)).flatten();
    by_rate.into_iter().chain(search).chain(course(result, rate)).chain(distribution).collect()
}

/// A line of a panel.
struct Line {
    label: String,
    places: Vec<(f64, f64)>,
}

struct Panel {
    name: String,
    lines: Vec<Line>,
}

/// What kind of picture it is.
struct Look {
    name: &'static str,
    title: &'static str,
    caption: &'static str,
    x_title: &'static str,
    y_title: &'static str,
    /// Values at which a line is drawn from left to right.
    marks: &'static [f64],
    /// Whether points are marked.
    dotted: bool,
    /// Whether the y axis begins at zero.
    from_zero: bool,
}

/// Puts points into panels: the last of the keys that `x` does not use tells lines apart, the others panels.
fn panels(
    result: &ScenarioResult,
    not: &[usize],
    places: impl Fn(Point<'_>) -> Vec<(f64, f64)>,
) -> Vec<Panel> {
    let mut panels: Vec<Panel> = Vec::new();
    for point in regulated(result) {
        let mut rest: Vec<&str> = (point.0.values.iter().enumerate())
            .filter(|(index, _)| !not.contains(index))
            .map(|(_, value)| value.as_str())
            .collect();
        let places = places(point);
        if places.is_empty() {
            continue;
        }
        let label = rest.pop().unwrap_or_default().to_owned();
        let name = rest.join(", ");
        let panel = panels.iter().position(|panel| panel.name == name).unwrap_or_else(|| {
            panels.push(Panel { name, lines: Vec::new() });
            panels.len() - 1
        });
        let lines = &mut panels[panel].lines;
        let line = lines.iter().position(|line| line.label == label).unwrap_or_else(|| {
            lines.push(Line { label, places: Vec::new() });
            lines.len() - 1
        });
        lines[line].places.extend(places);
    }
    panels
}

fn draw(mut panels: Vec<Panel>, look: &Look) -> Option<Chart> {
    panels.truncate(PANELS);
    panels.iter_mut().for_each(|panel| panel.lines.truncate(LINES));
    let all = || panels.iter().flat_map(|panel| &panel.lines).flat_map(|line| &line.places);
    all().next()?;
    let x = Axis::numbers(look.x_title, all().map(|place| place.0), FREE);
    let last = all().map(|place| place.0).fold(f64::NEG_INFINITY, f64::max);
    let zero = look.from_zero.then_some(0.0);
    let marks = look.marks.iter().copied();
    let y = Axis::numbers(look.y_title, all().map(|place| place.1).chain(marks).chain(zero), 0.0);
    let height = if panels.len() == 1 { 2 * PANEL_HEIGHT } else { PANEL_HEIGHT };
    let frame = Frame {
        name: look.name,
        title: look.title,
        keys: Vec::new(),
        panels: panels
            .iter()
            .map(|panel| PanelFrame {
                name: frame::short(&panel.name, 80),
                x: x.clone(),
                y: y.clone(),
                height,
            })
            .collect(),
        left: LEFT,
    };
    let svg = frame.draw(|index, plot| {
        for &mark in look.marks {
            // No further than the lines, whose names stand behind.
            let ends = [(0.0, y.place(mark)), (x.place(last), y.place(mark))];
            plot.draw_series(LineSeries::new(ends, palette::FAINT.stroke_width(3)))?;
        }
        let lines = &panels[index].lines;
        let place = |&(at, value): &(f64, f64)| (x.place(at), y.place(value));
        for (index, line) in lines.iter().enumerate() {
            let colour = palette::series(index);
            let places = line.places.iter().map(place);
            plot.draw_series(LineSeries::new(places.clone(), colour.stroke_width(4)))?;
            if look.dotted {
                plot.draw_series(places.map(|place| Circle::new(place, 6, colour.filled())))?;
            }
        }
        let ends = lines.iter().enumerate().filter_map(|(index, line)| {
            Some(End { at: place(line.places.last()?), label: &line.label, index })
        });
        ends::draw(ends.collect(), 32.0 / f64::from(height), plot)
    });
    Some(Chart { name: look.name, title: look.title, caption: look.caption, svg, time: None })
}

/// Accuracy, spread and throughput over the rate (figures 6.2 to 6.4 and 6.8).
fn by_rate(result: &ScenarioResult, key: usize) -> Vec<Chart> {
    let looks: [(Look, Extract); 3] = [
        (
            Look {
                name: "accuracy",
                title: "Accuracy over the rate",
                caption: "Mean of actual over ideal time: 1 is exact, and up to 1.1 is good (section 6.2).",
                x_title: "rate, % of the device",
                y_title: "actual over ideal time",
                marks: &[1.0, GOOD],
                dotted: true,
                from_zero: false,
            },
            accuracy,
        ),
        (
            Look {
                name: "spread",
                title: "Spread of the I/O time over the rate",
                caption: "The lower, the more constant the I/O time.",
                x_title: "rate, % of the device",
                y_title: "standard deviation over mean",
                marks: &[],
                dotted: true,
                from_zero: true,
            },
            RegulationPoint::worst_cov,
        ),
        (
            Look {
                name: "throughput",
                title: "Throughput of all programs over the rate",
                caption: "What keeping one program's I/O time leaves of the device's throughput.",
                x_title: "rate, % of the device",
                y_title: "I/Os a second",
                marks: &[],
                dotted: true,
                from_zero: true,
            },
            |point| point.ios_per_s,
        ),
    ];
    let chart = |(look, extract): &(Look, Extract)| draw(over(result, key, *extract), look);
    looks.iter().filter_map(chart).collect()
}

fn accuracy(point: &RegulationPoint) -> f64 {
    point.worst_accuracy().min(MOST_ACCURACY)
}

/// Panels of a figure over a key with numbers; where there is but one number nothing is worth a picture.
fn over(result: &ScenarioResult, key: usize, extract: Extract) -> Vec<Panel> {
    let mut panels = panels(result, &[key], |(point, regulation)| {
        let at = point.values.get(key).and_then(|value| value.parse::<f64>().ok());
        let value = extract(regulation);
        at.filter(|_| value.is_finite()).map(|at| (at, value)).into_iter().collect()
    });
    for line in panels.iter_mut().flat_map(|panel| &mut panel.lines) {
        line.places.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    panels.iter_mut().for_each(|panel| panel.lines.retain(|line| line.places.len() > 1));
    panels.retain(|panel| !panel.lines.is_empty());
    panels
}

/// Accuracy over the allowance (figure 6.1).
fn search(result: &ScenarioResult, key: usize) -> Option<Chart> {
    let look = Look {
        name: "search",
        title: "Accuracy over the allowance",
        caption: "The best allowance is the largest at which the accuracy is up to 1.1 (section 6.2), no more than the \
                  formula's.",
        x_title: "allowance",
        y_title: "actual over ideal time",
        marks: &[1.0, GOOD],
        dotted: true,
        from_zero: false,
    };
    draw(over(result, key, accuracy), &look)
}

/// The allowance over the regulated I/Os (figures 6.5 to 6.7), where it is corrected.
fn course(result: &ScenarioResult, rate: Option<usize>) -> Option<Chart> {
    let look = Look {
        name: "course",
        title: "Course of the allowance",
        caption: "From the formula's to where the correction brings it, in the first run.",
        x_title: "I/Os of regulated programs",
        y_title: "allowance",
        marks: &[],
        dotted: false,
        from_zero: true,
    };
    let steps = |point: &RegulationPoint| {
        let course = &point.allowance_course;
        let ends = course.iter().skip(1).map(|next| next.ios).chain([point.regulated_ios]);
        let step = |(at, end): (&crate::schema::AllowancePoint, u64)| {
            [(at.ios as f64, f64::from(at.allowance)), (end as f64, f64::from(at.allowance))]
        };
        course.iter().zip(ends).flat_map(step).collect()
    };
    // The rate tells lines apart, whichever key comes last.
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
    draw(panels, &look)
}

/// The share of I/Os that take no longer than so many times the ideal, at the middle one of the rates.
fn distribution(result: &ScenarioResult, rate: Option<usize>) -> Option<Chart> {
    let look = Look {
        name: "distribution",
        title: "Distribution of the I/O time",
        caption: "The share of the I/Os that take no longer than so many times their ideal time, in the first run, at the \
                  middle one of the rates: the steeper at 1, the more constant. What goes on for longer is cut off.",
        x_title: "actual over ideal time",
        y_title: "share of the I/Os, %",
        marks: &[],
        dotted: false,
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
        shares.take_while(|(ratio, _)| *ratio <= MOST_RATIO).collect()
    });
    draw(panels, &look)
}
