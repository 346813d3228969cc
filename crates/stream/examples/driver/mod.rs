//! Shared parts of the examples about placed streams: loads over time, the chain that bears them, figures by tenths of a
//! second, and what other programs took of the CPUs meanwhile.

pub(crate) mod chain;
pub(crate) mod figures;
pub(crate) mod load;
pub(crate) mod options;
pub(crate) mod quiet;
