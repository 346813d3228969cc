//! Sends requests about I/O rates to a mount.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use sakiyomi_os::ioctl_channel::{MESSAGE_BYTES, exchange, open};

use crate::protocol::{Call, Message, PROTOCOL_VERSION, Refusal, Reply, Set, Target, View, decode, encode};

/// Errors of [`Control`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The path cannot be opened.
    #[error("cannot open {}", path.display())]
    Open {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The path is not on a mount of sakiyomi.
    #[error("{} is not on a mount of sakiyomi; create one with `sakiyomi mount BACKING DIR --regulate`", .0.display())]
    NotMounted(PathBuf),
    /// The mount refused the request.
    #[error("{}: {why}", path.display())]
    Refused {
        /// The path.
        path: PathBuf,
        /// The reason.
        why: Refusal,
    },
    /// The mount gave no valid answer.
    #[error("the mount of {} does not answer", path.display())]
    Broken {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// Sends a message to a mount and overwrites it with the answer.
type Exchange = dyn Fn(&mut [u8; MESSAGE_BYTES]) -> io::Result<()> + Send + Sync;

/// A connection to a mount.
pub struct Control {
    path: PathBuf,
    exchange: Box<Exchange>,
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Control {
    /// Opens the mount that contains `path`, a file or directory. Sends no message yet.
    ///
    /// # Errors
    /// If `path` cannot be opened.
    pub fn open(path: impl AsRef<Path>) -> Result<Control, Error> {
        let path = path.as_ref();
        match open(path) {
            Ok(file) => Ok(Control::over(path, move |message| exchange(&file, message))),
            Err(source) => Err(Error::Open { path: path.to_owned(), source }),
        }
    }

    /// Makes a connection whose messages are answered by `exchange`, for tests.
    pub fn over(
        path: impl AsRef<Path>,
        exchange: impl Fn(&mut [u8; MESSAGE_BYTES]) -> io::Result<()> + Send + Sync + 'static,
    ) -> Control {
        Control { path: path.as_ref().to_owned(), exchange: Box::new(exchange) }
    }

    /// Returns the path given to [`Control::open`].
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Sets a rate. Returns whether it is best effort, that is, not guaranteed.
    ///
    /// # Errors
    /// If the mount refuses it.
    pub fn set(&self, set: &Set) -> Result<bool, Error> {
        match self.ask(Call::Set(set.clone()))? {
            Reply::Given { best_effort } => Ok(best_effort),
            _ => Err(self.nonsense()),
        }
    }

    /// Removes a rate.
    ///
    /// # Errors
    /// If the target has no rate, or the caller may not remove it.
    pub fn clear(&self, target: &Target) -> Result<(), Error> {
        match self.ask(Call::Clear(target.clone()))? {
            Reply::Cleared => Ok(()),
            _ => Err(self.nonsense()),
        }
    }

    /// Returns the state of the device and of all owners with a rate or, with `all`, of all that did I/O recently.
    ///
    /// # Errors
    /// If the mount gives no valid answer.
    pub fn view(&self, all: bool) -> Result<View, Error> {
        let mut view = self.look_after(0, all)?;
        while view.more {
            // A part without owners ends the list, even if it announces more.
            let Some(last) = view.owners.last().map(|last| last.number) else { break };
            let next = self.look_after(last, all)?;
            if next.owners.first().is_some_and(|first| first.number <= last) {
                return Err(self.nonsense());
            }
            view.more = next.more && !next.owners.is_empty();
            view.owners.extend(next.owners);
        }
        view.more = false;
        Ok(view)
    }

    /// Returns the state of the device and of the target, which has a rate or had one until it recently ended.
    ///
    /// # Errors
    /// If the target has no rate.
    pub fn find(&self, target: &Target) -> Result<View, Error> {
        match self.ask(Call::Find(target.clone()))? {
            Reply::Seen(view) => Ok(view),
            _ => Err(self.nonsense()),
        }
    }

    fn look_after(&self, after: u64, all: bool) -> Result<View, Error> {
        match self.ask(Call::Look { after, all })? {
            Reply::Seen(view) => Ok(view),
            _ => Err(self.nonsense()),
        }
    }

    fn ask(&self, call: Call) -> Result<Reply, Error> {
        let message = Message { version: PROTOCOL_VERSION, asker: std::process::id(), call };
        let too_long = || io::Error::new(io::ErrorKind::InvalidInput, "the name is too long");
        let mut message = encode(&message).ok_or_else(|| self.broken(too_long()))?;
        (self.exchange)(&mut message).map_err(|error| match error.raw_os_error() {
            // ENOTTY or ENOSYS: the file system does not know this request.
            Some(25 | 38) => Error::NotMounted(self.path.clone()),
            _ => self.broken(error),
        })?;
        match decode(&message[..]).map_err(|error| self.broken(error))? {
            Reply::Refused(why) => Err(Error::Refused { path: self.path.clone(), why }),
            answer => Ok(answer),
        }
    }

    fn broken(&self, source: io::Error) -> Error {
        Error::Broken { path: self.path.clone(), source }
    }

    fn nonsense(&self) -> Error {
        self.broken(io::Error::new(io::ErrorKind::InvalidData, "the reply does not match the request"))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::protocol::{Bypass, DeviceView, Owner, Rate};

    /// A mount that answers each message by `answer`.
    fn mount(answer: impl Fn(Message) -> Reply + Send + Sync + 'static) -> Control {
        Control::over("/mnt/disk", move |message| {
            *message = *encode(&answer(decode(message)?)).unwrap();
            Ok(())
        })
    }

    fn view(owners: impl Iterator<Item = u64>, more: bool) -> Reply {
        let bypass = Bypass { device: "sda".to_owned(), requests_per_s: 1.5, share_ratio: 0.25 };
        let device = DeviceView {
            name: "drive".to_owned(),
            policy: "deadline".to_owned(),
            service_ns: 10_000_000,
            allowance: 4,
            parallel_ratio: 1.0,
            in_device: 1,
            waiting: 2,
            requests: 3,
            busy_ns: None,
            bypass: Some(bypass),
        };
        let owner = |number: u64| Owner {
            number,
            target: Target::Process { pid: number as u32 },
            name: "cat".to_owned(),
            rate: Some(Rate::Percent(20)),
            best_effort: false,
            ideal_ns: Some(50_000_000),
            ios: 7,
            late: 1,
            mean_ns: 50_100_000,
            accuracy_ratio: Some(1.002),
            cov_ratio: 0.02,
            unanswered: 1,
        };
        Reply::Seen(View { at_ns: 9, device, owners: owners.map(owner).collect(), more })
    }

    #[test]
    fn a_view_in_parts_is_put_together() {
        let control = mount(|message| match message.call {
            Call::Look { after, all: true } => view((after + 1..=100).take(7), after + 7 < 100),
            _ => panic!("{message:?}"),
        });
        let seen = control.view(true).unwrap();
        assert!(seen.owners.iter().map(|owner| owner.number).eq(1..=100) && !seen.more);
    }

    #[test]
    fn a_mount_that_goes_on_about_nobody_is_not_asked_for_ever() {
        let asked = Mutex::new(0);
        let control = mount(move |_| {
            *asked.lock().unwrap() += 1;
            assert!(*asked.lock().unwrap() < 3);
            view(std::iter::empty(), true)
        });
        assert!(!control.view(false).unwrap().more);
        // Likewise if each part is the same as the previous one.
        let asked = Mutex::new(0);
        let control = mount(move |_| {
            *asked.lock().unwrap() += 1;
            assert!(*asked.lock().unwrap() < 4);
            view(1..=5, true)
        });
        let error = control.view(false).unwrap_err();
        assert!(matches!(error, Error::Broken { .. }), "{error}");
    }

    #[test]
    fn what_is_asked_arrives_with_who_asks() {
        let control = mount(|message| {
            assert_eq!((message.version, message.asker), (PROTOCOL_VERSION, std::process::id()));
            match message.call {
                Call::Set(set) => Reply::Given { best_effort: set.best_effort },
                Call::Clear(Target::Process { pid: 7 }) => Reply::Cleared,
                Call::Clear(target) => Reply::Refused(Refusal::NoRate { what: target.to_string() }),
                Call::Look { .. } => Reply::Cleared,
                Call::Find(_) => view(1..=1, false),
            }
        });
        let target = Target::Process { pid: 7 };
        for best_effort in [false, true] {
            let set =
                Set { target: target.clone(), rate: Rate::Percent(20), best_effort, back_to_back: false };
            assert_eq!(control.set(&set).unwrap(), best_effort);
        }
        control.clear(&target).unwrap();
        assert_eq!(control.find(&target).unwrap().owners.len(), 1);
        let error = control.clear(&Target::Tree { pid: 8 }).unwrap_err();
        assert_eq!(error.to_string(), "/mnt/disk: process 8 with its descendants has no rate");
        let error = control.view(false).unwrap_err();
        assert_eq!(error.to_string(), "the mount of /mnt/disk does not answer");
    }

    #[test]
    fn who_does_not_know_such_messages_is_no_mount_of_ours() {
        for number in [25, 38] {
            let control = Control::over("/mnt", move |_| Err(io::Error::from_raw_os_error(number)));
            assert!(matches!(control.view(false).unwrap_err(), Error::NotMounted(_)));
        }
        let control = Control::over("/mnt", |_| Err(io::Error::from_raw_os_error(107)));
        assert!(matches!(control.view(false).unwrap_err(), Error::Broken { .. }));
        let control = Control::open("/proc").unwrap();
        assert!(
            control.view(false).unwrap_err().to_string().starts_with("/proc is not on a mount of sakiyomi")
        );
        assert!(matches!(Control::open("/nowhere/at/all").unwrap_err(), Error::Open { .. }));
    }

    #[test]
    fn a_name_that_is_too_long_is_not_sent() {
        let control = mount(|_| panic!("nothing is sent"));
        let target = Target::Group { path: "x".repeat(MESSAGE_BYTES) };
        assert!(matches!(control.clear(&target).unwrap_err(), Error::Broken { .. }));
    }
}
