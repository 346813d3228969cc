//! Runs the command in a directory of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A directory for one test, removed on drop.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new(test: &str) -> Scratch {
        let path = sakiyomi_testing::directory().join(format!("{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        fs::write(self.0.join(name), content).unwrap();
        name.to_owned()
    }

    pub(crate) fn run(&self, words: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sakiyomi"));
        command
            .args(words.split_whitespace())
            .current_dir(&self.0)
            .env("COLUMNS", "100")
            .env("XDG_STATE_HOME", state_home())
            .env_remove("NO_COLOR");
        command.output().unwrap()
    }

    /// Runs a command that must succeed, and returns its stdout.
    pub(crate) fn ok(&self, words: &str) -> String {
        let output = self.run(words);
        assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a command that must be refused, with exit code 2 and nothing on stdout, and returns the message.
    pub(crate) fn refused(&self, words: &str) -> String {
        let output = self.run(words);
        assert_eq!(output.status.code(), Some(2), "{words}");
        assert!(output.stdout.is_empty(), "{words}: {}", String::from_utf8_lossy(&output.stdout));
        String::from_utf8(output.stderr).unwrap()
    }

    pub(crate) fn names(&self, directory: &str) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.0.join(directory))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns the directory of the command's state in tests, outside of the user's home.
pub(crate) fn state_home() -> &'static str {
    concat!(env!("CARGO_TARGET_TMPDIR"), "/state")
}

/// Returns the path of a file of the repository.
pub(crate) fn repository(path: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path).display().to_string()
}

pub(crate) fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap()
}
