//! The papers, and how much of their experiments is run.

use serde::{Deserialize, Serialize};

/// A paper whose experiments are repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Paper {
    /// Fukayama et al., Waseda University 2006.
    Waseda2006,
    /// Ueda, Waseda University 2013.
    Waseda2013,
    /// Tani, Kochi University of Technology 2023.
    Kochi2023,
    /// Kohagura and Kono, University of the Ryukyus 2014.
    Cerium2014,
    /// Hosogi et al., Hitachi 2013.
    Hitachi2013,
}

impl Paper {
    /// All papers, in the order of reports.
    pub const ALL: [Paper; 5] =
        [Paper::Waseda2006, Paper::Waseda2013, Paper::Kochi2023, Paper::Cerium2014, Paper::Hitachi2013];

    /// Returns the name that users type.
    #[must_use]
    pub fn id(self) -> &'static str {
        match self {
            Paper::Waseda2006 => "waseda2006",
            Paper::Waseda2013 => "waseda2013",
            Paper::Kochi2023 => "kochi2023",
            Paper::Cerium2014 => "cerium2014",
            Paper::Hitachi2013 => "hitachi2013",
        }
    }

    /// Authors, place and year, and the subject.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Paper::Waseda2006 => {
                "Fukayama et al., Waseda 2006: a prefetching thread at a controlled distance"
            }
            Paper::Waseda2013 => "Ueda, Waseda 2013: the CPU time of file I/O",
            Paper::Kochi2023 => "Tani, Kochi University of Technology 2023: constant I/O time",
            Paper::Cerium2014 => "Kohagura and Kono, Ryukyus 2014: tasks and blocked reads",
            Paper::Hitachi2013 => "Hosogi et al., Hitachi 2013: a simulator of hard disk caches",
        }
    }

    /// The reason why a figure has no counterpart in virtual time, where no experiment gives one.
    #[must_use]
    pub fn why_not_virtual(self) -> &'static str {
        match self {
            Paper::Hitachi2013 => "it is the speed of the simulator itself",
            _ => "no experiment gives it",
        }
    }
}

/// How much is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effort {
    /// Few limits of prefetching and few seeds: minutes.
    Quick,
    /// All limits, and as many repetitions as in the papers.
    Full,
}
