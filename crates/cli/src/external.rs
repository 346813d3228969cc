//! Commands that others add: `sakiyomi NAME` runs `sakiyomi-NAME` of the directories in PATH, as git does.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::anyhow;

/// Replaces this process by `sakiyomi-NAME` where the first of `words` is a NAME that is not one of `cli`'s commands, with
/// the other words as its arguments. Returns only if the program is not found, or with the error if it cannot be started.
pub(crate) fn exec(cli: &clap::Command, words: impl IntoIterator<Item = OsString>) -> Option<anyhow::Error> {
    let mut words = words.into_iter();
    let name = words.next().filter(|name| is_name(name) && cli.find_subcommand(name).is_none())?;
    let mut file = OsString::from("sakiyomi-");
    file.push(&name);
    let arguments: Vec<OsString> = words.collect();
    let path = env::var_os("PATH").unwrap_or_default();
    let mut refused = None;
    for program in programs(&path, &file) {
        let error = Command::new(&program).args(&arguments).exec();
        let is_refused = error.kind() == io::ErrorKind::PermissionDenied;
        let error = anyhow!("cannot start {}: {error}; make it executable or remove it", program.display());
        // A shell continues with the next directory as well.
        if !is_refused {
            return Some(error);
        }
        refused = refused.or(Some(error));
    }
    refused
}

/// Returns whether a word can be the name of a command: not an option, and not a path.
fn is_name(word: &OsStr) -> bool {
    let bytes = word.as_bytes();
    !bytes.is_empty() && !bytes.starts_with(b"-") && !bytes.contains(&b'/')
}

/// Returns the executable files of that name in the directories of `path`, in their order.
fn programs(path: &OsStr, file: &OsStr) -> impl Iterator<Item = PathBuf> {
    let directories: Vec<PathBuf> = env::split_paths(path).collect();
    // An empty one stands for the current directory, and a name without a slash would be looked for in PATH again.
    let at_dot = |directory: PathBuf| match directory.as_os_str().is_empty() {
        true => PathBuf::from("."),
        false => directory,
    };
    let file = file.to_owned();
    let programs = directories.into_iter().map(move |directory| at_dot(directory).join(&file));
    programs.filter(|program| is_executable(program))
}

fn is_executable(program: &Path) -> bool {
    fs::metadata(program).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}
