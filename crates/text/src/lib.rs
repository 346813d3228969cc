//! Text in blocks: counting and searching with results that do not depend on block boundaries.
//!
//! | subject | module |
//! |---|---|
//! | counting lines, words and characters of a text from its parts | [`count`] |
//! | lines that match a pattern | [`search`] |
//!
//! Both are pure: bytes in, figures or ranges out.

pub mod count;
pub mod search;
