//! The files of a pipeline's outputs, which no other process writes meanwhile.

use std::io;
use std::path::{Path, PathBuf};

use sakiyomi_io::Claim;

use crate::spec::Target;

/// Claims on the files of outputs. Several outputs of the pipeline may append to one.
#[derive(Default)]
pub(crate) struct Claims(Vec<Claimed>);

struct Claimed {
    path: PathBuf,
    is_appended: bool,
    claim: Claim,
}

impl Claims {
    /// Claims the file of an output, before it is opened.
    ///
    /// # Errors
    /// If another process writes it, or another output of this pipeline and not both append to it.
    pub(crate) fn add(&mut self, target: &Target) -> io::Result<()> {
        let &Target::File { ref path, append: is_appended } = target else { return Ok(()) };
        // Any number of outputs may write to a device or pipe.
        let is_regular = !path.exists() || path.is_file();
        let same = self.0.iter().find(|claimed| is_regular && same_file(&claimed.path, path));
        if let Some(other) = same {
            let problem =
                "another output of this pipeline writes it; give each its own file, or append = true to both";
            let may_share = is_appended && other.is_appended;
            return if may_share { Ok(()) } else { Err(io::Error::other(problem)) };
        }
        self.0.push(Claimed { path: path.clone(), is_appended, claim: Claim::new(path)? });
        Ok(())
    }

    /// Locks the file of an output itself, once that has opened it to append rows.
    ///
    /// # Errors
    /// If another process has locked it.
    pub(crate) fn hold(&mut self, target: &Target) -> io::Result<()> {
        let Target::File { path, append: true } = target else { return Ok(()) };
        match self.0.iter_mut().find(|claimed| same_file(&claimed.path, path)) {
            Some(claimed) if path.is_file() => claimed.claim.hold(path),
            _ => Ok(()),
        }
    }
}

/// Returns whether two paths are of one file.
pub(crate) fn same_file(a: &Path, b: &Path) -> bool {
    a == b || a.canonicalize().is_ok_and(|a| b.canonicalize().is_ok_and(|b| a == b))
}
