//! Kinds of joins, and the rows that each keeps.

use std::fmt;
use std::str::FromStr;

use crate::Error;

/// Which rows a join gives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum JoinKind {
    /// Each pair of a left and a right row with equal keys.
    #[default]
    Inner,
    /// As inner, and each left row without a partner, with nulls in the columns of the right.
    Left,
    /// As inner, and each right row without a partner, with nulls in the columns of the left.
    Right,
    /// As inner, and each row of either side without a partner.
    Full,
    /// Each left row that has a partner, once; only the columns of the left.
    Semi,
    /// Each left row that has no partner; only the columns of the left.
    Anti,
}

/// All kinds, as help lists them.
pub const JOIN_KINDS: [JoinKind; 6] =
    [JoinKind::Inner, JoinKind::Left, JoinKind::Right, JoinKind::Full, JoinKind::Semi, JoinKind::Anti];

impl JoinKind {
    /// Its name: `inner`.
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

    /// Whether it gives pairs of rows; semi and anti joins give left rows only.
    #[must_use]
    pub fn gives_pairs(self) -> bool {
        !matches!(self, JoinKind::Semi | JoinKind::Anti)
    }

    /// Whether left rows without a partner are in the result.
    #[must_use]
    pub fn keeps_left(self) -> bool {
        matches!(self, JoinKind::Left | JoinKind::Full | JoinKind::Anti)
    }

    /// Whether right rows without a partner are in the result.
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
