//! The header beside the code: functions with the types and names of their arguments, types of functions, and members of
//! structures, each read from the text of both and written in the types of Rust.

use std::collections::BTreeSet;
use std::fs;

use crate::compile::HERE;

/// The types of C in Rust, but for those that differ only in spelling.
const TYPES: [(&str, &str); 15] = [
    ("char", "c_char"),
    ("double", "f64"),
    ("int", "c_int"),
    ("int64_t", "i64"),
    ("pid_t", "libc::pid_t"),
    ("size_t", "usize"),
    ("ssize_t", "isize"),
    ("uint32_t", "u32"),
    ("uint64_t", "u64"),
    ("uint8_t", "u8"),
    ("void", "c_void"),
    ("sakiyomi_block", "BlockView"),
    ("sakiyomi_prefetch_options", "Options"),
    ("sakiyomi_prefetch_statistics", "Statistics"),
    ("sakiyomi_range", "FileRange"),
];

/// The name of a type of C in Rust: `BlockFunction` for `sakiyomi_block_function`.
fn of_rust(name: &str) -> String {
    if let Some((_, rust)) = TYPES.iter().find(|(c, _)| *c == name) {
        return (*rust).to_owned();
    }
    let words =
        name.strip_prefix("sakiyomi_").unwrap_or_else(|| panic!("no type of Rust is known for {name}"));
    let capital = |word: &str| word[..1].to_uppercase() + &word[1..];
    words.split('_').map(capital).collect()
}

/// The header.
pub(crate) fn header() -> String {
    fs::read_to_string(format!("{HERE}/include/sakiyomi.h")).unwrap()
}

/// All sources of the library.
fn library() -> String {
    let files = fs::read_dir(format!("{HERE}/src")).unwrap();
    files.map(|file| fs::read_to_string(file.unwrap().path()).unwrap()).collect()
}

/// The functions named in a text, each followed by an opening parenthesis.
pub(crate) fn functions(text: &str) -> BTreeSet<&str> {
    let word = |text: &str| {
        text.find(|letter: char| letter != '_' && !letter.is_alphanumeric()).unwrap_or(text.len())
    };
    let found = text.match_indices("sakiyomi_").map(|(at, _)| &text[at..]);
    found.filter(|rest| rest[word(rest)..].starts_with('(')).map(|rest| &rest[..word(rest)]).collect()
}

/// Text on one line, with single spaces, and none beside brackets.
fn in_one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.replace("( ", "(").replace(",)", ")").replace(", )", ")").replace(" )", ")")
}

/// The header without comments and lines for the preprocessor, in one line.
fn declarations(header: &str) -> String {
    let mut text = String::new();
    let mut rest = header;
    while let Some((before, after)) = rest.split_once("/*") {
        text += before;
        rest = after.split_once("*/").unwrap().1;
    }
    text += rest;
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    in_one_line(&lines.join("\n"))
}

/// A declaration of C, such as `const char *const *paths`, as one of Rust: `paths: *const *const c_char`.
fn declared(c: &str) -> (String, String) {
    let at = c.rfind([' ', '*']).map_or(0, |at| at + 1);
    (c[at..].to_owned(), type_of(&c[..at]))
}

/// A type of C in Rust.
fn type_of(c: &str) -> String {
    let mut levels = c.split('*').map(str::trim);
    let base = levels.next().unwrap();
    let (mut is_const, name) = match base.strip_prefix("const ") {
        Some(name) => (true, name),
        None => (false, base),
    };
    levels.fold(of_rust(name.trim_start_matches("struct ")), |pointee, level| {
        let pointer = if is_const { "*const" } else { "*mut" };
        is_const = level == "const";
        format!("{pointer} {pointee}")
    })
}

/// Arguments and result of a function of C in Rust.
fn signature(arguments: &str, result: &str) -> String {
    let arguments: Vec<String> = match arguments {
        "void" => Vec::new(),
        _ => arguments
            .split(',')
            .map(|argument| declared(argument.trim()))
            .map(|(name, kind)| format!("{name}: {kind}"))
            .collect(),
    };
    let result = if result == "void" { String::new() } else { format!(" -> {}", type_of(result)) };
    format!("({}){result}", arguments.join(", "))
}

/// The interface as the header has it.
fn of_header(header: &str) -> BTreeSet<String> {
    let text = declarations(header);
    let text = text.strip_prefix("extern \"C\" {").unwrap();
    let mut found = BTreeSet::new();
    let mut rest = text;
    while let Some(at) = rest.find([';', '{']) {
        let (head, tail) = rest.split_at(at);
        let head = head.trim();
        if let Some(name) = head.strip_prefix("typedef struct ").filter(|_| tail.starts_with('{')) {
            let (members, after) = tail[1..].split_once('}').unwrap();
            for member in members.split_terminator(';').map(str::trim).filter(|member| !member.is_empty()) {
                let (member, kind) = declared(member);
                found.insert(format!("{}.{member}: {kind}", of_rust(name)));
            }
            rest = after.split_once(';').unwrap().1;
            continue;
        }
        if tail.starts_with('{') {
            assert_eq!(head, "enum");
            rest = tail.split_once("};").unwrap().1;
            continue;
        }
        rest = &tail[1..];
        if let Some(function) = head.strip_prefix("typedef ").filter(|head| head.contains("(*")) {
            let (result, function) = function.split_once("(*").unwrap();
            let (name, arguments) = function.split_once(")(").unwrap();
            let arguments = arguments.strip_suffix(')').unwrap();
            found.insert(format!("{}{}", of_rust(name), signature(arguments, result.trim())));
        } else if let Some((function, arguments)) = head.split_once('(') {
            let at = function.rfind([' ', '*']).unwrap() + 1;
            let arguments = arguments.strip_suffix(')').unwrap();
            found.insert(format!("{}{}", &function[at..], signature(arguments, function[..at].trim())));
        } else {
            assert!(head.starts_with("typedef struct sakiyomi_"), "{head}");
        }
    }
    found
}

/// The interface as the library has it.
fn of_library(library: &str) -> BTreeSet<String> {
    let text = in_one_line(
        &library.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n"),
    );
    let mut found = BTreeSet::new();
    for (at, start) in text.match_indices("extern \"C\" fn sakiyomi_") {
        let function = &text[at + start.len()..];
        let (function, _) = function.split_once(" {").unwrap();
        found.insert(format!("sakiyomi_{function}"));
    }
    for (at, start) in text.match_indices("pub type ") {
        let (name, kind) = text[at + start.len()..].split_once(';').unwrap().0.split_once(" = ").unwrap();
        let (_, kind) = kind.split_once("unsafe extern \"C\" fn").unwrap();
        found.insert(format!("{name}{}", kind.trim_end_matches(['>', ',', ' '])));
    }
    for (at, start) in text.match_indices("#[repr(C)] #[derive(Clone, Copy, Debug)] pub struct ") {
        let (name, members) = text[at + start.len()..].split_once(" {").unwrap();
        for member in members.split_once('}').unwrap().0.split_terminator(',').map(str::trim) {
            if let Some(member) = member.strip_prefix("pub ") {
                found.insert(format!("{name}.{member}"));
            }
        }
    }
    found
}

#[test]
fn the_header_has_the_functions_types_and_members_of_the_library() {
    let (header, library) = (of_header(&header()), of_library(&library()));
    let missing: Vec<_> = library.difference(&header).collect();
    let other: Vec<_> = header.difference(&library).collect();
    assert!(
        missing.is_empty() && other.is_empty(),
        "only the library: {missing:#?}\nonly the header: {other:#?}"
    );
    assert!(header.len() > 80, "{header:#?}");
}

#[test]
fn a_difference_between_header_and_library_is_found() {
    let library = of_library(&library());
    for (part, other) in [
        ("size_t count);", "uint32_t count);"),
        ("const void **data);", "void **data);"),
        ("uint64_t io_wait_ns;", "uint32_t io_wait_ns;"),
        ("typedef int (*sakiyomi_block_function)", "typedef void (*sakiyomi_block_function)"),
        ("int sakiyomi_prefetch_close(", "int sakiyomi_prefetch_end("),
        ("    const char *chunk;\n", ""),
        ("uint8_t record_end;", "uint8_t record_ends;"),
    ] {
        let header = header();
        let changed = header.replacen(part, other, 1);
        assert_ne!(changed, header, "{part}");
        assert_ne!(of_header(&changed), library, "{part}");
    }
}

#[test]
fn the_programs_of_the_tests_call_every_function() {
    let programs = ["calls.c", "tasks.c", "simulation.c"];
    let programs = programs.map(|name| fs::read_to_string(format!("{HERE}/tests/{name}")).unwrap()).concat();
    assert_eq!(functions(&header()), functions(&programs));
    let exported = library().matches("#[unsafe(no_mangle)]").count();
    assert_eq!(library().matches("extern \"C\" fn sakiyomi_").count(), exported);
}
