//! `iorate set` and `iorate clear`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::Args;
use sakiyomi_iorate::protocol::{Rate, Set, Target};
use sakiyomi_iorate::{Control, Error};
use sakiyomi_model::Nanos;
use sakiyomi_report::{IorateResult, text};

use super::{Words, emit, found, give, warn};
use crate::console::{Common, print_error};

pub(super) const SET_EXAMPLES: &str = "Examples:
  sakiyomi iorate set 4711 /mnt/disk 20
  sakiyomi iorate set 4711 /mnt/disk --every 40ms --best-effort
  sakiyomi iorate set 4711 /mnt/disk 20 --children
  sakiyomi iorate set --group /batch /mnt/disk 10
";

pub(super) const SET_USAGE: &str = "sakiyomi iorate set PID DIR PERCENT|--every TIME
       sakiyomi iorate set --group CGROUP DIR PERCENT|--every TIME";

pub(super) const CLEAR_EXAMPLES: &str = "Examples:
  sakiyomi iorate clear 4711 /mnt/disk
  sakiyomi iorate clear --group /batch /mnt/disk
  sakiyomi iorate clear --all /mnt/disk
";

pub(super) const CLEAR_USAGE: &str = "sakiyomi iorate clear PID DIR
       sakiyomi iorate clear --group CGROUP DIR
       sakiyomi iorate clear --all DIR";

/// Set the rate of a process.
#[derive(Debug, Args)]
#[command(
    after_help = "The directory must be mounted with `sakiyomi mount --regulate`. Only root and the owner of the process \
        may set a rate. It ends when the process exits."
)]
pub(crate) struct Give {
    /// The process ID, any file or directory of the mount, and the percentage of the device (1 to 100)
    #[arg(required = true, num_args = 1..=3, value_names = ["PID", "DIR", "PERCENT"])]
    words: Vec<OsString>,
    /// Time that each I/O is to take, instead of a percentage
    #[arg(long, value_name = "TIME")]
    every: Option<Nanos>,
    /// Include all descendants of the process, which share the rate
    #[arg(long, conflicts_with = "group")]
    children: bool,
    /// A control group, as named in /proc/PID/cgroup, and those below it, instead of a process
    #[arg(long, value_name = "CGROUP")]
    group: Option<String>,
    /// Accept the rate even if it cannot be guaranteed
    #[arg(long)]
    best_effort: bool,
    /// Expect each I/O at once after the last one, as of one thread that only reads: larger rates can then be kept
    #[arg(long)]
    back_to_back: bool,
}

impl Give {
    pub(super) fn run(&self, common: &Common) -> Result<()> {
        let (directory, set) = self.asked()?;
        let result = given(&Control::open(directory)?, &set)?;
        emit(&result, common, |result| describe("", result))?;
        if !common.quiet {
            warn(&result);
        }
        Ok(())
    }

    fn asked(&self) -> Result<(PathBuf, Set)> {
        let mut words = Words::new(&self.words, SET_USAGE.lines().next().unwrap_or_default());
        let target = match &self.group {
            Some(group) => Target::Group { path: checked(group)? },
            None if self.children => Target::Tree { pid: words.pid()? },
            None => Target::Process { pid: words.pid()? },
        };
        let directory = words.directory()?;
        let rate: Rate = words.rate(self.every)?;
        words.end()?;
        Ok((directory, Set { target, rate, best_effort: self.best_effort, back_to_back: self.back_to_back }))
    }
}

/// Sets a rate; returns its present consequences.
fn given(control: &Control, set: &Set) -> Result<IorateResult> {
    give(control, set)?;
    found(control, &set.target)
}

fn describe(before: &str, result: &IorateResult) -> String {
    let lines = result.owners.iter().map(|owner| format!("{before}{}", text::iorate_owner(owner)));
    lines.collect::<Vec<_>>().join("\n")
}

fn checked(group: &str) -> Result<String> {
    ensure!(
        group.starts_with('/') && !group.starts_with("/sys/fs/cgroup/"),
        "--group {group}: give the name in /proc/PID/cgroup, such as /batch"
    );
    Ok(group.to_owned())
}

/// Remove a rate.
#[derive(Debug, Args)]
pub(crate) struct Clear {
    /// The process ID, and any file or directory of the mount
    #[arg(required = true, num_args = 1..=2, value_names = ["PID", "DIR"])]
    words: Vec<OsString>,
    /// A control group, instead of a process
    #[arg(long, value_name = "CGROUP")]
    group: Option<String>,
    /// All rates of the mount
    #[arg(long, conflicts_with = "group")]
    all: bool,
}

impl Clear {
    pub(super) fn run(&self, common: &Common) -> Result<ExitCode> {
        let (directory, whose) = self.asked()?;
        let cleared = cleared(&Control::open(directory)?, &whose)?;
        emit(&cleared.result, common, |_| cleared.describe())?;
        for error in &cleared.refused {
            print_error(&error.to_string());
        }
        Ok(if cleared.refused.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(2) })
    }

    fn asked(&self) -> Result<(PathBuf, ClearScope)> {
        let mut words = Words::new(&self.words, CLEAR_USAGE.lines().next().unwrap_or_default());
        let whose = match &self.group {
            Some(group) => ClearScope::Group(checked(group)?),
            None if self.all => ClearScope::All,
            None => ClearScope::Process(words.pid()?),
        };
        let directory = words.directory()?;
        words.end()?;
        Ok((directory, whose))
    }
}

/// The owners whose rates are removed.
enum ClearScope {
    /// A process, or the tree that begins with it.
    Process(u32),
    Group(String),
    All,
}

impl ClearScope {
    fn is(&self, target: &Target) -> bool {
        match (self, target) {
            (ClearScope::All, _) => true,
            (ClearScope::Process(number), Target::Process { pid } | Target::Tree { pid }) => number == pid,
            (ClearScope::Group(name), Target::Group { path }) => name == path,
            _ => false,
        }
    }

    /// Returns the target to query if none of them has a rate, so that the mount reports the reason.
    fn target(&self) -> Option<Target> {
        match self {
            ClearScope::Process(pid) => Some(Target::Process { pid: *pid }),
            ClearScope::Group(path) => Some(Target::Group { path: path.clone() }),
            ClearScope::All => None,
        }
    }
}

struct Cleared {
    /// The owners whose rates were removed, in their state at that time.
    result: IorateResult,
    refused: Vec<Error>,
}

impl Cleared {
    fn describe(&self) -> String {
        match (self.result.owners.is_empty(), self.refused.is_empty()) {
            (true, true) => "No process had a rate.".to_owned(),
            (true, false) => "No rate was removed.".to_owned(),
            (false, _) => describe("cleared: ", &self.result),
        }
    }
}

/// Removes rates.
fn cleared(control: &Control, whose: &ClearScope) -> Result<Cleared> {
    let mut view = control.view(false)?;
    view.owners.retain(|owner| owner.rate.is_some() && whose.is(&owner.target));
    if view.owners.is_empty()
        && let Some(target) = whose.target()
    {
        control.clear(&target)?;
    }
    let mut refused = Vec::new();
    view.owners.retain(|owner| control.clear(&owner.target).map_err(|error| refused.push(error)).is_ok());
    Ok(Cleared { result: super::result::result(control.path(), &view, None), refused })
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use clap::Parser;
    use sakiyomi_iorate::protocol::{Call, Refusal, Reply};

    use super::super::canned::{mount, owner, view};
    use super::*;

    #[derive(Parser)]
    struct SetLine {
        #[command(flatten)]
        give: Give,
    }

    #[derive(Parser)]
    struct ClearLine {
        #[command(flatten)]
        clear: Clear,
    }

    fn set(line: &str) -> Result<(PathBuf, Set)> {
        SetLine::try_parse_from(format!("set {line}").split_whitespace())?.give.asked()
    }

    #[test]
    fn who_where_and_what_are_told_apart() {
        let process = Target::Process { pid: 7 };
        let percent = |target: &Target, percent| Set {
            target: target.clone(),
            rate: Rate::Percent(percent),
            best_effort: false,
            back_to_back: false,
        };
        assert_eq!(set("7 /mnt 20").unwrap(), ("/mnt".into(), percent(&process, 20)));
        assert_eq!(set("7 /mnt 20%").unwrap(), ("/mnt".into(), percent(&process, 20)));
        assert_eq!(set("7 /mnt 1 --children").unwrap().1, percent(&Target::Tree { pid: 7 }, 1));
        let group = Target::Group { path: "/batch".to_owned() };
        assert_eq!(set("--group /batch /mnt 100").unwrap(), ("/mnt".into(), percent(&group, 100)));
        let every = Set { rate: Rate::EveryNs(40_000_000), best_effort: true, ..percent(&process, 1) };
        assert_eq!(set("7 /mnt --every 40ms --best-effort").unwrap(), ("/mnt".into(), every));
    }

    #[test]
    fn what_cannot_be_is_refused_in_a_sentence() {
        for (line, sentence) in [
            ("7 /mnt", "PERCENT (or --every TIME) is missing; write: sakiyomi iorate set PID DIR"),
            ("7", "DIR is missing; write"),
            ("tar /mnt 20", "tar is not a process ID; write"),
            ("0 /mnt 20", "0 is not a process ID"),
            ("7 /mnt 0", "a rate of 0 is not possible; give 1 to 100"),
            ("7 /mnt 101", "a rate of 101 is not possible"),
            ("7 /mnt 2.5", "a rate of 2.5 is not possible"),
            ("7 /mnt 20 --every 40ms", "unexpected argument 20; write"),
            ("7 /mnt --every 0s", "--every 0: an I/O cannot take no time"),
            ("--group /batch 7 /mnt 20", "a rate of /mnt is not possible"),
            ("--group batch /mnt 20", "--group batch: give the name in /proc/PID/cgroup"),
            ("--group /sys/fs/cgroup/batch /mnt 20", "give the name in /proc/PID/cgroup"),
        ] {
            let error = set(line).unwrap_err().to_string();
            assert!(error.contains(sentence) && error.lines().count() == 1, "{line}: {error}");
        }
    }

    #[test]
    fn a_rate_that_is_given_is_told_with_what_it_means() {
        let target = Target::Process { pid: 7 };
        let control = mount(move |call| match call {
            Call::Set(set) => Reply::Given { best_effort: set.best_effort },
            Call::Find(target) => Reply::Seen(view(vec![owner(2, target)])),
            other => panic!("{other:?}"),
        });
        let result = given(&control, &Set::new(target, Rate::Percent(20))).unwrap();
        let text = describe("", &result);
        assert!(
            text.starts_with("process 7 (cat): 20 %, ideal 50.0 ms") && text.lines().count() == 1,
            "{text}"
        );
    }

    #[test]
    fn a_rate_that_has_no_room_is_refused_with_what_can_be_done() {
        let words = "60 % cannot be kept; 45 % can".to_owned();
        let control = mount(move |_| {
            let (best_percent, best_every_ns) = (Some(45), None);
            Reply::Refused(Refusal::NoRoom { words: words.clone(), best_percent, best_every_ns })
        });
        let set = Set {
            target: Target::Process { pid: 7 },
            rate: Rate::Percent(60),
            best_effort: false,
            back_to_back: false,
        };
        let error = format!("{:#}", given(&control, &set).unwrap_err());
        assert!(
            error.ends_with("60 % cannot be kept; 45 % can; --best-effort accepts it without a guarantee"),
            "{error}"
        );
    }

    /// Returns a mount of a process, a tree and a group, the last another user's; and the removed targets.
    fn three() -> (Control, Arc<Mutex<Vec<Target>>>) {
        let group = Target::Group { path: "/batch".to_owned() };
        let targets = [Target::Process { pid: 7 }, Target::Tree { pid: 8 }, group];
        let owners = targets.into_iter().zip(1..).map(|(target, number)| owner(number, target));
        let there = view(owners.collect());
        let cleared = Arc::new(Mutex::new(Vec::new()));
        let taken = Arc::clone(&cleared);
        let control = mount(move |call| match call {
            Call::Clear(target @ Target::Group { .. }) => {
                Reply::Refused(Refusal::NotYours { what: target.to_string() })
            }
            Call::Clear(target) if there.owners.iter().any(|owner| owner.target == target) => {
                taken.lock().unwrap().push(target);
                Reply::Cleared
            }
            Call::Clear(target) => Reply::Refused(Refusal::NoRate { what: target.to_string() }),
            Call::Look { .. } => Reply::Seen(there.clone()),
            other => panic!("{other:?}"),
        });
        (control, cleared)
    }

    #[test]
    fn a_tree_is_cleared_by_the_number_of_its_first() {
        let whose = |line: &str| {
            let line = format!("clear {line}");
            ClearLine::try_parse_from(line.split_whitespace()).unwrap().clear.asked().unwrap().1
        };
        let (control, taken) = three();
        let done = cleared(&control, &whose("8 /mnt")).unwrap();
        assert_eq!(*taken.lock().unwrap(), [Target::Tree { pid: 8 }]);
        assert_eq!((done.result.owners.len(), done.refused.len()), (1, 0));
        let Err(error) = cleared(&control, &whose("9 /mnt")) else { panic!("nobody has that number") };
        assert_eq!(error.to_string(), "/mnt/disk: process 9 has no rate");
    }

    #[test]
    fn of_all_those_that_are_not_ours_are_left_and_told() {
        let (control, taken) = three();
        let done = cleared(&control, &ClearScope::All).unwrap();
        assert_eq!((taken.lock().unwrap().len(), done.result.owners.len()), (2, 2));
        assert!(done.describe().lines().all(|line| line.starts_with("cleared: process")));
        assert!(done.refused[0].to_string().contains("control group /batch belongs to another user"));
        // The reply must not deny that a rate existed.
        let done = cleared(&control, &ClearScope::Group("/batch".to_owned())).unwrap();
        assert_eq!((done.describe().as_str(), done.refused.len()), ("No rate was removed.", 1));
    }
}
