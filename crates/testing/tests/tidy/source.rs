//! Rust files without the parts that rules do not concern: comments, string contents, and tests.

use std::fs;
use std::path::{Path, PathBuf};

/// A file of a crate's `src`.
pub(crate) struct Source {
    pub(crate) krate: String,
    /// Path relative to the checkout's root.
    pub(crate) path: String,
    /// The names from the crate's root to this module; empty for `lib.rs` and `main.rs`.
    pub(crate) module: Vec<String>,
    /// Its text with blanks in place of comments, the contents of strings, and test modules; line numbers are
    /// unchanged.
    pub(crate) code: String,
}

/// Returns the files of all crates in the order of their paths, without files that contain only tests.
pub(crate) fn sources() -> Vec<Source> {
    let root = crate::root();
    let mut sources = Vec::new();
    for krate in crates() {
        let src = root.join("crates").join(&krate).join("src");
        for path in files_under(&src) {
            let inside = path.strip_prefix(&src).unwrap().with_extension("");
            let mut module: Vec<String> =
                inside.iter().map(|name| name.to_string_lossy().into_owned()).collect();
            module.retain(|name| !matches!(name.as_str(), "lib" | "main" | "mod"));
            let is_test = |name: &String| matches!(name.as_str(), "tests" | "model" | "naive");
            // Modules named `model` directly below a crate's root are not tests; loom's models are deeper.
            if module.len() > 1 && module.iter().any(is_test) {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            let code = without_tests(&without_comments(&text));
            let path = path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
            sources.push(Source { krate: krate.clone(), path, module, code });
        }
    }
    assert!(sources.len() > 100, "the crates are not where they are looked for");
    sources
}

/// Returns the names of the crates' directories, in order.
pub(crate) fn crates() -> Vec<String> {
    let entries = fs::read_dir(crate::root().join("crates")).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn files_under(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut entries: Vec<PathBuf> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            found.extend(files_under(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// Replaces comments and the contents of string and character literals by blanks.
pub(crate) fn without_comments(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = match bytes[at] {
            b'/' if bytes[at + 1..].starts_with(b"/") => line_end(bytes, at),
            b'/' if bytes[at + 1..].starts_with(b"*") => block_end(bytes, at),
            b'"' => string_end(bytes, at),
            b'r' if !is_word(at.checked_sub(1).map(|before| bytes[before])) => {
                raw_end(bytes, at).unwrap_or(at)
            }
            b'\'' => character_end(bytes, at).unwrap_or(at),
            _ => at,
        };
        if end == at {
            at += 1;
            continue;
        }
        out[at..end].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
        at = end;
    }
    String::from_utf8(out).expect("only whole characters are replaced")
}

fn is_word(byte: Option<u8>) -> bool {
    byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn line_end(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().position(|&byte| byte == b'\n').map_or(bytes.len(), |length| at + length)
}

fn block_end(bytes: &[u8], at: usize) -> usize {
    bytes[at + 2..].windows(2).position(|pair| pair == b"*/").map_or(bytes.len(), |length| at + length + 4)
}

fn string_end(bytes: &[u8], at: usize) -> usize {
    let mut end = at + 1;
    while end < bytes.len() && bytes[end] != b'"' {
        end += 1 + usize::from(bytes[end] == b'\\');
    }
    (end + 1).min(bytes.len())
}

/// Returns the end of a raw string that begins at `at`, if one does.
fn raw_end(bytes: &[u8], at: usize) -> Option<usize> {
    let hashes = bytes[at + 1..].iter().take_while(|&&byte| byte == b'#').count();
    (bytes.get(at + 1 + hashes) == Some(&b'"')).then_some(())?;
    let close: Vec<u8> = std::iter::once(b'"').chain(std::iter::repeat_n(b'#', hashes)).collect();
    let from = at + 2 + hashes;
    let length = bytes[from..].windows(close.len()).position(|window| window == close)?;
    Some(from + length + close.len())
}

/// Returns the end of a character literal that begins at `at`; `None` for a lifetime.
fn character_end(bytes: &[u8], at: usize) -> Option<usize> {
    let length = if bytes.get(at + 1) == Some(&b'\\') {
        3 + bytes[at + 3..].iter().position(|&byte| byte == b'\'')?
    } else {
        let text = std::str::from_utf8(&bytes[at + 1..]).ok()?;
        let first = text.chars().next()?.len_utf8();
        (bytes.get(at + 1 + first) == Some(&b'\'')).then_some(1 + first)?
    };
    Some(at + length + 1)
}

/// Replaces items that are compiled for tests only by blanks. `code` has no comments any more.
fn without_tests(code: &str) -> String {
    let mut out = code.to_owned();
    let mut from = 0;
    while let Some(start) = next_test(&out, from) {
        let end = item_end(&out, start);
        let blank: String =
            out[start..end].chars().map(|letter| if letter == '\n' { '\n' } else { ' ' }).collect();
        out.replace_range(start..end, &blank);
        from = start;
    }
    out
}

fn next_test(code: &str, from: usize) -> Option<usize> {
    let attributes = ["#[cfg(test)]", "#[cfg(all(test"];
    attributes.iter().filter_map(|attribute| code[from..].find(attribute)).min().map(|at| from + at)
}

/// Returns the end of the item that begins at `start` with an attribute: after its block, or its semicolon.
fn item_end(code: &str, start: usize) -> usize {
    let mut depth = 0;
    for (at, letter) in code[start..].char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => {
                depth -= 1;
                if depth <= 0 {
                    return start + at + 1;
                }
            }
            ';' if depth == 0 => return start + at + 1,
            _ => {}
        }
    }
    code.len()
}

#[test]
fn comments_texts_and_tests_are_blank() {
    let text = "let a = \"x // y\"; // c\nlet b: &'static str = r#\"\"q\"#; let c = '\\''; /* d\n e */ f";
    assert_eq!(
        without_comments(text).split_whitespace().collect::<Vec<_>>().join(" "),
        "let a = ; let b: &'static str = ; let c = ; f"
    );
    assert_eq!(without_comments(text).lines().count(), text.lines().count());
    let code =
        "fn a() {}\n#[cfg(test)]\nmod tests { fn b() { {} } }\nfn c() {}\n#[cfg(test)]\nmod d;\nuse e;";
    assert_eq!(
        without_tests(code).split_whitespace().collect::<Vec<_>>().join(" "),
        "fn a() {} fn c() {} use e;"
    );
}
