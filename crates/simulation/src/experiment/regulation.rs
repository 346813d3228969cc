//! Regulated programs of an experiment as results.

use sakiyomi_report::result::{AllowancePoint, RegulatedProgram, RegulationPoint};
use sakiyomi_scenario::{AllowanceSource, Rate, RateAccuracy, Regulation, Scenario};

/// The medians of `runs`; none where nothing is regulated. `values` are those of the keys that were varied.
pub(super) fn point(
    scenario: &Scenario,
    varied: &[(String, Vec<String>)],
    values: &[String],
    runs: &[&Regulation],
) -> Option<RegulationPoint> {
    let of = Regulation::medians(runs)?;
    let has = |key: &str, value: &str| {
        varied.iter().zip(values).any(|((varied, _), chosen)| varied == key && chosen == value)
    };
    let published: Vec<_> = scenario
        .published
        .iter()
        .filter(|published| published.at.iter().all(|(key, value)| has(key, value)))
        .collect();
    let course = of.allowance.course.iter().map(|&(ios, allowance)| AllowancePoint { ios, allowance });
    Some(RegulationPoint {
        measured_ns: of.measured.0,
        ios_per_s: of.iops,
        longest_other_ns: of.longest_other.0,
        owners: of.owners.iter().map(program).collect(),
        decided_by: describe(of.decided_by).to_owned(),
        formula_allowance: of.formula,
        allowance: of.allowance.reached,
        allowances: of.reached.clone(),
        settled_ios: of.allowance.settled,
        regulated_ios: of.regulated_ios,
        allowance_course: course.collect(),
        published_best_allowance: published.iter().find_map(|published| published.best_allowance),
        published: published.iter().filter_map(|published| published.note.clone()).collect(),
    })
}

fn program(kept: &RateAccuracy) -> RegulatedProgram {
    let (rate_percent, rate_every_ns) = match kept.rate {
        Rate::Percent(percent) => (Some(percent.get()), None),
        Rate::Every(time) => (None, Some(time.0)),
    };
    RegulatedProgram {
        name: kept.name.clone(),
        rate_percent,
        rate_every_ns,
        ios: kept.ios,
        accuracy_ratio: kept.accuracy,
        cov_ratio: kept.cov,
        p99_ratio: kept.p99,
        late_ratio: kept.late,
        mean_ns: kept.took.0,
        ideal_ns: kept.ideal.0,
        after_pause_ratio: kept.after_pause,
        quantile_ratios: kept.quantiles.clone(),
    }
}

fn describe(decided_by: AllowanceSource) -> &'static str {
    match decided_by {
        AllowanceSource::Fixed => "fixed",
        AllowanceSource::Formula => "formula",
        AllowanceSource::Corrected => "corrected",
        AllowanceSource::BothWays => "both-ways",
        AllowanceSource::Deadlines => "deadlines",
        AllowanceSource::Profile => "profile",
    }
}
