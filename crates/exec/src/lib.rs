//! Tasks and blocked reads (Kohagura & Kono 2014): reading files while computing on what has arrived.
//!
//! | what | where |
//! |---|---|
//! | tasks, what they depend on, and the threads that run them | [`executor`] |
//! | a file read by blocks, mapped, and reduced or written in order | [`read`] |

pub mod executor;
pub mod read;

mod queues;
mod sleep;
mod sync;
