//! The structure of the crate: a figure is shown only in the file of its type.

use std::fs;
use std::path::{Path, PathBuf};

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// Returns the files below a directory, with their contents.
fn files(directory: &Path) -> Vec<(PathBuf, String)> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let (directories, files): (Vec<PathBuf>, Vec<PathBuf>) = entries.partition(|path| path.is_dir());
    let own = files.into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    own.map(|path| (path.clone(), fs::read_to_string(path).unwrap()))
        .chain(directories.iter().flat_map(|path| self::files(path)))
        .collect()
}

#[test]
fn no_renderer_knows_a_result() {
    let renderers = [
        "text.rs",
        "text/table.rs",
        "text/style.rs",
        "html/page.rs",
        "html/table.rs",
        "html/series.rs",
        "markdown.rs",
        "rows.rs",
        "section.rs",
        "value.rs",
    ];
    let results = ["Sim", "Sweep", "Validate", "Probe", "Query", "Run", "Mount", "Top", "Iorate", "Scenario"];
    for name in renderers {
        let text = fs::read_to_string(source().join(name)).unwrap();
        let known = results.iter().find(|result| text.contains(&format!("{result}Result")));
        assert!(known.is_none(), "{name} names {known:?}");
    }
}

#[test]
fn no_result_knows_a_renderer() {
    for (path, text) in files(&source().join("result")) {
        for renderer in ["crate::text", "crate::html", "crate::markdown"] {
            assert!(!text.contains(renderer), "{} names {renderer}", path.display());
        }
    }
}
