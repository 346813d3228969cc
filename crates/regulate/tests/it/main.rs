//! Tests of the regulator's public interface.

mod chaos;
mod profile;
mod promises;
