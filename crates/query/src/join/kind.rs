//! Kinds of joins, and the rows in their results.

use std::fmt;
use std::str::FromStr;

use crate::Error;

/// Kind of a join: the rows in its result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum JoinKind {
    /// Each pair of a left and a right row with equal keys.
    #[default]
    Inner,
    /// Inner join, and each left row without a match, with nulls in the right columns.
    Left,
    /// Inner join, and each right row without a match, with nulls in the left columns.
    Right,
    /// Inner join, and each row of either side without a match.
    Full,
    /// Each left row that has a match, once; left columns only.
    Semi,
    /// Each left row that has no match; left columns only.
    Anti,
}

/// All kinds, in the order of the help text.
pub const JOIN_KINDS: [JoinKind; 6] =
    [JoinKind::Inner, JoinKind::Left, JoinKind::Right, JoinKind::Full, JoinKind::Semi, JoinKind::Anti];

impl JoinKind {
    /// Returns the lowercase name, such as `inner`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            JoinKind::Inner => "inner",
            JoinKind::Left => "left",
            JoinKind::Right => "right",
            JoinKind::Full => "full",
            JoinKind::Semi => "semi",
            JoinKind::Anti => "anti",
        }
    }

    /// Returns whether the result has pairs of rows; semi and anti joins return left rows only.
    #[must_use]
    pub fn gives_pairs(self) -> bool {
        !matches!(self, JoinKind::Semi | JoinKind::Anti)
    }

    /// Returns whether the result has left rows without a match.
    #[must_use]
    pub fn keeps_left(self) -> bool {
        matches!(self, JoinKind::Left | JoinKind::Full | JoinKind::Anti)
    }

    /// Returns whether the result has right rows without a match.
    #[must_use]
    pub fn keeps_right(self) -> bool {
        matches!(self, JoinKind::Right | JoinKind::Full)
    }
}

impl fmt::Display for JoinKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for JoinKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<JoinKind, Error> {
        JOIN_KINDS.into_iter().find(|kind| kind.name() == text).ok_or_else(|| {
            let names = JOIN_KINDS.map(JoinKind::name).join(", ");
            Error::Query(format!("`{text}` is not a kind of join; the kinds are {names}"))
        })
    }
}
