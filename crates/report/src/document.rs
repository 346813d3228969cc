//! A result with data about the run that made it.

use serde::{Deserialize, Serialize};

use crate::number::{bytes, duration, plural, round_count, times};

/// A result with the circumstances of the run that produced it: the JSON of every command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Document<R, C = Run> {
    /// Name and version of the result's schema: [`Present::SCHEMA`](crate::Present::SCHEMA).
    pub schema: String,
    /// The command, the time and the machine of the run.
    pub run: C,
    /// The result itself.
    pub result: R,
}

/// Circumstances of a run, which differ from run to run. A reproducible one has only the build of sakiyomi.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The command line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// The version of sakiyomi.
    pub version: String,
    /// The commit that sakiyomi was built from, abbreviated; `None` for a build outside a git checkout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// How long it took; `None` if the result is to be reproducible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_ns: Option<u64>,
    /// The machine.
    #[serde(default, skip_serializing_if = "Machine::is_unknown")]
    pub machine: Machine,
    /// Simulated commands per second of wall-clock time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commands_per_s: Option<f64>,
    /// Simulated time over wall-clock time: 130 means 130 times as fast as the drive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated_per_wall_ratio: Option<f64>,
}

impl Run {
    /// Describes duration, machine and build: `took 7.70 s, 130 × real time`, `Example CPU, 4 cores, 16.0 GiB` …
    pub(crate) fn origin(&self) -> Vec<String> {
        let ratio = self.simulated_per_wall_ratio.map(|ratio| format!("{} × real time", times(ratio)));
        let rate = self.commands_per_s.map(|rate| format!("{} commands/s", round_count(rate.round())));
        let took = [self.wall_ns.map(|wall| format!("took {}", duration(wall))), ratio, rate];
        let Machine { kernel, cpu, cores, memory_bytes } = &self.machine;
        let hardware = format!("{cpu}, {}, {}", plural(*cores, "core"), bytes(*memory_bytes));
        let parts = [
            took.into_iter().flatten().collect::<Vec<String>>().join(", "),
            if cpu.is_empty() { String::new() } else { hardware },
            kernel.clone(),
            if self.version.is_empty() { String::new() } else { format!("sakiyomi {}", self.build()) },
        ];
        parts.into_iter().filter(|part| !part.is_empty()).collect()
    }

    /// Returns the build of sakiyomi, as reports name it: `0.2.0 (1a2b3c4d5e)`, or the version alone.
    #[must_use]
    pub fn build(&self) -> String {
        match &self.commit {
            Some(commit) => format!("{} ({commit})", self.version),
            None => self.version.clone(),
        }
    }
}

/// The machine of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Name and release of the kernel.
    pub kernel: String,
    /// The processor's model.
    pub cpu: String,
    /// Number of usable processors.
    pub cores: u64,
    /// Main memory in bytes.
    pub memory_bytes: u64,
}

impl Machine {
    /// Returns whether nothing is known of it.
    fn is_unknown(&self) -> bool {
        *self == Machine::default()
    }
}
