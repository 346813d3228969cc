//! The core, held to the thesis and to its contract.
