//! Tasks and blocked reads (Kohagura & Kono 2014): reading files while computing on what has arrived.
//!
//! | what | where |
//! |---|---|
//! | counting lines, words and characters of a text from its parts | [`count`] |

pub mod count;
