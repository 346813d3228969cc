//! Which system interfaces this crate names: those of files, because it is a file system over another one. Processes,
//! mounts, limits, events and the files of `/proc` and `/sys` are `sakiyomi-os`' and `sakiyomi-io`'s.

use std::fs;
use std::path::{Path, PathBuf};

/// Modules of `rustix` that are calls on files and their error numbers.
const ALLOWED: [&str; 3] = ["rustix::fs", "rustix::io", "rustix::buffer"];

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.extension() {
            _ if path.is_dir() => sources(&path, found),
            Some(extension) if extension == "rs" => found.push(path),
            _ => {}
        }
    }
}

/// The interfaces that a line names, each as `crate::module`.
fn named(line: &str) -> Vec<&str> {
    let starts = ["rustix::", "libc::", "nix::"].into_iter().flat_map(|name| line.match_indices(name));
    // Not the end of another name, as in `std::os::unix::fs`.
    let starts = starts.filter(|(at, _)| !line[..*at].ends_with(|c: char| c.is_ascii_alphanumeric()));
    let whole = starts.map(|(at, name)| {
        let module = &line[at + name.len()..];
        let end = module.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(module.len());
        &line[at..at + name.len() + end]
    });
    whole.collect()
}

#[test]
fn only_calls_on_files_are_named_directly() {
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
    assert!(files.len() > 30, "the sources are found");
    for file in files {
        for (number, line) in fs::read_to_string(&file).unwrap().lines().enumerate() {
            for interface in named(line) {
                let place = format!("{}:{}", file.display(), number + 1);
                assert!(ALLOWED.contains(&interface), "{place} names {interface}: it belongs to io or os");
            }
        }
    }
}
