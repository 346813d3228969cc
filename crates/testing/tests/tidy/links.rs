//! Links between documents: relative targets exist, and so do the headings that they name. Each page of `docs/` is in the
//! summary.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::documents::{documents, prose};
use crate::{assert_none, root};

/// Returns the targets of a line's links, `[text](target)`, outside of code.
fn targets(line: &str) -> Vec<String> {
    let without_code: String = line.split('`').step_by(2).collect();
    let parts = without_code.split("](").skip(1);
    parts.filter_map(|part| part.split([')', ' ']).next()).map(str::to_owned).collect()
}

/// Returns the names by which the headings of a document can be linked, as GitHub makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for line in prose(text).filter(|line| line.starts_with('#')) {
        let heading = line.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|&c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        let slug: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let repeated = (1..).map(|number| format!("{slug}-{number}"));
        let name = std::iter::once(slug.clone()).chain(repeated).find(|name| !found.contains(name));
        found.extend(name);
    }
    found
}

/// Returns what is wrong with a link in the document at `path`, if anything.
fn problem(path: &Path, target: &str) -> Option<&'static str> {
    let (file, heading) = target.split_once('#').unwrap_or((target, ""));
    let linked = if file.is_empty() { path.to_owned() } else { path.parent().unwrap().join(file) };
    if !linked.exists() {
        return Some("no such file");
    }
    let is_document = linked.extension().is_some_and(|extension| extension == "md");
    if heading.is_empty() || !is_document {
        return None;
    }
    let has_heading = anchors(&fs::read_to_string(&linked).unwrap()).contains(heading);
    (!has_heading).then_some("no such heading")
}

#[test]
fn links_lead_to_files_and_headings_that_exist() {
    let mut findings = Vec::new();
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        for target in prose(&text).flat_map(targets) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let problem = problem(&document, &target);
            findings.extend(problem.map(|problem| format!("{}: {target}: {problem}", document.display())));
        }
    }
    assert_none("links that lead nowhere", &findings);
}

#[test]
fn the_summary_has_every_page() {
    let docs = root().join("docs");
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let listed: BTreeSet<String> = prose(&summary).flat_map(targets).collect();
    let pages = documents().into_iter().filter_map(|path| {
        let page = path.strip_prefix(&docs).ok()?.to_string_lossy().into_owned();
        (page != "SUMMARY.md").then_some(page)
    });
    let missing: Vec<String> = pages.filter(|page| !listed.contains(page)).collect();
    assert_none("pages that docs/SUMMARY.md does not list", &missing);
}

#[test]
fn the_table_of_benchmarks_has_every_script() {
    let bench = root().join("bench");
    let table = fs::read_to_string(bench.join("README.md")).unwrap();
    let scripts =
        fs::read_dir(bench).unwrap().filter_map(|entry| entry.unwrap().file_name().into_string().ok());
    let missing: Vec<String> =
        scripts.filter(|name| name.ends_with(".py") && !table.contains(&format!("`{name}`"))).collect();
    assert_none("scripts that bench/README.md does not list", &missing);
}

#[test]
fn the_index_has_the_pages_of_the_summary() {
    let listed = |name: &str| -> BTreeSet<String> {
        let text = fs::read_to_string(root().join("docs").join(name)).unwrap();
        prose(&text).flat_map(targets).filter(|target| target != "README.md").collect()
    };
    let (index, summary) = (listed("README.md"), listed("SUMMARY.md"));
    let differ: Vec<String> = index.symmetric_difference(&summary).cloned().collect();
    assert_none("pages that only one of docs/README.md and docs/SUMMARY.md lists", &differ);
}

#[test]
fn targets_are_found_outside_of_code() {
    let line = "see [a](b.md#c), `[no](link)` and ![picture](d.png \"title\")";
    assert_eq!(targets(line), ["b.md#c", "d.png"]);
}

#[test]
fn headings_have_the_names_that_github_gives_them() {
    let names = anchors("# Wait: `a-b` (c)\n```\n# no\n```\n## Twice\n## Twice\n");
    let expected = ["twice", "twice-1", "wait-a-b-c"].map(str::to_owned);
    assert_eq!(names, BTreeSet::from(expected));
}
