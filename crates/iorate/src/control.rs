//! Talking to a mount.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use sakiyomi_linux::exchange::exchange;

use crate::protocol::{Answer, Call, Message, Refusal, Set, Target, VERSION, View, decode, encode};

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It cannot be opened.
    #[error("cannot open {}", path.display())]
    Open {
        /// The path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Nothing of ours.
    #[error("{} is not on a mount of sakiyomi's; `sakiyomi mount BACKING DIR --regulate` makes one", .0.display())]
    NotMounted(PathBuf),
    /// The mount does not do it.
    #[error("{}: {why}", path.display())]
    Refused {
        /// The path.
        path: PathBuf,
        /// Why.
        why: Refusal,
    },
    /// The mount does not answer.
    #[error("the mount of {} does not answer", path.display())]
    Broken {
        /// The path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// A mount that can be asked.
#[derive(Debug)]
pub struct Control {
    path: PathBuf,
    file: File,
}

impl Control {
    /// The mount that `path`, a file or directory, is on. Nothing is asked yet.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open(path: impl AsRef<Path>) -> Result<Control, Error> {
        let path = path.as_ref().to_owned();
        match File::open(&path) {
            Ok(file) => Ok(Control { path, file }),
            Err(source) => Err(Error::Open { path, source }),
        }
    }

    /// Gives a rate; says whether it is kept only as well as can be.
    ///
    /// # Errors
    /// If it is refused.
    pub fn set(&self, set: &Set) -> Result<bool, Error> {
        match self.ask(Call::Set(set.clone()))? {
            Answer::Given { best_effort } => Ok(best_effort),
            _ => Err(self.nonsense()),
        }
    }

    /// Takes a rate back.
    ///
    /// # Errors
    /// If there is none, or it is not the caller's to take.
    pub fn clear(&self, target: &Target) -> Result<(), Error> {
        match self.ask(Call::Clear(target.clone()))? {
            Answer::Cleared => Ok(()),
            _ => Err(self.nonsense()),
        }
    }

    /// How things are: of all who have rates or, with `all`, of all who were seen lately.
    ///
    /// # Errors
    /// If the mount does not answer.
    pub fn look(&self, all: bool) -> Result<View, Error> {
        let mut view = self.look_after(0, all)?;
        while view.more {
            let after = view.owners.last().map_or(u64::MAX, |last| last.number);
            let next = self.look_after(after, all)?;
            view.more = next.more && !next.owners.is_empty();
            view.owners.extend(next.owners);
        }
        Ok(view)
    }

    fn look_after(&self, after: u64, all: bool) -> Result<View, Error> {
        match self.ask(Call::Look { after, all })? {
            Answer::Seen(view) => Ok(view),
            _ => Err(self.nonsense()),
        }
    }

    fn ask(&self, call: Call) -> Result<Answer, Error> {
        let message = Message { version: VERSION, asker: std::process::id(), call };
        let too_long = || io::Error::new(io::ErrorKind::InvalidInput, "the name is too long");
        let mut message = encode(&message).ok_or_else(|| self.broken(too_long()))?;
        exchange(&self.file, &mut message).map_err(|error| match error.raw_os_error() {
            // ENOTTY or ENOSYS: who serves it does not know such messages.
            Some(25 | 38) => Error::NotMounted(self.path.clone()),
            _ => self.broken(error),
        })?;
        match decode(&message[..]).map_err(|error| self.broken(error))? {
            Answer::Refused(why) => Err(Error::Refused { path: self.path.clone(), why }),
            answer => Ok(answer),
        }
    }

    fn broken(&self, source: io::Error) -> Error {
        Error::Broken { path: self.path.clone(), source }
    }

    fn nonsense(&self) -> Error {
        self.broken(io::Error::new(io::ErrorKind::InvalidData, "it answered something else"))
    }
}
