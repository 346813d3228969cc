//! The version and build in `--version` and in results, and how the build determines them.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::scratch::{Scratch, json, repository};

#[path = "../../build.rs"]
#[expect(dead_code, clippy::print_stdout, reason = "its main is cargo's, and prints for cargo")]
mod build;

use build::Checkout;

#[test]
fn version_is_one_line_with_version_commit_date_and_target() {
    let scratch = Scratch::new("version");
    let line = scratch.ok("--version");
    assert_eq!(line, scratch.ok("-V"));
    let inside = line.strip_prefix(concat!("sakiyomi ", env!("CARGO_PKG_VERSION"), " (")).unwrap();
    let inside = inside.strip_suffix(")\n").unwrap();
    let target = inside.rsplit(", ").next().unwrap();
    assert!(target.contains("linux"), "{line}");
    let result = json(
        &scratch.ok(&format!("sim {} --drive deskstar-7k250 --json", repository("traces/msr_hm0.csv.gz"))),
    );
    match inside.rsplit_once(", ") {
        Some((built_from, _)) => {
            let (commit, date) = built_from.split_once(' ').unwrap();
            assert!(commit.len() == 10 && commit.bytes().all(|byte| byte.is_ascii_hexdigit()), "{line}");
            assert!(date.len() == 10 && date.split('-').count() == 3, "{line}");
            assert_eq!(result["run"]["commit"], commit);
        }
        None => assert!(result["run"].get("commit").is_none(), "{result}"),
    }
}

/// Runs git in `directory` with a neutral identity. The caller has checked that git is installed.
fn git(directory: &Path, words: &str) {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false"])
        .current_dir(directory);
    git.env("GIT_DEFAULT_REF_FORMAT", "files");
    git.env_remove("GIT_DIR").env_remove("GIT_WORK_TREE").env_remove("GIT_INDEX_FILE");
    let output = git.args(words.split_whitespace()).output().unwrap();
    assert!(output.status.success(), "git {words}: {}", String::from_utf8_lossy(&output.stderr));
}

fn has_git(test: &str) -> bool {
    let has = Command::new("git").arg("--version").output().is_ok();
    if !has {
        sakiyomi_testing::skipped(test, "needs git");
    }
    has
}

#[test]
fn a_new_commit_is_seen_wherever_git_keeps_the_branch() {
    if !has_git("a_new_commit_is_seen") {
        return;
    }
    let scratch = Scratch::new("version_git");
    let root = scratch.0.join("checkout");
    fs::create_dir(&root).unwrap();
    git(&root, "init --quiet");
    git(&root, "checkout --quiet -b topic/one");
    git(&root, "commit --quiet --allow-empty -m first");
    let checkout = Checkout::at(&root).unwrap();
    let commit = checkout.commit().unwrap();
    assert_eq!((commit.hash.len(), commit.date.len()), (10, 10));
    let watches =
        |checkout: &Checkout<'_>, end: &str| checkout.inputs().iter().any(|path| path.ends_with(end));
    assert!(watches(&checkout, ".git/HEAD") && watches(&checkout, "refs/heads/topic/one"));

    // A packed branch has no file of its own, and the next commit creates one below the watched directory.
    git(&root, "pack-refs --all");
    assert!(watches(&checkout, "packed-refs") && !watches(&checkout, "topic/one"));
    let watched = checkout.inputs().into_iter().find(|path| path.is_dir()).unwrap();
    assert!(watched.ends_with("refs/heads") || watched.ends_with("refs"), "{}", watched.display());
    git(&root, "commit --quiet --allow-empty -m second");
    assert!(watches(&checkout, "refs/heads/topic/one"));
    assert_ne!(checkout.commit().unwrap().hash, commit.hash);

    // In a linked worktree, `.git` is a file.
    git(&root, "worktree add --quiet -b linked ../linked");
    let linked = scratch.0.join("linked");
    let linked = Checkout::at(&linked).unwrap();
    assert!(watches(&linked, "worktrees/linked/HEAD") && watches(&linked, "refs/heads/linked"));

    // Without a branch, HEAD itself changes.
    git(&root, "checkout --quiet --detach");
    assert!(watches(&checkout, ".git/HEAD") && !watches(&checkout, "topic/one"));
}

#[test]
fn a_source_archive_in_another_checkout_has_no_commit() {
    if !has_git("a_source_archive") {
        return;
    }
    let scratch = Scratch::new("version_archive");
    let archive = scratch.0.join("other/archive");
    fs::create_dir_all(&archive).unwrap();
    git(&scratch.0.join("other"), "init --quiet");
    git(&scratch.0.join("other"), "commit --quiet --allow-empty -m first");
    assert!(Checkout::at(&archive).is_none());
}
