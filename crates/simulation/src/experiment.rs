//! An experiment in virtual time: all combinations of its varied keys, each compared with the same without prefetching.

mod job;
mod point;
mod regulation;

use std::collections::BTreeMap;
use std::ops::Range;

use sakiyomi_drive::spec::DriveSpec;
use sakiyomi_model::Nanos;
use sakiyomi_report::ScenarioResult;
use sakiyomi_report::result::ScenarioPoint;
use sakiyomi_scenario::spec::Distance;
use sakiyomi_scenario::{Outcome, Regulation, Scenario, run};

use crate::{Error, Varied, vary};
use point::point;

/// An experiment with its combinations and drives. A point depends on no other one.
#[derive(Clone, Debug)]
pub struct Experiment {
    base: Scenario,
    varied: Varied,
    combinations: Vec<Combination>,
    drives: Drives,
}

/// One combination of values.
#[derive(Clone, Debug)]
struct Combination {
    values: Vec<String>,
    scenario: Scenario,
}

/// The settings of one run, as TOML. Equal points without prefetching are run once.
type Key = String;

/// The hard disks of all combinations, by the names under which they are looked up.
type Drives = BTreeMap<String, DriveSpec>;

/// A run that points need: a combination, or the same without prefetching, with one of its seeds.
#[derive(Clone, Debug)]
pub struct ExperimentRun {
    key: Key,
    scenario: Scenario,
    drive: Option<DriveSpec>,
    repetition: u32,
}

impl ExperimentRun {
    /// Runs it. The same run has the same outcome.
    ///
    /// # Errors
    /// If it is impossible, or does not end.
    pub fn run(&self) -> Result<Outcome, Error> {
        Ok(run(&self.scenario, self.drive.as_ref(), self.repetition)?)
    }
}

impl Experiment {
    /// Returns an experiment with the keys of its file that are varied, with the values of `vary` for those that it has,
    /// and then those of `vary` alone. `open` returns a drive by its name.
    ///
    /// # Errors
    /// If a combination or a drive of one is impossible, and the errors of `open`.
    pub fn new(
        base: Scenario,
        vary: Varied,
        open: &mut dyn FnMut(&str) -> Result<DriveSpec, Error>,
    ) -> Result<Experiment, Error> {
        let mut varied: Varied = base.vary.clone().into_iter().collect();
        for (key, values) in vary {
            match varied.iter_mut().find(|(of_file, _)| *of_file == key) {
                Some((_, of_file)) => *of_file = values,
                None => varied.push((key, values)),
            }
        }
        varied.sort_by_key(|(key, _)| depth(key));
        let combinations = combinations(&base, &varied)?;
        let drives = drives(&combinations, open)?;
        Ok(Experiment { base, varied, combinations, drives })
    }

    /// The experiment itself, without varied keys.
    #[must_use]
    pub fn base(&self) -> Scenario {
        Scenario { vary: BTreeMap::new(), ..self.base.clone() }
    }

    /// The varied keys with their values, in the order of the table: the last one varies fastest.
    #[must_use]
    pub fn varied(&self) -> &Varied {
        &self.varied
    }

    /// The hard disks of all points, by their names in the experiment.
    #[must_use]
    pub fn drives(&self) -> &BTreeMap<String, DriveSpec> {
        &self.drives
    }

    /// The number of points.
    #[must_use]
    pub fn points_count(&self) -> usize {
        self.combinations.len()
    }

    /// Returns the result without points.
    #[must_use]
    pub fn outline(&self) -> ScenarioResult {
        ScenarioResult {
            name: self.base.name.clone(),
            drive: drive_names(&self.combinations, &self.drives),
            repetitions: self.base.run.repetitions,
            varied: self.varied.iter().map(|(key, _)| key.clone()).collect(),
            points: Vec::new(),
        }
    }

    /// Returns the runs that some points need: every combination and what it is compared with, with every seed.
    #[must_use]
    pub fn runs(&self, points: Range<usize>) -> Vec<ExperimentRun> {
        let all = self.combinations[points].iter().flat_map(|combination| {
            let plain = plain(&combination.scenario);
            [combination.scenario.clone(), plain].map(|scenario| (scenario.to_toml(), scenario))
        });
        let scenarios: BTreeMap<Key, Scenario> = all.collect();
        let of_scenario = |(key, scenario): (Key, Scenario)| {
            (0..scenario.run.repetitions).map(move |repetition| (key.clone(), scenario.clone(), repetition))
        };
        let runs = scenarios.into_iter().flat_map(of_scenario).map(|(key, scenario, repetition)| {
            let drive = drive(&scenario, &self.drives).cloned();
            ExperimentRun { key, scenario, drive, repetition }
        });
        runs.collect()
    }

    /// Returns some points by the outcomes of the runs that they need, and the simulated time of all.
    ///
    /// # Panics
    /// If the outcomes are not those of the points' own runs, one for each.
    #[must_use]
    pub fn points(
        &self,
        points: Range<usize>,
        runs: &[ExperimentRun],
        outcomes: Vec<Outcome>,
    ) -> (Vec<ScenarioPoint>, Nanos) {
        assert_eq!(runs.len(), outcomes.len(), "a run has one outcome");
        let simulated = outcomes.iter().map(|outcome| outcome.elapsed).sum();
        let mut by_key: BTreeMap<&str, Vec<Outcome>> = BTreeMap::new();
        for (run, outcome) in runs.iter().zip(outcomes) {
            by_key.entry(&run.key).or_default().push(outcome);
        }
        let of = |scenario: &Scenario| by_key[scenario.to_toml().as_str()].as_slice();
        let points = self.combinations[points].iter().map(|Combination { values, scenario }| {
            let runs = of(scenario);
            let regulations: Vec<&Regulation> =
                runs.iter().filter_map(|outcome| outcome.regulation.as_ref()).collect();
            let (run, plain) = (shortest(runs), shortest(of(&plain(scenario))));
            ScenarioPoint {
                regulation: regulation::point(scenario, &self.varied, values, &regulations),
                ..point(values, &self.varied, scenario, run, plain)
            }
        });
        (points.collect(), simulated)
    }
}

/// Returns how deep a key lies in the table: what varies fastest is side by side there.
fn depth(key: &str) -> u32 {
    match key {
        "prefetch.limit" => 2,
        key if key.starts_with("regulate.") => 1,
        _ => 0,
    }
}

fn combinations(base: &Scenario, varied: &[(String, Vec<String>)]) -> Result<Vec<Combination>, Error> {
    if let Some((key, _)) = varied.iter().find(|(_, values)| values.is_empty()) {
        return Err(Error::Option(format!("[vary] {key}: there are no values; name one or more")));
    }
    // A single run has neither published figures nor varied keys.
    let alone = Scenario { vary: BTreeMap::new(), ..base.clone() };
    let all = vary::combinations(&alone, varied, |scenario, key, value| Ok(scenario.set(key, value)?))?;
    all.iter().try_for_each(|(_, scenario)| scenario.check())?;
    Ok(all.into_iter().map(|(values, scenario)| Combination { values, scenario }).collect())
}

/// Returns the scenario without prefetching, with the default settings of the prefetcher.
fn plain(scenario: &Scenario) -> Scenario {
    let mut plain = scenario.clone();
    plain.prefetch =
        sakiyomi_scenario::spec::PrefetchSpec { limit: Distance::Off, ..scenario.prefetch.clone() };
    plain
}

/// Returns the repetition that took the shortest time, as in table 3 of the paper.
fn shortest(runs: &[Outcome]) -> &Outcome {
    runs.iter().min_by_key(|outcome| outcome.elapsed).expect("there is at least one repetition")
}

fn drives(
    combinations: &[Combination],
    open: &mut dyn FnMut(&str) -> Result<DriveSpec, Error>,
) -> Result<Drives, Error> {
    let mut drives = Drives::new();
    for name in combinations.iter().filter_map(|combination| combination.scenario.drive.model.as_ref()) {
        if !drives.contains_key(name) {
            drives.insert(name.clone(), open(name)?);
        }
    }
    // All figures that are changed, before any is run.
    for Combination { scenario, .. } in combinations {
        if let Some(drive) = drive(scenario, &drives) {
            let settings = scenario.drive.set.iter().map(|(key, value)| (key.as_str(), value.as_str()));
            drive.with_settings(settings).map_err(Error::DriveOfExperiment)?;
        }
    }
    Ok(drives)
}

fn drive<'a>(scenario: &Scenario, drives: &'a Drives) -> Option<&'a DriveSpec> {
    scenario.drive.model.as_ref().map(|name| &drives[name])
}

/// Returns the names of the drives of all combinations.
fn drive_names(combinations: &[Combination], drives: &Drives) -> String {
    let mut names: Vec<String> = Vec::new();
    for Combination { scenario, .. } in combinations {
        let fixed = || scenario.drive.fixed.as_ref().map(|fixed| format!("a fixed device, {fixed}"));
        let name = drive(scenario, drives).map(|drive| drive.name.clone()).or_else(fixed).unwrap_or_default();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join("; ")
}
