//! Array parameters (`array.*`): several equal drives behind one address space.

use std::fmt;
use std::str::FromStr;

use sakiyomi_model::Bytes;
use serde::{Deserialize, Serialize};

/// Parameters of an array of equal drives, written `raid5:4:64KiB` on the command line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ArraySpec {
    /// Placement of data and redundancy.
    pub level: RaidLevel,
    /// Number of drives.
    pub members: u32,
    /// Consecutive bytes on one drive; not used by RAID 1.
    pub chunk: Bytes,
    /// Drives that have failed, by number from 0.
    pub failed: Vec<u32>,
    /// Rate at which each failed drive is rebuilt on a spare, in bytes per second; zero: the array stays degraded.
    pub rebuild: Bytes,
}

impl Default for ArraySpec {
    fn default() -> ArraySpec {
        ArraySpec {
            level: RaidLevel::Raid0,
            members: 4,
            chunk: Bytes(64 << 10),
            failed: Vec::new(),
            rebuild: Bytes::ZERO,
        }
    }
}

/// Placements of data and redundancy (Patterson, Gibson & Katz 1988).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RaidLevel {
    /// Striping without redundancy.
    #[default]
    Raid0,
    /// All drives hold the same data.
    Raid1,
    /// Striping with a rotating parity chunk per row.
    Raid5,
    /// Striping with two rotating parity chunks per row.
    Raid6,
    /// Striping over pairs of drives that hold the same data.
    Raid10,
}

impl RaidLevel {
    /// All levels with their names.
    const NAMES: [(RaidLevel, &'static str); 5] = [
        (RaidLevel::Raid0, "raid0"),
        (RaidLevel::Raid1, "raid1"),
        (RaidLevel::Raid5, "raid5"),
        (RaidLevel::Raid6, "raid6"),
        (RaidLevel::Raid10, "raid10"),
    ];

    /// Returns the name in files and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(level, _)| *level == self).map_or("", |(_, name)| name)
    }

    /// Returns the least number of drives.
    #[must_use]
    pub fn members_min(self) -> u32 {
        match self {
            RaidLevel::Raid0 | RaidLevel::Raid1 | RaidLevel::Raid10 => 2,
            RaidLevel::Raid5 => 3,
            RaidLevel::Raid6 => 4,
        }
    }

    /// Returns the number of parity chunks per row.
    #[must_use]
    pub fn parities(self) -> u32 {
        match self {
            RaidLevel::Raid5 => 1,
            RaidLevel::Raid6 => 2,
            RaidLevel::Raid0 | RaidLevel::Raid1 | RaidLevel::Raid10 => 0,
        }
    }
}

/// Exceeds the drives of any array.
const MEMBERS_MAX: u32 = 64;

impl ArraySpec {
    /// Returns the number of drives that hold each piece of data, parity aside.
    #[must_use]
    pub fn copies(&self) -> u32 {
        match self.level {
            RaidLevel::Raid1 => self.members,
            RaidLevel::Raid10 => 2,
            RaidLevel::Raid0 | RaidLevel::Raid5 | RaidLevel::Raid6 => 1,
        }
    }

    /// Returns the first faulty key, with the fault and the accepted values.
    pub(super) fn fault(&self, sector: Bytes) -> Option<(&'static str, String)> {
        let (level, members) = (self.level.name(), self.members);
        let least = self.level.members_min();
        let whole = sector.0 > 0 && self.chunk.0 > 0 && self.chunk.0.is_multiple_of(sector.0);
        let mut failed = self.failed.clone();
        failed.sort_unstable();
        failed.dedup();
        let of_pair = |member: &u32| failed.contains(&(member ^ 1));
        let lost = match self.level {
            RaidLevel::Raid0 => !failed.is_empty(),
            RaidLevel::Raid1 => failed.len() as u32 >= members,
            RaidLevel::Raid5 | RaidLevel::Raid6 => failed.len() as u32 > self.level.parities(),
            RaidLevel::Raid10 => failed.iter().any(of_pair),
        };
        let rules = [
            (
                "array.members",
                (least..=MEMBERS_MAX).contains(&members),
                format!("{members}; {level} has {least} to {MEMBERS_MAX} drives"),
            ),
            (
                "array.members",
                self.level != RaidLevel::Raid10 || members.is_multiple_of(2),
                format!("{members}; raid10 has pairs of drives"),
            ),
            (
                "array.chunk",
                whole && self.chunk.0 <= 1 << 30,
                format!("{}; expected whole sectors, up to 1GiB", self.chunk),
            ),
            (
                "array.failed",
                failed.len() == self.failed.len() && failed.last().is_none_or(|last| *last < members),
                format!(
                    "{:?}; expected different drives from 0 to {}",
                    self.failed,
                    members.saturating_sub(1)
                ),
            ),
            ("array.failed", !lost, format!("{:?}; {level} loses data without these drives", self.failed)),
            (
                "array.rebuild",
                self.rebuild.is_zero() || self.rebuild.0 >= 1000,
                format!("{} per second; expected 0, or at least 1kB", self.rebuild),
            ),
        ];
        rules.into_iter().find(|(_, holds, _)| !holds).map(|(key, _, problem)| (key, problem))
    }
}

/// A description of an array that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not an array: {problem}; write it like raid5:4:64KiB (level, number of drives, chunk)")]
pub struct ArrayError {
    text: String,
    problem: String,
}

impl FromStr for ArraySpec {
    type Err = ArrayError;

    fn from_str(text: &str) -> Result<ArraySpec, ArrayError> {
        let fault = |problem: String| ArrayError { text: text.to_owned(), problem };
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        let level = RaidLevel::NAMES.iter().find(|(_, known)| *known == name).map(|(level, _)| *level);
        let level =
            level.ok_or_else(|| fault("the levels are raid0, raid1, raid5, raid6 and raid10".to_owned()))?;
        let mut spec = ArraySpec { level, ..ArraySpec::default() };
        let members = parts.next().ok_or_else(|| fault("the number of drives is missing".to_owned()))?;
        spec.members =
            members.parse().map_err(|_| fault(format!("`{members}` is not a number of drives")))?;
        if let Some(chunk) = parts.next() {
            spec.chunk = chunk.parse().map_err(|error| fault(format!("{error}")))?;
        }
        match parts.next() {
            None => Ok(spec),
            Some(more) => Err(fault(format!("`{more}` is left over"))),
        }
    }
}

impl fmt::Display for ArraySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.level.name(), self.members, self.chunk)
    }
}
