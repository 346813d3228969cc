//! Accuracy of I/O times in an experiment in virtual time.

use crate::value::GOOD_ACCURACY_MAX;
use serde::{Deserialize, Serialize};

use super::points::{Keys, last_word};
use super::{ScenarioPoint, ScenarioResult};
use crate::number::{NONE, count, decimal, duration};
use crate::rows::Rows;
use crate::section::Table;
use crate::value::Value;

/// A point of an experiment with regulated programs. Every figure is the median over the runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RegulationPoint {
    /// Measured time of each run in nanoseconds.
    pub measured_ns: u64,
    /// I/Os of all programs per second.
    pub ios_per_s: f64,
    /// Longest I/O time of a program without a rate, in nanoseconds.
    pub longest_other_ns: u64,
    /// The programs with a rate.
    pub owners: Vec<RegulatedProgram>,
    /// The rule that determined the allowance: `formula`, `fixed`, `corrected`, `both-ways`, `deadlines`.
    pub decided_by: String,
    /// The formula's allowance (section 4.2).
    pub formula_allowance: u32,
    /// The most frequent allowance in the second half.
    pub allowance: u32,
    /// The most frequent allowance in the second half of each run.
    pub allowances: Vec<u32>,
    /// Number of regulated I/Os after which it was first reached.
    pub settled_ios: u64,
    /// Regulated I/Os of the first run.
    pub regulated_ios: u64,
    /// Course of the allowance in the first run.
    pub allowance_course: Vec<AllowancePoint>,
    /// The published best allowance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published_best_allowance: Option<u32>,
    /// Other published figures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<String>,
}

/// Accuracy of one program's I/O time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RegulatedProgram {
    /// Its name.
    pub name: String,
    /// The requested rate, in percent of the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_percent: Option<u32>,
    /// The requested rate, as the time between I/Os in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_every_ns: Option<u64>,
    /// Number of its measured I/Os.
    pub ios: u64,
    /// Mean of actual over ideal time.
    pub accuracy_ratio: f64,
    /// Coefficient of variation of the I/O time.
    pub cov_ratio: f64,
    /// 99th percentile of actual over ideal time.
    pub p99_ratio: f64,
    /// Share of the I/Os that took longer than the ideal time.
    pub late_ratio: f64,
    /// Mean I/O time in nanoseconds.
    pub mean_ns: u64,
    /// Mean ideal time in nanoseconds.
    pub ideal_ns: u64,
    /// Accuracy of the I/Os that came half a second or more after the previous one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_pause_ratio: Option<f64>,
    /// Actual over ideal time at the 0th, 1st … 100th percentile of the I/Os of the first run.
    pub quantile_ratios: Vec<f64>,
}

/// The allowance from a number of regulated I/Os on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllowancePoint {
    /// Number of completed regulated I/Os.
    pub ios: u64,
    /// Maximum requests in the device.
    pub allowance: u32,
}

impl RegulationPoint {
    /// Returns the accuracy of the program that is furthest from its ideal time.
    #[must_use]
    pub fn worst_accuracy(&self) -> f64 {
        let far = |owner: &&RegulatedProgram| (owner.accuracy_ratio - 1.0).abs();
        let worst = self.owners.iter().max_by(|a, b| far(a).total_cmp(&far(b)));
        worst.map_or(f64::NAN, |owner| owner.accuracy_ratio)
    }

    /// Returns the largest coefficient of variation of the I/O time.
    #[must_use]
    pub fn worst_cov(&self) -> f64 {
        self.owners.iter().map(|owner| owner.cov_ratio).fold(f64::NAN, f64::max)
    }
}

/// The key of the maximum number of requests in the device.
pub(crate) const ALLOWANCE: &str = "regulate.allowance";
/// Returns the meaning of the columns.
fn legend(result: &ScenarioResult) -> String {
    let paused = "Paused: accuracy of the I/Os that arrived half a second or more after the previous one. ";
    format!(
        "Accuracy: mean of actual over ideal time, 1 is exact. CoV: standard deviation of the I/O time over its mean. p99: \
         99 % of the I/Os take no more times the ideal time. Late: the share that takes longer than that. {}Longest: the \
         longest I/O of a program without a rate. Reached: the allowance of most of the second half, and after how many \
         regulated I/Os it was that first; where deadlines decide there is none. All figures are medians over the runs.",
        if has_pauses(result) { paused } else { "" }
    )
}

fn has_pauses(result: &ScenarioResult) -> bool {
    let mut owners = regulated(result).flat_map(|(_, point)| &point.owners);
    owners.any(|owner| owner.after_pause_ratio.is_some())
}

/// Returns whether programs have different rates that are not values of a varied key.
fn has_rates(result: &ScenarioResult) -> bool {
    let mut rates = regulated(result).flat_map(|(_, point)| &point.owners).map(rate);
    let several = regulated(result).any(|(_, point)| point.owners.len() > 1);
    let first = rates.next();
    let is_varied = result.varied.iter().any(|key| key.ends_with(".rate"));
    rates.any(|rate| Some(rate) != first) && (several || !is_varied)
}

/// Returns whether any point has a regulator.
pub(crate) fn is_regulated(result: &ScenarioResult) -> bool {
    regulated(result).next().is_some()
}

/// Returns the points with a regulator.
pub(crate) fn regulated(result: &ScenarioResult) -> impl Iterator<Item = (&ScenarioPoint, &RegulationPoint)> {
    result.points.iter().filter_map(|point| Some((point, point.regulation.as_ref()?)))
}

/// Returns a table with one row for each point, and for each regulated program if there are several.
pub(super) fn table(result: &ScenarioResult) -> Table {
    let any = |is: fn(&RegulationPoint) -> bool| regulated(result).any(|(_, regulation)| is(regulation));
    let items = result.points.iter().flat_map(|point| {
        let regulation = point.regulation.as_ref();
        let owners = regulation.map_or(&[][..], |regulation| &regulation.owners);
        // Without a program with a rate there is still a row: of the throughput, or of the point.
        let owners = owners.iter().map(Some).chain(owners.is_empty().then_some(None));
        owners.enumerate().map(move |(index, owner)| Item { point, regulation, is_first: index == 0, owner })
    });
    let rows = Rows::new("points", "All points", items);
    Keys::of(result)
        .onto(rows, |item| (item.point, item.is_first))
        .when(any(|point| point.owners.len() > 1), |rows| {
            rows.text("program", |item| item.owner(|owner| owner.name.as_str().into()))
        })
        .when(has_rates(result), |rows| rows.figure("P", |item| item.owner(|owner| rate(owner).into())))
        .figure("accuracy", |item| item.owner(|owner| exact(owner.accuracy_ratio)))
        .figure("CoV", |item| item.owner(|owner| exact(owner.cov_ratio)))
        .figure("p99", |item| item.owner(|owner| Value::Number(owner.p99_ratio, 2)))
        .figure("late", |item| item.owner(|owner| Value::Share(owner.late_ratio)))
        .spare(4)
        .figure("ideal", |item| item.owner(|owner| Value::Time(owner.ideal_ns)))
        .spare(1)
        .when(has_pauses(result), |rows| {
            rows.figure("paused", |item| item.owner(|owner| Value::known(owner.after_pause_ratio, exact)))
                .spare(2)
        })
        .figure("IOPS", |item| item.first(|point| Value::Number(point.ios_per_s, 1)))
        .figure("longest", |item| item.first(|point| Value::Time(point.longest_other_ns)))
        .spare(3)
        .figure("reached", |item| item.first(allowance))
        .when(any(|point| !point.published.is_empty()), |rows| {
            rows.figure("published", |item| item.first(|point| point.published.join(", ").into()))
        })
        .legend(legend(result))
        .table()
}

/// A program with a rate at a point.
struct Item<'a> {
    point: &'a ScenarioPoint,
    /// None of a point at which no program has a rate.
    regulation: Option<&'a RegulationPoint>,
    is_first: bool,
    owner: Option<&'a RegulatedProgram>,
}

impl Item<'_> {
    fn owner(&self, of: fn(&RegulatedProgram) -> Value) -> Value {
        Value::known(self.owner, of)
    }

    /// Returns a figure of the point, only in its first row.
    fn first(&self, of: fn(&RegulationPoint) -> Value) -> Value {
        if self.is_first { Value::known(self.regulation, of) } else { "".into() }
    }
}

/// Returns `3 at 975`: the allowance, and the number of I/Os after which it was reached.
fn allowance(point: &RegulationPoint) -> Value {
    match (point.decided_by.as_str(), point.settled_ios) {
        ("deadlines", _) => Value::Nothing,
        (_, 0) => Value::from(point.allowance.to_string()),
        (_, ios) => Value::from(format!("{} at {}", point.allowance, count(ios))),
    }
}

fn exact(ratio: f64) -> Value {
    Value::Number(ratio, 3)
}

fn describe_ratio(ratio: f64) -> String {
    decimal(ratio, 3)
}

/// A group of points that differ only in the allowance.
pub(crate) struct Search<'a> {
    values: Vec<&'a str>,
    formula: u32,
    /// The largest tried allowance, up to the formula's, with good accuracy; 1 if none is good.
    best: u32,
    published: Option<u32>,
    /// Points that determine an allowance by themselves: the value of the key, and the allowances that were reached.
    corrected: Vec<(&'a str, &'a [u32])>,
}

/// Returns the results of the search for the best allowance (section 6.2); empty if no allowances were tried.
pub(crate) fn searches(result: &ScenarioResult) -> Vec<Search<'_>> {
    let Some(key) = result.varied.iter().position(|key| key == ALLOWANCE) else { return Vec::new() };
    let others = |point: &'_ ScenarioPoint| -> Vec<usize> {
        (0..point.values.len()).filter(|&index| index != key).collect()
    };
    let mut searches: Vec<Search<'_>> = Vec::new();
    for (point, regulation) in regulated(result) {
        let Some(allowance) = point.values.get(key) else { continue };
        let values: Vec<&str> = others(point).into_iter().map(|index| point.values[index].as_str()).collect();
        let index = searches.iter().position(|search| search.values == values).unwrap_or_else(|| {
            searches.push(Search {
                values,
                formula: regulation.formula_allowance,
                best: 0,
                published: regulation.published_best_allowance,
                corrected: Vec::new(),
            });
            searches.len() - 1
        });
        let search = &mut searches[index];
        match allowance.parse::<u32>() {
            Ok(fixed) if fixed <= search.formula && regulation.worst_accuracy() <= GOOD_ACCURACY_MAX => {
                search.best = search.best.max(fixed);
            }
            Ok(fixed) => search.best = search.best.max(u32::from(fixed == 1)),
            // The formula's allowance has a column of its own.
            Err(_) if allowance == "formula" => {}
            Err(_) => search.corrected.push((allowance, &regulation.allowances)),
        }
    }
    searches.retain(|search| search.best > 0);
    searches
}

/// Returns the table of the best allowances.
pub(super) fn best_table(result: &ScenarioResult) -> Option<Table> {
    let searches = searches(result);
    let first = searches.first()?;
    let number = |allowance: u32| Value::Count(allowance.into());
    let mut rows = Rows::new("allowances", "Best allowances", &searches);
    let keys: Vec<&String> = result.varied.iter().filter(|key| *key != ALLOWANCE).collect();
    for index in 0..first.values.len().max(keys.len()) {
        let name = keys.get(index).map_or("", |key| last_word(key));
        rows = rows.text(name, |search| search.values.get(index).copied().unwrap_or_default());
    }
    rows = rows
        .figure("formula", |search| number(search.formula))
        .figure("best", |search| number(search.best))
        .figure("published", |search| Value::known(search.published, number));
    for (index, (name, _)) in first.corrected.iter().enumerate() {
        rows = rows.figure(*name, |search| Value::known(median(search.reached(index)), number)).figure(
            "is best",
            |search| {
                format!("{} of {}", equal(search.reached(index), search.best), search.reached(index).len())
            },
        );
    }
    Some(rows.table())
}

impl Search<'_> {
    /// Returns the allowances that the runs of a method of correction have reached.
    fn reached(&self, way: usize) -> &[u32] {
        self.corrected.get(way).map_or(&[], |(_, reached)| reached)
    }
}

fn median(reached: &[u32]) -> Option<u32> {
    let mut sorted = reached.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied()
}

fn equal(reached: &[u32], best: u32) -> usize {
    reached.iter().filter(|&&allowance| allowance == best).count()
}

/// Returns the findings of an experiment with regulated programs.
pub(super) fn verdict(result: &ScenarioResult) -> Vec<String> {
    let all: Vec<(&ScenarioPoint, &RegulationPoint)> = regulated(result).collect();
    if let [(_, only)] = all.as_slice() {
        return only.owners.iter().map(|owner| about(owner, only)).collect();
    }
    // If all allowances are tried, most of them are too large.
    let mut sentences = if searches(result).is_empty() { ranges(result, &all) } else { Vec::new() };
    sentences.extend(searched(result));
    sentences
}

fn rate(owner: &RegulatedProgram) -> String {
    let percent = owner.rate_percent.map(|percent| format!("{percent} %"));
    let every = || owner.rate_every_ns.map(|every| format!("every {}", duration(every)));
    percent.or_else(every).unwrap_or_else(|| NONE.to_owned())
}

fn about(owner: &RegulatedProgram, point: &RegulationPoint) -> String {
    let of_device = if owner.rate_percent.is_some() { " of the device" } else { "" };
    let asked = format!("{}{of_device}", rate(owner));
    format!(
        "{} asks for {}: its I/Os take {} on average, {} times the ideal time, with a CoV of {}, and 99 \
         % of them at most {} times the ideal; all programs together do {} I/Os per second.",
        owner.name,
        asked,
        duration(owner.mean_ns),
        describe_ratio(owner.accuracy_ratio),
        describe_ratio(owner.cov_ratio),
        decimal(owner.p99_ratio, 2),
        decimal(point.ios_per_s, 1),
    )
}

/// Describes the ranges of figures, for each value of the policy.
fn ranges(result: &ScenarioResult, all: &[(&ScenarioPoint, &RegulationPoint)]) -> Vec<String> {
    let key = result.varied.iter().position(|key| key.ends_with(".policy"));
    let policy = |point: &ScenarioPoint| key.and_then(|key| point.values.get(key)).cloned();
    let mut policies: Vec<Option<String>> = Vec::new();
    for (point, _) in all {
        if !policies.contains(&policy(point)) {
            policies.push(policy(point));
        }
    }
    let sentence = |name: &Option<String>| {
        let of: Vec<&RegulationPoint> = all
            .iter()
            .filter(|(point, _)| policy(point) == *name)
            .map(|(_, regulation)| *regulation)
            .collect();
        let owners = || of.iter().flat_map(|point| &point.owners);
        let low = owners().map(|owner| owner.accuracy_ratio).fold(f64::INFINITY, f64::min);
        let high = owners().map(|owner| owner.accuracy_ratio).fold(0.0, f64::max);
        let cov = owners().map(|owner| owner.cov_ratio).fold(0.0, f64::max);
        let with = name.as_ref().map_or("The".to_owned(), |name| format!("With policy {name} the"));
        owners().next().map(|_| {
            format!(
                "{with} accuracy lies between {} and {}, and the CoV is {} at most.",
                describe_ratio(low),
                describe_ratio(high),
                describe_ratio(cov)
            )
        })
    };
    policies.iter().filter_map(sentence).collect()
}

/// Describes how many searches found the best allowance.
fn searched(result: &ScenarioResult) -> Vec<String> {
    let searches = searches(result);
    let mut sentences = Vec::new();
    let published: Vec<bool> =
        searches.iter().filter_map(|search| Some(search.published? == search.best)).collect();
    if !published.is_empty() {
        let same = published.iter().filter(|is_same| **is_same).count();
        sentences.push(format!(
            "The best allowance by exhaustive search is the published one in {same} of {} cases.",
            published.len()
        ));
    }
    let names: Vec<&str> = searches
        .first()
        .map_or_else(Vec::new, |search| search.corrected.iter().map(|(name, _)| *name).collect());
    for name in names {
        let of = searches.iter().flat_map(|search| {
            let corrected = search.corrected.iter().filter(|(other, _)| *other == name);
            corrected.map(|(_, reached)| (equal(reached, search.best), reached.len()))
        });
        let (same, all) = of.fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
        sentences.push(format!("With {name} the best is reached in {same} of {all} runs."));
    }
    sentences
}
