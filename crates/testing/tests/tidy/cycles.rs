//! Files of a crate that use each other in a circle.
//!
//! A module may use what the modules above it define, as an engine uses the trait that all engines implement; what a
//! parent takes from its children counts, and so does all else.

use std::collections::{BTreeMap, BTreeSet};

use crate::assert_none;
use crate::source::{Source, crates, sources};

type Path = Vec<String>;

/// The modules of a crate, and what each imports.
struct Modules<'a> {
    files: BTreeMap<Path, &'a Source>,
    /// For each module the names that it imports and what they stand for, as written there.
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

    /// The module that defines what `path` names when it is written in `module`; none outside the crate.
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
        // A name that is imported stands for what it was imported from.
        while let Some((name, after)) = rest.split_first() {
            let Some(next) = self.inside(&at, name, hops) else { break };
            at = next;
            rest = after;
        }
        Some(at)
    }

    /// The module that `name` leads to from `module`: a child, or where an imported item is defined.
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

    /// The modules that `module` uses.
    fn used(&self, module: &Path) -> BTreeSet<Path> {
        let code = &self.files[module].code;
        let paths = imported(code).into_iter().map(|(_, path)| path).chain(written(code));
        let used = paths.filter_map(|path| self.defines(module, &path, 8));
        used.filter(|other| !module.starts_with(other) && self.files.contains_key(other)).collect()
    }
}

/// What the `use` statements of `code` import: the name it gets, and the path.
fn imported(code: &str) -> Vec<(String, Path)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("use ") {
        let before = code[..at].trim_end_matches([' ', '\t']);
        let statement =
            before.is_empty() || before.ends_with(['\n', ';', '{', '}', ']', ')']) || before.ends_with("pub");
        if let (true, Some(length)) = (statement, code[at..].find(';')) {
            tree(&code[at + 4..at + length], &[], &mut found);
        }
    }
    found
}

/// Adds what one tree of imports names.
fn tree(text: &str, prefix: &[String], found: &mut Vec<(String, Path)>) {
    let text = text.trim();
    let (path, group) = match text.find('{') {
        Some(open) => (&text[..open], Some(text[open + 1..].trim_end().trim_end_matches('}'))),
        None => (text, None),
    };
    let (path, alias) =
        path.split_once(" as ").map_or((path, None), |(path, alias)| (path, Some(alias.trim())));
    let names = path.split("::").map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned);
    let mut path: Path = prefix.iter().cloned().chain(names).collect();
    if let Some(group) = group {
        parts(group).into_iter().for_each(|part| tree(part, &path, found));
        return;
    }
    if path.last().is_some_and(|last| last == "self") && path.len() > 1 {
        path.pop();
    }
    let Some(last) = path.last().cloned() else { return };
    if last == "*" {
        path.pop();
    }
    found.push((alias.map_or(last, str::to_owned), path));
}

/// The parts of a group between commas that are in no group of their own.
fn parts(group: &str) -> Vec<&str> {
    let (mut depth, mut from, mut parts) = (0, 0, Vec::new());
    for (at, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&group[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&group[from..]);
    parts.retain(|part| !part.trim().is_empty());
    parts
}

/// The paths of two and more names that are written outside of imports too.
fn written(code: &str) -> Vec<Path> {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let mut found = Vec::new();
    for word in code.split(|letter: char| !is_word(letter) && letter != ':') {
        let names: Path = word.split("::").map(str::to_owned).collect();
        if names.len() > 1 && names.iter().all(|name| !name.is_empty() && !name.contains(':')) {
            found.push(names);
        }
    }
    found
}

/// Groups of modules in which each reaches each other.
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
