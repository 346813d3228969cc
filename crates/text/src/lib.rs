//! Text in blocks: counting and searching that give the same result however a file was cut.
//!
//! | subject | module |
//! |---|---|
//! | counting lines, words and characters of a text from its parts | [`count`] |
//! | lines that a pattern matches | [`search`] |
//!
//! Both are pure: bytes in, figures or ranges out.

pub mod count;
pub mod search;
