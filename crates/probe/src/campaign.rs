//! All runs on one target, interleaved.

use std::time::Duration;

use crate::Error;
use crate::case::{Case, Series, cases};
use crate::measure::{self, Latencies};
use crate::plan::Plan;
use crate::setting::Setting;
use crate::target::Target;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Campaign {
    /// How long a run lasts.
    pub period: Duration,
    /// Runs of each setting.
    pub rounds: u64,
    /// Decides the order of runs, and random places.
    pub seed: u64,
}

/// What came of it.
#[derive(Debug)]
pub struct Outcome {
    /// Those asked for that could be run.
    pub cases: Vec<Case>,
    /// Settings that could not be run, and why.
    pub refused: Vec<(Setting, Error)>,
}

impl Campaign {
    /// How many runs a plan takes.
    #[must_use]
    pub fn runs(&self, plan: &Plan) -> u64 {
        self.rounds * plan.settings.len() as u64
    }

    /// Measures all of a plan. `watch` is told before each run what it is, and asked during it with nothing; it can end it
    /// all with an error.
    ///
    /// # Errors
    /// What `watch` says. A setting that cannot be run is no error, but left out.
    pub fn run(
        &self,
        target: &Target,
        plan: &Plan,
        watch: &mut dyn FnMut(Option<&Setting>) -> Result<(), Error>,
    ) -> Result<Outcome, Error> {
        let none = |&setting: &Setting| Series { setting, runs: Vec::new(), latencies: Latencies::default() };
        let mut series: Vec<Series> = plan.settings.iter().map(none).collect();
        let mut refused: Vec<(Setting, Error)> = Vec::new();
        for round in 0..self.rounds {
            for index in plan.round(round, self.seed) {
                let setting = plan.settings[index];
                watch(Some(&setting))?;
                if refused.iter().any(|(other, _)| *other == setting) {
                    continue;
                }
                let Series { runs, latencies, .. } = &mut series[index];
                let (period, seed) = (self.period, self.seed.wrapping_add(round));
                match measure::run(&target.path, &setting, period, seed, latencies, &mut || watch(None)) {
                    Ok(run) => runs.push(run),
                    Err(Error::Interrupted) => return Err(Error::Interrupted),
                    Err(error) => refused.push((setting, error)),
                }
            }
        }
        // What failed once has not been run in every round, and cannot be compared run by run.
        series.retain(|series| refused.iter().all(|(other, _)| *other != series.setting));
        refused.retain(|(setting, _)| plan.settings[..plan.asked].contains(setting));
        Ok(Outcome { cases: cases(plan, &series), refused })
    }
}
