//! Errors of a simulation: what was given, what is wrong, the remedy.

use std::io;
use std::path::PathBuf;

use sakiyomi_drive::spec::SpecError;
use sakiyomi_scenario::RunError;
use sakiyomi_scenario::SpecError as ExperimentError;
use sakiyomi_trace::TraceError;

/// An error of a simulation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The drive is impossible, or there is none of this name.
    #[error(transparent)]
    Drive(#[from] SpecError),
    /// The trace cannot be read, or does not fit the drive.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The text of a file cannot be read.
    #[error("cannot read {what} {}: {problem}; {hint}", path.display())]
    Text {
        /// The purpose of the file: `the drive`.
        what: String,
        /// The file.
        path: PathBuf,
        /// The cause.
        problem: String,
        /// How to get such a file.
        hint: String,
    },
    /// The `.parv` file beside a `.diskspecs` file cannot be read.
    #[error("cannot read {beside}, which {file} needs")]
    Beside {
        /// The file that cannot be read.
        beside: String,
        /// The file that was given.
        file: String,
        /// The cause.
        source: io::Error,
    },
    /// A number of outstanding requests for requests that are issued at their times.
    #[error("--outstanding {0}: only a closed loop has a number of outstanding requests; add --closed-loop")]
    Outstanding(u32),
    /// An option that is given as text is not valid ([`Request`](crate::Request)).
    #[error("{name}: {problem}")]
    NamedOption {
        /// Its name.
        name: &'static str,
        /// The mistake, and a remedy.
        problem: String,
    },
    /// The length of a chunk is not one.
    #[error("{0}")]
    Chunk(String),
    /// An option is wrong, or does not go with another one.
    #[error("{0}")]
    Option(String),
    /// A file or a table is not what it is used as.
    #[error("{0}")]
    Input(String),
    /// The values of a varied key are wrong.
    #[error("--vary {key}: {problem}")]
    Vary {
        /// The key, or the whole text if there is none.
        key: String,
        /// The rest of the sentence.
        problem: String,
    },
    /// There are too many combinations of varied keys.
    #[error("more than {0} combinations; vary fewer keys, or fewer values of each")]
    Combinations(usize),
    /// The experiment is not one.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
    /// The experiment cannot be run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A setting of the experiment's drive is wrong.
    #[error("drive.set")]
    DriveOfExperiment(#[source] SpecError),
    /// The trace has no command that counts.
    #[error("{trace}: no command completed{}, so there is nothing to report", if *.is_warm { " after the warm-up" } else { "" })]
    Empty {
        /// Name of the trace.
        trace: String,
        /// Whether there was a warm-up.
        is_warm: bool,
    },
    /// An array has no logs.
    #[error("--log is for a single drive: leave it out, or the array")]
    LogOfArray,
    /// The logs cannot be written.
    #[error("cannot write the logs")]
    Log(#[source] io::Error),
    /// The caller has stopped the simulation.
    #[error("interrupted; no file was written")]
    Stopped,
}
