//! Tasks and blocked reads (Kohagura & Kono 2014): reading files while computing on what has arrived.
//!
//! | what | where |
//! |---|---|
//! | tasks, what they depend on, and the threads that run them | [`manager`] |
//! | a file read by blocks, mapped, and reduced or written in order | [`read`] |
//! | counting lines, words and characters of a text from its parts | [`count`] |
//! | lines that a pattern matches | [`search`] |

pub mod count;
pub mod manager;
pub mod read;
pub mod search;

mod queues;
mod sync;
