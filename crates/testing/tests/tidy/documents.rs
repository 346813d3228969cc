//! The Markdown documents of the checkout.

use std::fs;
use std::path::{Path, PathBuf};

use crate::root;

/// Returns all documents, in the order of their paths.
pub(crate) fn documents() -> Vec<PathBuf> {
    let mut found = files_with_extension(&root(), "md");
    found.sort();
    assert!(found.len() > 40, "{} documents; are they not where they are looked for?", found.len());
    found
}

/// Returns the files with `extension` under `directory`, except in build output and hidden directories other than
/// `.github`.
pub(crate) fn files_with_extension(directory: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let is_skipped = name.starts_with("target") || name.starts_with('.') && name != ".github";
        if path.is_symlink() || is_skipped {
            continue;
        }
        if path.is_dir() {
            found.extend(files_with_extension(&path, extension));
        } else if path.extension().is_some_and(|own| own == extension) {
            found.push(path);
        }
    }
    found
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
