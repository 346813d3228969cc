//! All runs on one target, interleaved.

use std::time::Duration;

use crate::Error;
use crate::case::{Case, Series, cases};
use crate::latency::Latencies;
use crate::measure;
use crate::plan::Plan;
use crate::setting::Setting;
use crate::target::Target;

/// Duration and number of runs.
#[derive(Clone, Copy, Debug)]
pub struct Campaign {
    /// Duration of a run.
    pub period: Duration,
    /// Runs per setting.
    pub rounds: u64,
    /// Seed of the order of runs, and of random offsets.
    pub seed: u64,
}

/// The outcome of a campaign.
#[derive(Debug)]
pub struct Outcome {
    /// The requested cases that could be run.
    pub cases: Vec<Case>,
    /// Settings that could not be run, with the error.
    pub refused: Vec<(Setting, Error)>,
}

impl Campaign {
    /// Returns the number of runs of a plan.
    #[must_use]
    pub fn runs(&self, plan: &Plan) -> u64 {
        self.rounds * plan.settings.len() as u64
    }

    /// Measures all settings of a plan. Calls `watch` with the setting before each run, and with `None` during it; an
    /// error of `watch` ends the campaign.
    ///
    /// # Errors
    /// Returns the errors of `watch`. A setting that cannot be run is not an error, but omitted.
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
        // A setting that failed once lacks a run, and cannot be compared run by run.
        series.retain(|series| refused.iter().all(|(other, _)| *other != series.setting));
        refused.retain(|(setting, _)| plan.settings[..plan.asked].contains(setting));
        Ok(Outcome { cases: cases(plan, &series), refused })
    }
}
