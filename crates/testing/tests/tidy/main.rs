//! The house rules that the compiler does not check: which crate may use which, what a pure module may name, no cycles
//! between files, constants that say what they are; and what documents refer to. ARCHITECTURE.md holds the rules; its
//! tables are read here.

mod comments;
mod constants;
mod cycles;
mod dependencies;
mod documents;
mod glossary;
mod imports;
mod interfaces;
mod invariants;
mod links;
mod paths;
mod published;
mod reference;
mod source;
mod table;

use std::path::PathBuf;

/// Returns the root directory of the checkout.
fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Fails with all findings, one per line.
#[track_caller]
fn assert_none(rule: &str, findings: &[String]) {
    assert!(findings.is_empty(), "{rule}:\n  {}", findings.join("\n  "));
}
