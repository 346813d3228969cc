//! The Markdown documents of the checkout.

use std::fs;
use std::path::{Path, PathBuf};

use crate::root;

/// Directories of the checkout, as opposed to those that commands make in it.
const DIRECTORIES: [&str; 7] = [".github", "bench", "crates", "docs", "fuzz", "integrations", "traces"];

/// Returns all documents, in the order of their paths.
pub(crate) fn documents() -> Vec<PathBuf> {
    let at_root = fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<PathBuf> = at_root.filter(|path| has_extension(path, "md")).collect();
    found.extend(files_with_extension("md"));
    found.sort();
    assert!(found.len() > 40, "{} documents; are they not where they are looked for?", found.len());
    found
}

/// Returns the files with `extension` in the directories of the checkout, except in build output.
pub(crate) fn files_with_extension(extension: &str) -> Vec<PathBuf> {
    DIRECTORIES.iter().flat_map(|name| files_with_extension_under(&root().join(name), extension)).collect()
}

/// Returns the files with `extension` in a directory and below it, except in build output.
pub(crate) fn files_with_extension_under(directory: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_symlink() || path.ends_with("target") {
            continue;
        }
        if path.is_dir() {
            found.extend(files_with_extension_under(&path, extension));
        } else if has_extension(&path, extension) {
            found.push(path);
        }
    }
    found
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|own| own == extension)
}

/// Returns the lines of a document outside of fenced code blocks.
pub(crate) fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

#[test]
fn prose_is_what_is_outside_of_code_blocks() {
    let lines: Vec<&str> = prose("a\n```sh\nb\n```\nc").collect();
    assert_eq!(lines, ["a", "c"]);
}
