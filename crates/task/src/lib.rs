//! Tasks and blocked reads (Kohagura & Kono 2014): reading files while computing on what has arrived.
//!
//! | what | where |
//! |---|---|
//! | tasks, what they depend on, and the threads that run them | [`manager`] |
//! | counting lines, words and characters of a text from its parts | [`count`] |

pub mod count;
pub mod manager;

mod queues;
