//! Cyclic dependencies between the files of a crate.
//!
//! A module may use what the modules above it define, as an engine uses the trait that all engines implement. What a
//! parent imports from its children counts, and so does everything else.

use std::collections::{BTreeMap, BTreeSet};

use crate::assert_none;
use crate::imports::{Path, imported, written};
use crate::source::{Source, crates, sources};

/// The modules of a crate, and the imports of each.
struct Modules<'a> {
    files: BTreeMap<Path, &'a Source>,
    /// For each module the imported names and their paths, as written there.
    imports: BTreeMap<Path, BTreeMap<String, Path>>,
}

impl<'a> Modules<'a> {
    fn of(sources: impl Iterator<Item = &'a Source>) -> Modules<'a> {
        let files: BTreeMap<Path, &Source> = sources.map(|source| (source.module.clone(), source)).collect();
        let imports = files
            .iter()
            .map(|(module, source)| {
                let named = imported(&source.code).into_iter().filter(|(name, _)| name != "*");
                (module.clone(), named.collect())
            })
            .collect();
        Modules { files, imports }
    }

    /// Returns the module that defines what `path` names when it is written in `module`; `None` outside of the crate.
    fn defines(&self, module: &Path, path: &[String], hops: usize) -> Option<Path> {
        let (first, mut rest) = path.split_first()?;
        let mut at = match first.as_str() {
            "crate" => Vec::new(),
            "self" => module.clone(),
            "super" => {
                let mut at = module.clone();
                at.pop();
                while rest.first().is_some_and(|name| name == "super") {
                    at.pop();
                    rest = &rest[1..];
                }
                at
            }
            name => self.inside(module, name, hops)?,
        };
        // An imported name stands for the path that it was imported from.
        while let Some((name, after)) = rest.split_first() {
            let Some(next) = self.inside(&at, name, hops) else { break };
            at = next;
            rest = after;
        }
        Some(at)
    }

    /// Returns the module that `name` leads to from `module`: a child, or the one that defines an imported item.
    fn inside(&self, module: &Path, name: &str, hops: usize) -> Option<Path> {
        let child: Path = module.iter().cloned().chain([name.to_owned()]).collect();
        if self.files.contains_key(&child) {
            return Some(child);
        }
        let target = self.imports.get(module)?.get(name)?;
        if hops == 0 || target.first().is_some_and(|first| first == name) && target.len() == 1 {
            return None;
        }
        self.defines(module, target, hops - 1)
    }

    /// Returns the modules that `module` uses.
    fn used(&self, module: &Path) -> BTreeSet<Path> {
        let code = &self.files[module].code;
        let paths = imported(code).into_iter().map(|(_, path)| path).chain(written(code));
        let used = paths.filter_map(|path| self.defines(module, &path, 8));
        used.filter(|other| !module.starts_with(other) && self.files.contains_key(other)).collect()
    }
}

/// Returns the strongly connected groups of modules.
fn circles(edges: &BTreeMap<Path, BTreeSet<Path>>) -> Vec<Vec<Path>> {
    let reach = |from: &Path| {
        let (mut seen, mut left) = (BTreeSet::new(), vec![from.clone()]);
        while let Some(module) = left.pop() {
            for next in edges.get(&module).into_iter().flatten() {
                if seen.insert(next.clone()) {
                    left.push(next.clone());
                }
            }
        }
        seen
    };
    let reached: BTreeMap<&Path, BTreeSet<Path>> =
        edges.keys().map(|module| (module, reach(module))).collect();
    let mut groups: BTreeSet<Vec<Path>> = BTreeSet::new();
    for (module, to) in &reached {
        if to.contains(*module) {
            let group = to.iter().filter(|other| reached[other].contains(*module));
            groups.insert(group.cloned().collect());
        }
    }
    groups.into_iter().collect()
}

#[test]
fn no_files_use_each_other_in_a_circle() {
    let sources = sources();
    let mut findings = Vec::new();
    for krate in crates() {
        let modules = Modules::of(sources.iter().filter(|source| source.krate == krate));
        let edges: BTreeMap<Path, BTreeSet<Path>> =
            modules.files.keys().map(|module| (module.clone(), modules.used(module))).collect();
        for group in circles(&edges) {
            let ties = group.iter().flat_map(|module| {
                let others = edges[module].iter().filter(|other| group.contains(other));
                others.map(move |other| format!("{} -> {}", name(module), name(other)))
            });
            findings.push(format!("{krate}: {}", ties.collect::<Vec<_>>().join(", ")));
        }
    }
    assert_none("files that use each other in a circle", &findings);
}

fn name(module: &Path) -> String {
    if module.is_empty() { "lib.rs".to_owned() } else { module.join("/") + ".rs" }
}

#[test]
fn imports_are_followed_to_where_a_name_is_defined() {
    let source = |module: &[&str], code: &str| Source {
        krate: "x".to_owned(),
        path: module.join("/"),
        module: module.iter().map(|&name| name.to_owned()).collect(),
        code: code.to_owned(),
    };
    let sources = [
        source(&[], "mod a; mod b; pub use a::inner::Thing;"),
        source(&["a"], "mod inner; use inner::{Thing, other as Other};"),
        source(&["a", "inner"], "use super::super::b; fn f() { b::g() } struct Thing;"),
        source(&["b"], "use crate::{Thing, a::{self}};"),
    ];
    let modules = Modules::of(sources.iter());
    let used = |module: &[&str]| {
        let module: Path = module.iter().map(|&name| name.to_owned()).collect();
        modules.used(&module).iter().map(name).collect::<Vec<_>>()
    };
    assert_eq!(used(&["a"]), ["a/inner.rs"]);
    assert_eq!(used(&["a", "inner"]), ["b.rs"]);
    assert_eq!(used(&["b"]), ["a.rs", "a/inner.rs"], "what is above is not counted, all else is");
    let edges = modules.files.keys().map(|module| (module.clone(), modules.used(module))).collect();
    assert_eq!(circles(&edges).len(), 1);
}
