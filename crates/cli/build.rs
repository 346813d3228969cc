//! Passes the commit and the target of the build to the command.
//!
//! Cargo sets `SAKIYOMI_VERSION` for the crate: `0.2.0 (1a2b3c4d5e 2026-11-22, x86_64-unknown-linux-gnu)`, and
//! `SAKIYOMI_COMMIT` and `SAKIYOMI_COMMIT_DATE`, which are empty in a source archive, without git, and in a checkout
//! of another project. They do not depend on the time or place of the build, so that builds of one commit are the
//! same.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Digits of an abbreviated commit.
const COMMIT_DIGITS: usize = 10;

pub(crate) fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let variable = |name: &str| env::var(name).expect("cargo sets it for build scripts");
    let root = Path::new(&variable("CARGO_MANIFEST_DIR")).join("../..");
    let commit = Checkout::at(&root).and_then(|checkout| {
        checkout.inputs().iter().for_each(|path| println!("cargo::rerun-if-changed={}", path.display()));
        checkout.commit()
    });
    let (hash, date, built_from) = match &commit {
        Some(Commit { hash, date }) => (hash.as_str(), date.as_str(), format!("{hash} {date}, ")),
        None => ("", "", String::new()),
    };
    println!("cargo::rustc-env=SAKIYOMI_COMMIT={hash}");
    println!("cargo::rustc-env=SAKIYOMI_COMMIT_DATE={date}");
    let (version, target) = (variable("CARGO_PKG_VERSION"), variable("TARGET"));
    println!("cargo::rustc-env=SAKIYOMI_VERSION={version} ({built_from}{target})");
}

/// The git checkout that contains this crate.
pub(crate) struct Checkout<'a> {
    root: &'a Path,
}

pub(crate) struct Commit {
    pub(crate) hash: String,
    pub(crate) date: String,
}

impl Checkout<'_> {
    /// Returns the checkout whose top directory is `root`; `None` if `root` is within another project's checkout.
    pub(crate) fn at(root: &Path) -> Option<Checkout<'_>> {
        let checkout = Checkout { root };
        let top = checkout.git(&["rev-parse", "--show-toplevel"])?;
        let is_ours = fs::canonicalize(top).ok()? == fs::canonicalize(root).ok()?;
        is_ours.then_some(checkout)
    }

    pub(crate) fn commit(&self) -> Option<Commit> {
        let shown = self.git(&["log", "-1", "--no-show-signature", "--format=%H %cs"])?;
        let (hash, date) = shown.split_once(' ')?;
        // Abbreviated here, because the length that git chooses depends on the other objects of the clone.
        Some(Commit { hash: hash.chars().take(COMMIT_DIGITS).collect(), date: date.to_owned() })
    }

    /// Returns the files that change when another commit is checked out: HEAD, the branch that it names, and the
    /// files into which branches are packed or listed. A branch without a file of its own gets one with its next
    /// commit, in a directory that changes then.
    pub(crate) fn inputs(&self) -> Vec<PathBuf> {
        let branch = self.git(&["symbolic-ref", "--quiet", "HEAD"]);
        let branch = branch.and_then(|branch| self.path(&branch)).and_then(|path| nearest_existing(&path));
        let named = ["HEAD", "packed-refs", "reftable/tables.list"].iter().filter_map(|name| self.path(name));
        named.chain(branch).filter(|path| path.exists()).collect()
    }

    /// Returns the path of one of git's own files: in a linked worktree, `.git` is a file, and branches are
    /// elsewhere.
    fn path(&self, name: &str) -> Option<PathBuf> {
        self.git(&["rev-parse", "--git-path", name]).map(|path| self.root.join(path))
    }

    /// Runs git and returns its standard output; `None` if it fails or is not installed.
    fn git(&self, arguments: &[&str]) -> Option<String> {
        let mut git = Command::new("git");
        git.arg("-C").arg(self.root).args(arguments);
        // Set by git for its hooks, which may run a build: they would name another directory.
        for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_PREFIX"] {
            git.env_remove(name);
        }
        let output = git.output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
    }
}

fn nearest_existing(path: &Path) -> Option<PathBuf> {
    path.ancestors().find(|path| path.exists()).map(Path::to_owned)
}
