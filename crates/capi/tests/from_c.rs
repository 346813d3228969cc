//! Compiles and runs programs in C: one that calls every function, and the examples.

use sakiyomi_testing::{can_mount, skipped};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::mem::offset_of;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use sakiyomi::Statistics;
use sakiyomi::blocks::{BlockView, BlocksOptions};
use sakiyomi::ranges::{FileRange, RangesOptions};
use sakiyomi_iorate::Control;
use sakiyomi_iorate::protocol::{Rate, Target};
use sakiyomi_mount::{EmulatedStorage, Options, Regulate, mount};

/// How a program is linked with the library.
#[derive(Clone, Copy, Debug)]
enum Linked {
    Shared,
    Static,
    /// Statically, with AddressSanitizer.
    Watched,
}

const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// The directory in which cargo has put the libraries, that of this executable.
fn libraries() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_owned()
}

fn scratch(name: &str) -> PathBuf {
    sakiyomi_testing::directory().join(format!("capi-{name}-{}", std::process::id()))
}

/// Compiles a program. Without a C compiler, or one with AddressSanitizer, reports the test as skipped and returns
/// `None`.
fn compiled(test: &str, source: &str, linked: Linked) -> Option<PathBuf> {
    let able = |arguments: &[&str]| {
        let probe = scratch(&format!("{test}-probe-{linked:?}"));
        fs::write(probe.with_extension("c"), "int main(void) { return 0; }\n").unwrap();
        let mut cc = Command::new("cc");
        cc.args(arguments).arg(probe.with_extension("c")).arg("-o").arg(&probe);
        let able = cc.output().is_ok_and(|output| output.status.success());
        let _ = (fs::remove_file(&probe), fs::remove_file(probe.with_extension("c")));
        able
    };
    let watches: &[&str] = if matches!(linked, Linked::Watched) { &["-fsanitize=address"] } else { &[] };
    if !able(watches) {
        skipped(&format!("{test}, {linked:?}"), "no C compiler `cc` that makes such programs");
        return None;
    }
    let program = scratch(&format!("{test}-{linked:?}"));
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-D_POSIX_C_SOURCE=200809L", "-Wall", "-Wextra", "-Werror", "-pedantic", "-g"]);
    cc.args(watches).args(layout()).arg(format!("-I{HERE}/include")).arg(format!("{HERE}/{source}"));
    match linked {
        Linked::Shared => {
            let libraries = libraries();
            let libraries = libraries.display();
            cc.args([format!("-L{libraries}"), "-lsakiyomi".into(), format!("-Wl,-rpath,{libraries}")]);
        }
        Linked::Static | Linked::Watched => {
            cc.arg(libraries().join("libsakiyomi.a")).args(["-lpthread", "-ldl", "-lm"]);
        }
    }
    let output = cc.arg("-o").arg(&program).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(program)
}

/// Macros that pass the layout of Rust's structures to C.
fn layout() -> Vec<String> {
    macro_rules! at {
        ($name:literal, $type:ty, $($field:ident),*) => {
            vec![
                (format!("{}_SIZE", $name), size_of::<$type>()),
                $((format!("{}_{}_AT", $name, stringify!($field).to_uppercase()), offset_of!($type, $field))),*
            ]
        };
    }
    let mut layout = at!("OPTIONS", sakiyomi::Options, size, limit_bytes, step_bytes, memory_bytes);
    layout.extend(at!(
        "STATISTICS",
        Statistics,
        size,
        read_bytes,
        prefetched_bytes,
        waits,
        io_wait_ns,
        io_hidden_ns,
        ahead_bytes
    ));
    layout.extend(at!("RANGE", FileRange, offset, length));
    layout.extend(at!("RANGES_OPTIONS", RangesOptions, size, memory_bytes));
    layout.extend(at!("BLOCK", BlockView, bytes, length, offset, file));
    layout.extend(at!("BLOCKS_OPTIONS", BlocksOptions, size, block_bytes, has_records, record_end, threads));
    layout.into_iter().map(|(name, value)| format!("-D{name}={value}")).collect()
}

/// Runs a program with arguments and deletes it.
fn run<W: AsRef<OsStr>>(program: &Path, words: impl IntoIterator<Item = W>) -> Output {
    let output = Command::new(program).args(words).output().unwrap();
    let _ = fs::remove_file(program);
    output
}

fn each_way(test: &str, source: &str, content: &[u8], check: impl Fn(Output)) {
    let file = scratch(&format!("{test}-file"));
    fs::write(&file, content).unwrap();
    for linked in [Linked::Shared, Linked::Static, Linked::Watched] {
        if let Some(program) = compiled(test, source, linked) {
            check(run(&program, [&file]));
        }
    }
    let _ = fs::remove_file(&file);
}

#[test]
fn every_function_does_what_the_header_says() {
    let bytes: Vec<u8> = (0..3_000_000).map(|at| (at % 251) as u8).collect();
    each_way("calls", "tests/calls.c", &bytes, |output| {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    });
}

#[test]
fn the_example_counts_words() {
    let text = "one two\n three\t\tfour  ".repeat(100_000);
    each_way("words", "examples/words.c", text.as_bytes(), |output| {
        assert_eq!(String::from_utf8_lossy(&output.stdout), "400000\n");
        assert!(output.status.success() && output.stderr.is_empty());
    });
    if let Some(program) = compiled("words-missing", "examples/words.c", Linked::Shared) {
        let output = run(&program, ["/nowhere/at/all"]);
        assert_eq!(output.status.code(), Some(2));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.starts_with("cannot open /nowhere/at/all: "), "{said}");
    }
}

#[test]
fn the_example_counts_lines() {
    let text = "one\ntwo three\n\n".repeat(300_000);
    each_way("lines", "examples/lines.c", text.as_bytes(), |output| {
        assert_eq!(String::from_utf8_lossy(&output.stdout), "900000\n");
        assert!(output.status.success() && output.stderr.is_empty());
    });
}

#[test]
fn the_example_adds_up_a_file_in_a_shuffled_order() {
    let bytes: Vec<u8> = (0..5_000_000_u32).map(|at| (at % 251) as u8).collect();
    let sum: u64 = bytes.iter().map(|&byte| u64::from(byte)).sum();
    each_way("shuffled", "examples/shuffled.c", &bytes, |output| {
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{sum}\n"));
        assert!(output.status.success() && output.stderr.is_empty());
    });
    each_way("shuffled-empty", "examples/shuffled.c", &[], |output| {
        assert_eq!(String::from_utf8_lossy(&output.stdout), "0\n");
    });
}

#[test]
fn the_example_says_why_a_rate_is_not_given() {
    let own = std::process::id().to_string();
    for (words, sentence) in [
        (
            [&own, "/proc", "20"],
            "/proc is not on a mount of sakiyomi; create one with `sakiyomi mount BACKING DIR --regulate`",
        ),
        (
            [&own, "/nowhere/at/all", "20"],
            "cannot open /nowhere/at/all: No such file or directory (os error 2)",
        ),
        ([&own, "/proc", "120"], "a rate of 120 % is not possible; give 1 to 100, or 0 to clear it"),
        (["-3", "/proc", "20"], "there is no process -3"),
    ] {
        let Some(program) = compiled("iorate", "examples/iorate.c", Linked::Shared) else { return };
        let output = run(&program, words);
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(String::from_utf8_lossy(&output.stderr), format!("{sentence}\n"));
    }
}

#[test]
fn the_example_gives_a_rate_and_takes_it_back() {
    if !can_mount("the_example_gives_a_rate") {
        return;
    }
    let Some(program) = compiled("iorate-mounted", "examples/iorate.c", Linked::Shared) else { return };
    let (backing, disk) = (scratch("backing"), scratch("disk"));
    for directory in [&backing, &disk] {
        fs::create_dir_all(directory).unwrap();
    }
    let behind = Some(EmulatedStorage::Fixed("fixed:latency=1ms".parse().unwrap()));
    let options = Options { behind, regulate: Some(Regulate::default()), ..Options::default() };
    let mounted = mount(&backing, &disk, &options).unwrap();
    let pid = std::process::id();
    // A timeout, because a mount that hangs would block the program.
    let set = |percent: &str| {
        let mut command = Command::new("timeout");
        command.args(["-s", "KILL", "30"]).arg(&program).arg(pid.to_string()).arg(&disk).arg(percent);
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let rate = || {
        let view = Control::open(&disk).unwrap().view(false).unwrap();
        view.owners.iter().map(|owner| (owner.target.clone(), owner.rate)).collect::<Vec<_>>()
    };
    assert_eq!(set("20"), (Some(0), String::new()));
    assert_eq!(rate(), [(Target::Process { pid }, Some(Rate::Percent(20)))]);
    let (code, said) = set("99");
    assert!(code == Some(2) && said.contains("99 % cannot be kept") && said.contains(" % can"), "{said}");
    assert_eq!(rate(), [(Target::Process { pid }, Some(Rate::Percent(20)))]);
    assert_eq!(set("0"), (Some(0), String::new()));
    assert_eq!(rate(), []);
    let (code, said) = set("0");
    assert!(code == Some(2) && said.ends_with(&format!(": process {pid} has no rate\n")), "{said}");
    mounted.finish(Duration::from_secs(5)).unwrap();
    let _ = (fs::remove_file(program), fs::remove_dir_all(backing), fs::remove_dir_all(disk));
}

#[test]
fn the_header_is_one_for_cpp_too() {
    let source = scratch("header.cpp");
    fs::write(&source, "#include <sakiyomi.h>\nint main() { return *sakiyomi_last_error(); }\n").unwrap();
    let mut cpp = Command::new("c++");
    cpp.args(["-Wall", "-Wextra", "-Werror", "-fsyntax-only"]).arg(format!("-I{HERE}/include")).arg(&source);
    match cpp.output() {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
        Err(_) => skipped("the_header_is_one_for_cpp_too", "no C++ compiler `c++`"),
    }
    let _ = fs::remove_file(&source);
}

/// The functions named in a text, each followed by an opening parenthesis.
fn functions(text: &str) -> BTreeSet<&str> {
    let word = |text: &str| {
        text.find(|letter: char| letter != '_' && !letter.is_alphanumeric()).unwrap_or(text.len())
    };
    let found = text.match_indices("sakiyomi_").map(|(at, _)| &text[at..]);
    found.filter(|rest| rest[word(rest)..].starts_with('(')).map(|rest| &rest[..word(rest)]).collect()
}

#[test]
fn header_library_and_test_have_the_same_functions() {
    let read = |name: &str| fs::read_to_string(format!("{HERE}/{name}")).unwrap();
    let library = read("src/lib.rs") + &read("src/ranges.rs") + &read("src/blocks.rs");
    let (header, calls) = (read("include/sakiyomi.h"), read("tests/calls.c"));
    assert_eq!(functions(&header), functions(&library));
    assert_eq!(functions(&header), functions(&calls));
    let exported = library.matches("#[unsafe(no_mangle)]").count();
    assert_eq!(
        (functions(&library).len(), library.matches("extern \"C\" fn sakiyomi_").count()),
        (exported, exported)
    );
}
