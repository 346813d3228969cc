//! The points of an experiment with regulated programs in rows and columns, and in words.

use crate::number::{NONE, count, duration, percent};
use crate::points::{Keys, Points, last_word};
use crate::schema::{RegulatedProgram, RegulationPoint, ScenarioPoint, ScenarioResult};

/// The key that says how many requests may be in the device.
pub(crate) const ALLOWANCE: &str = "regulate.allowance";
/// Up to this an accuracy is good (section 6.2).
pub(crate) const GOOD: f64 = 1.1;

/// What the columns mean.
pub(crate) fn legend(result: &ScenarioResult) -> String {
    let paused = "Paused: the accuracy of those that came half a second or more after the one before. ";
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

/// Whether programs have different rates that are not those of a key that is varied.
fn has_rates(result: &ScenarioResult) -> bool {
    let mut rates = regulated(result).flat_map(|(_, point)| &point.owners).map(rate);
    let several = regulated(result).any(|(_, point)| point.owners.len() > 1);
    let first = rates.next();
    let is_varied = result.varied.iter().any(|key| key.ends_with(".rate"));
    rates.any(|rate| Some(rate) != first) && (several || !is_varied)
}

/// Whether there is anything to say about regulation.
pub(crate) fn is_regulated(result: &ScenarioResult) -> bool {
    regulated(result).next().is_some()
}

/// The points that have a regulator.
pub(crate) fn regulated(result: &ScenarioResult) -> impl Iterator<Item = (&ScenarioPoint, &RegulationPoint)> {
    result.points.iter().filter_map(|point| Some((point, point.regulation.as_ref()?)))
}

/// One row for each point, and for each regulated program where there are several.
pub(crate) fn table(result: &ScenarioResult) -> Points {
    let all = || regulated(result);
    let keys = Keys::of(result);
    let has_names = all().any(|(_, regulation)| regulation.owners.len() > 1);
    let (has_pauses, has_rates) = (has_pauses(result), has_rates(result));
    let has_published = all().any(|(_, point)| !point.published.is_empty());
    let mut header = keys.header();
    header.extend(has_names.then(|| "program".to_owned()));
    let text_columns = header.len();
    header.extend(has_rates.then(|| "P".to_owned()));
    header.extend(["accuracy", "CoV", "p99", "late", "ideal"].map(str::to_owned));
    header.extend(has_pauses.then(|| "paused".to_owned()));
    header.extend(["IOPS", "longest", "reached"].map(str::to_owned));
    header.extend(has_published.then(|| "published".to_owned()));
    let rows = all().flat_map(|(point, regulation)| {
        // Without a program that has a rate there still is a row for the throughput.
        let owners = regulation.owners.iter().map(Some).chain(regulation.owners.is_empty().then_some(None));
        owners.enumerate().map(move |(index, owner)| {
            let in_first = |text: String| if index == 0 { text } else { String::new() };
            let mut row = keys.cells(point, index == 0);
            row.extend(has_names.then(|| owner.map_or(NONE.to_owned(), |owner| owner.name.clone())));
            row.extend(has_rates.then(|| owner.map_or(NONE.to_owned(), rate)));
            row.extend(owner.map_or(vec![NONE.to_owned(); 5], figures));
            if has_pauses {
                let ratio = owner.and_then(|owner| owner.after_pause_ratio);
                row.push(ratio.map_or(NONE.to_owned(), ratio_in_words));
            }
            row.push(in_first(decimal(regulation.ios_per_s, 1)));
            row.push(in_first(duration(regulation.longest_other_ns)));
            row.push(in_first(allowance(regulation)));
            if has_published {
                row.push(in_first(regulation.published.join(", ")));
            }
            row
        })
    });
    Points { rows: rows.collect(), header, text_columns }
}

fn figures(owner: &RegulatedProgram) -> Vec<String> {
    vec![
        ratio_in_words(owner.accuracy_ratio),
        ratio_in_words(owner.cov_ratio),
        decimal(owner.p99_ratio, 2),
        percent(owner.late_ratio),
        duration(owner.ideal_ns),
    ]
}

/// `3 at 975`, where it was corrected after so many I/Os.
fn allowance(point: &RegulationPoint) -> String {
    match (point.decided_by.as_str(), point.settled_ios) {
        ("deadlines", _) => NONE.to_owned(),
        (_, 0) => point.allowance.to_string(),
        (_, ios) => format!("{} at {}", point.allowance, count(ios)),
    }
}

fn ratio_in_words(ratio: f64) -> String {
    decimal(ratio, 3)
}

/// What is no number, or far too large to be one of these, is nothing.
fn decimal(value: f64, places: usize) -> String {
    if value.abs() < 1e9 { format!("{value:.places$}") } else { NONE.to_owned() }
}

/// A group of points that differ in the allowance alone.
pub(crate) struct Search<'a> {
    values: Vec<&'a str>,
    formula: u32,
    /// The largest that was tried, up to the formula's, at which the accuracy is good; 1 if none is.
    best: u32,
    published: Option<u32>,
    /// Those that find an allowance by themselves: what the key says, and what was reached.
    corrected: Vec<(&'a str, &'a [u32])>,
}

/// What the search for the best allowance (section 6.2) found; empty where no allowances were tried.
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
            Ok(fixed) if fixed <= search.formula && regulation.worst_accuracy() <= GOOD => {
                search.best = search.best.max(fixed);
            }
            Ok(fixed) => search.best = search.best.max(u32::from(fixed == 1)),
            // The formula's has a column of its own.
            Err(_) if allowance == "formula" => {}
            Err(_) => search.corrected.push((allowance, &regulation.allowances)),
        }
    }
    searches.retain(|search| search.best > 0);
    searches
}

/// The best allowances as a table.
pub(crate) fn best_table(result: &ScenarioResult) -> Option<Points> {
    let searches = searches(result);
    let first = searches.first()?;
    let keys = result.varied.iter().filter(|key| *key != ALLOWANCE);
    let mut header: Vec<String> = keys.map(|key| last_word(key).to_owned()).collect();
    header.resize(first.values.len().max(header.len()), String::new());
    let text_columns = header.len();
    header.extend(["formula", "best", "published"].map(str::to_owned));
    for (name, _) in &first.corrected {
        header.extend([(*name).to_owned(), "is best".to_owned()]);
    }
    let rows = searches.iter().map(|search| {
        let mut row: Vec<String> = search.values.iter().map(|value| (*value).to_owned()).collect();
        row.resize(text_columns, String::new());
        let published = search.published.map_or(NONE.to_owned(), |best| best.to_string());
        row.extend([search.formula.to_string(), search.best.to_string(), published]);
        for (_, reached) in &search.corrected {
            let mut sorted = reached.to_vec();
            sorted.sort_unstable();
            row.push(sorted.get(sorted.len() / 2).map_or(NONE.to_owned(), u32::to_string));
            row.push(format!("{} of {}", equal(reached, search.best), reached.len()));
        }
        row.resize(header.len(), String::new());
        row
    });
    Some(Points { rows: rows.collect(), header: header.clone(), text_columns })
}

fn equal(reached: &[u32], best: u32) -> usize {
    reached.iter().filter(|&&allowance| allowance == best).count()
}

/// What an experiment with regulated programs says.
pub(crate) fn verdict(result: &ScenarioResult) -> Vec<String> {
    let all: Vec<(&ScenarioPoint, &RegulationPoint)> = regulated(result).collect();
    if let [(_, only)] = all.as_slice() {
        return only.owners.iter().map(|owner| about(owner, only)).collect();
    }
    // Where all allowances are tried, most of them are too much.
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
        "{} asks for {}: its I/Os take {} on average, {} times the ideal time, with a CoV of {}, and 99 % \
         of them no more than {} times the ideal; all programs together do {} I/Os a second.",
        owner.name,
        asked,
        duration(owner.mean_ns),
        ratio_in_words(owner.accuracy_ratio),
        ratio_in_words(owner.cov_ratio),
        decimal(owner.p99_ratio, 2),
        decimal(point.ios_per_s, 1),
    )
}

/// Between what figures lie, for each value of the policy.
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
                ratio_in_words(low),
                ratio_in_words(high),
                ratio_in_words(cov)
            )
        })
    };
    policies.iter().filter_map(sentence).collect()
}

/// How often the best allowance was found.
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
