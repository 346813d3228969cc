//! Compilation of programs in C and C++, with the shared or the static library.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use sakiyomi_testing::{Scratch, skipped};

use crate::layout::layout;

/// The directory of the crate.
pub(crate) const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// How a program is linked with the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Linked {
    Shared,
    Static,
    /// Statically, with AddressSanitizer.
    Watched,
}

impl Linked {
    const EACH: [Linked; 3] = [Linked::Shared, Linked::Static, Linked::Watched];

    fn options(self) -> &'static [&'static str] {
        match self {
            Linked::Watched => &["-fsanitize=address"],
            Linked::Shared | Linked::Static => &[],
        }
    }
}

/// The static library that cargo has put beside this executable.
pub(crate) fn archive() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().join("libsakiyomi.a")
}

/// Returns the compiler of a source, and its options for a standard.
fn compiler(source: &str) -> (&'static str, &'static str) {
    if source.ends_with(".cpp") { ("c++", "-std=c++17") } else { ("cc", "-std=c11") }
}

/// A compiler whose temporary files are in this directory: /tmp may be full.
pub(crate) fn compiler_in(directory: &Scratch, compiler: &str) -> Command {
    let mut command = Command::new(compiler);
    command.env("TMPDIR", directory.root());
    command
}

/// Runs a command, which must succeed.
pub(crate) fn succeeds(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Runs the script that installs the library.
pub(crate) fn install(prefix: &Path, options: &[&str]) -> Output {
    let mut install = Command::new(format!("{HERE}/install"));
    install.args(options).arg("--prefix").arg(prefix).arg("--archive").arg(archive());
    // For the compiler: /tmp may be full.
    install.env("TMPDIR", prefix);
    install.output().unwrap()
}

/// A program, with the shared library that it uses, in a directory that is removed on drop.
pub(crate) struct Program {
    directory: Scratch,
}

impl Program {
    /// Compiles a program of this crate. Without a compiler that makes such programs, reports the test as skipped and
    /// returns `None`.
    pub(crate) fn new(test: &str, source: &str, linked: Linked) -> Option<Program> {
        let directory = Scratch::new("capi");
        let (compiler, standard) = compiler(source);
        if !is_able(&directory, compiler, linked) {
            skipped(
                &format!("{test}, {linked:?}"),
                format!("no compiler `{compiler}` that makes such programs"),
            );
            return None;
        }
        let mut command = compiler_in(&directory, compiler);
        command.args([standard, "-D_POSIX_C_SOURCE=200809L"]);
        command.args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-g"]);
        command.args(linked.options()).args(layout()).arg(format!("{HERE}/{source}"));
        match linked {
            Linked::Shared => {
                let output = install(directory.root(), &["--shared-only"]);
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
                let libraries = directory.path("lib").display().to_string();
                command.args([
                    format!("-L{libraries}"),
                    "-lsakiyomi".into(),
                    format!("-Wl,-rpath,{libraries}"),
                ]);
                command.arg(format!("-I{}", directory.path("include").display()));
            }
            Linked::Static | Linked::Watched => {
                command.arg(archive()).args(["-lpthread", "-ldl", "-lm"]).arg(format!("-I{HERE}/include"));
            }
        }
        succeeds(command.arg("-o").arg(directory.path("program")));
        Some(Program { directory })
    }

    /// Compiles a program in each way, and runs it with these arguments.
    pub(crate) fn each_way<W: AsRef<OsStr>>(
        test: &str,
        source: &str,
        words: impl IntoIterator<Item = W> + Clone,
        check: impl Fn(Output),
    ) {
        for linked in Linked::EACH {
            if let Some(program) = Program::new(test, source, linked) {
                check(program.run(words.clone()));
            }
        }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path("program")
    }

    /// Runs it with arguments.
    pub(crate) fn run<W: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = W>) -> Output {
        Command::new(self.path()).args(words).output().unwrap()
    }
}

/// Returns whether the compiler makes programs that are linked so.
fn is_able(directory: &Scratch, compiler: &str, linked: Linked) -> bool {
    let source = directory.path("probe.c");
    fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    let mut probe = compiler_in(directory, compiler);
    probe.args(linked.options()).arg(&source).arg("-o").arg(directory.path("probe"));
    probe.output().is_ok_and(|output| output.status.success())
}
