//! The installed library: symbols and their versions, pkg-config, and what is refused.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use sakiyomi_testing::{Scratch, skipped};

use crate::compile::{HERE, archive, compiler_in, install, succeeds};
use crate::header::{functions, header};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Installs the library, if there are the tools; otherwise reports the test as skipped.
fn installed(test: &str, tools: &[&str], options: &[&str]) -> Option<Scratch> {
    for tool in tools {
        if Command::new(tool).arg("--version").output().is_err() {
            skipped(test, format!("there is no `{tool}`"));
            return None;
        }
    }
    let prefix = Scratch::new("capi-installed");
    let output = install(prefix.root(), options);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(prefix)
}

/// The version of the symbols, as `sakiyomi.map` has it, and the symbols.
fn listed() -> (String, BTreeSet<String>) {
    let map = fs::read_to_string(format!("{HERE}/sakiyomi.map")).unwrap();
    let node = map.lines().find_map(|line| line.strip_suffix(" {")).unwrap().to_owned();
    let symbols = map.lines().filter_map(|line| line.strip_prefix("    sakiyomi_")?.strip_suffix(';'));
    (node, symbols.map(|symbol| format!("sakiyomi_{symbol}")).collect())
}

#[test]
fn the_shared_library_exports_the_functions_of_the_header_with_their_version_and_nothing_else() {
    let Some(prefix) = installed("the_shared_library_exports", &["cc", "nm"], &["--shared-only"]) else {
        return;
    };
    let mut nm = Command::new("nm");
    nm.args(["-D", "--defined-only", "--with-symbol-versions"]).arg(prefix.path("lib/libsakiyomi.so"));
    let output = succeeds(&mut nm);
    let (node, symbols) = listed();
    let expected: BTreeSet<String> = symbols.iter().map(|symbol| format!("T {symbol}@@{node}")).collect();
    let text = String::from_utf8(output.stdout).unwrap();
    // An address, a letter for the kind, a name. The version itself is an absolute symbol.
    let exported = text.lines().map(|line| line.split_once(' ').unwrap().1.to_owned());
    let exported: BTreeSet<String> = exported.filter(|symbol| *symbol != format!("A {node}")).collect();
    assert_eq!(exported, expected);
    assert_eq!(symbols, functions(&header()).into_iter().map(str::to_owned).collect());
}

#[test]
fn the_version_is_the_same_everywhere() {
    let (major_and_minor, _) = VERSION.rsplit_once('.').unwrap();
    assert!(header().contains(&format!("#define SAKIYOMI_VERSION \"{VERSION}\"\n")));
    assert_eq!(listed().0, format!("SAKIYOMI_{major_and_minor}"));
    let Some(prefix) = installed("the_version", &["cc", "readelf"], &["--shared-only"]) else { return };
    let mut readelf = Command::new("readelf");
    let output = succeeds(readelf.arg("-d").arg(prefix.path(&format!("lib/libsakiyomi.so.{VERSION}"))));
    let name = format!("Library soname: [libsakiyomi.so.{major_and_minor}]");
    assert!(String::from_utf8(output.stdout).unwrap().contains(&name));
}

/// The answer of pkg-config about the library installed there, as words.
fn pkg_config(prefix: &Path, words: &[&str]) -> Vec<String> {
    let mut command = Command::new("pkg-config");
    command.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")).args(words).arg("sakiyomi");
    let output = succeeds(&mut command);
    String::from_utf8(output.stdout).unwrap().split_whitespace().map(str::to_owned).collect()
}

#[test]
fn programs_are_compiled_by_what_pkg_config_says_with_either_library() {
    let Some(prefix) = installed("programs_are_compiled", &["cc", "pkg-config"], &[]) else { return };
    assert_eq!(pkg_config(prefix.root(), &["--modversion"]), [VERSION]);
    let file = prefix.file("text", "one two\n three");
    let program = prefix.path("program");
    let libraries = prefix.path("lib");
    for is_static in [false, true] {
        let mut cc = compiler_in(&prefix, "cc");
        cc.arg(format!("{HERE}/examples/words.c")).args(pkg_config(prefix.root(), &["--cflags"]));
        let linked = if is_static {
            // The linker takes the shared library of a name if there are both.
            fs::remove_file(prefix.path("lib/libsakiyomi.so")).unwrap();
            pkg_config(prefix.root(), &["--static", "--libs"])
        } else {
            pkg_config(prefix.root(), &["--libs"])
        };
        succeeds(cc.args(linked).arg("-o").arg(&program));
        let mut run = Command::new(&program);
        // No path for the program that has the static library.
        let output = succeeds(
            run.arg(&file).env("LD_LIBRARY_PATH", if is_static { "" } else { libraries.to_str().unwrap() }),
        );
        assert_eq!(String::from_utf8_lossy(&output.stdout), "3\n", "static: {is_static}");
    }
}

#[test]
fn packages_are_staged_and_other_directories_are_chosen() {
    let Some(stage) = installed("packages_are_staged", &["cc"], &["--shared-only"]) else { return };
    let mut command = Command::new(format!("{HERE}/install"));
    command.args(["--prefix", "/usr", "--libdir", "/usr/lib64", "--shared-only", "--archive"]).arg(archive());
    succeeds(command.env("DESTDIR", stage.root()));
    let file = fs::read_to_string(stage.path("usr/lib64/pkgconfig/sakiyomi.pc")).unwrap();
    assert!(file.contains("prefix=/usr\n") && file.contains("libdir=/usr/lib64\n"), "{file}");
    assert!(file.contains(&format!("Version: {VERSION}\n")) && !file.contains('@'), "{file}");
    assert!(stage.path("usr/include/sakiyomi.h").is_file());
    assert!(
        stage.path("usr/lib64/libsakiyomi.so").is_file() && !stage.path("usr/lib64/libsakiyomi.a").exists()
    );
}

#[test]
fn what_the_script_does_not_know_is_refused_in_a_sentence() {
    let script = || Command::new(format!("{HERE}/install"));
    for (words, sentence) in [
        (&["--prefix"][..], "--prefix needs a value"),
        (
            &["--force"],
            "unknown option --force; the options are --prefix, --libdir, --archive and --shared-only",
        ),
        (&["--prefix", "here"], "here: give the whole path of the directory, from / on"),
        (&["--archive", "/nowhere/lib.a"], "there is no /nowhere/lib.a"),
    ] {
        let output = script().args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(String::from_utf8_lossy(&output.stderr), format!("install: {sentence}\n"));
    }
}
