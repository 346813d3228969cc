//! `daemon`: prefetching for all processes of a machine that wait for I/O.

mod protocol;
mod supervisor;
mod worker;

use std::fs;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, Subcommand};
use sakiyomi_model::Bytes;
use sakiyomi_os::process::is_of_our_namespace;
use sakiyomi_os::rights;
use sakiyomi_report::prometheus;
use sakiyomi_report::result::DaemonStatus;

use crate::args::HELP;
use crate::console::{Common, note, print_result, print_text};

pub(crate) const EXAMPLES: &str = "Examples:
  sakiyomi daemon start
  sakiyomi daemon start --cgroup /system.slice/batch.service --memory 2GiB
  sakiyomi daemon status
  sakiyomi daemon unit > /etc/systemd/system/sakiyomi.service
";

const START_EXAMPLES: &str = "Examples:
  sakiyomi daemon start
  sakiyomi daemon start --cgroup /system.slice/batch.service --memory 2GiB
";
const STATUS_EXAMPLES: &str = "Examples:
  sakiyomi daemon status
  sakiyomi daemon status --prometheus
";
const UNIT_EXAMPLES: &str = "Examples:
  sakiyomi daemon unit > /etc/systemd/system/sakiyomi.service
";

/// The directory of control groups: of version 2 itself, of version 1 one below it for each controller.
const CGROUP_ROOT: &str = "/sys/fs/cgroup";

/// Schema of `daemon status --json`.
const STATUS_SCHEMA: &str = "sakiyomi.daemon-status/1";

/// Prefetch for the processes of this machine that wait for I/O.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Follow every process that waits for I/O, until Ctrl-C or SIGTERM
    ///
    /// As root, the processes of all users are followed, each by a worker process with the user and groups of that process.
    /// As another user, those of this user are followed. Programs that `sakiyomi run` has started are left to it. Prefetched
    /// pages count as memory of the daemon's control group.
    #[command(help_template = HELP, before_help = START_EXAMPLES)]
    Start(Start),
    /// Show which processes the daemon follows, and what it has prefetched
    #[command(help_template = HELP, before_help = STATUS_EXAMPLES)]
    Status(Status),
    /// Print a unit file for systemd
    #[command(help_template = HELP, before_help = UNIT_EXAMPLES)]
    Unit,
}

/// Arguments of `daemon start`.
#[derive(Debug, Args)]
pub(crate) struct Start {
    /// Limit of the memory for data prefetched for all processes together [default: a quarter of the available memory]
    #[arg(long, value_name = "SIZE")]
    memory: Option<Bytes>,
    /// Follow only processes in this control group or below it, such as /system.slice/batch.service; may be repeated
    #[arg(long, value_name = "PATH")]
    cgroup: Vec<String>,
    /// Neither record what commands wait for at their start nor use what was recorded
    #[arg(long)]
    no_learn: bool,
    /// Run as a worker of a daemon, which it starts itself
    #[arg(long, hide = true)]
    worker: bool,
    #[command(flatten)]
    socket: Socket,
}

/// Arguments of `daemon status`.
#[derive(Debug, Args)]
pub(crate) struct Status {
    /// Print the text format of Prometheus
    #[arg(long)]
    prometheus: bool,
    #[command(flatten)]
    socket: Socket,
}

/// The socket on which the daemon answers.
#[derive(Debug, Args)]
struct Socket {
    /// The socket on which the daemon answers [default: /run/sakiyomi/daemon.sock for root, otherwise $XDG_RUNTIME_DIR/sakiyomi-daemon.sock]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

impl Command {
    pub(crate) fn run(&self, common: &Common) -> Result<ExitCode> {
        match self {
            Command::Start(start) => start.run(),
            Command::Status(status) => status.run(common),
            Command::Unit => {
                print_text(&unit(
                    &std::env::current_exe().context("cannot determine the path of this program")?,
                ))?;
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

/// Returns whether a control group exists in any hierarchy, or cannot be looked for because none is mounted.
fn may_exist(group: &str) -> bool {
    let Ok(hierarchies) = fs::read_dir(CGROUP_ROOT) else { return true };
    let below = |root: PathBuf| root.join(group.trim_start_matches('/')).is_dir();
    let mut hierarchies = hierarchies.flatten().peekable();
    hierarchies.peek().is_none()
        || below(CGROUP_ROOT.into())
        || hierarchies.any(|hierarchy| below(hierarchy.path()))
}

impl Start {
    fn run(&self) -> Result<ExitCode> {
        if self.worker {
            return worker::run();
        }
        ensure!(
            is_of_our_namespace(),
            "/proc shows the processes of another PID namespace; mount the /proc of this one"
        );
        for group in &self.cgroup {
            ensure!(
                group.starts_with('/'),
                "--cgroup {group}: the path of a control group starts with /, as in /proc/PID/cgroup"
            );
            if !may_exist(group) {
                note(&format!(
                    "no control group is called {group}; its processes are followed when it exists"
                ));
            }
        }
        let path = self.socket.path()?;
        let listener = listen(&path)?;
        supervisor::run(supervisor::Settings {
            memory: self.memory.map(|bytes| bytes.0),
            groups: self.cgroup.clone(),
            learn: !self.no_learn,
            socket: Some((listener, path)),
        })
    }
}

impl Status {
    fn run(&self, common: &Common) -> Result<ExitCode> {
        let status = ask(&self.socket.path()?)?;
        match () {
            () if self.prometheus => print_text(prometheus::daemon(&status).trim_end())?,
            () if common.json => print_result(STATUS_SCHEMA, &status)?,
            () => print_text(&status.text())?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Socket {
    fn path(&self) -> Result<PathBuf> {
        if let Some(path) = &self.socket {
            return Ok(path.clone());
        }
        if rights::is_root() {
            return Ok(PathBuf::from("/run/sakiyomi/daemon.sock"));
        }
        let Some(directory) = std::env::var_os("XDG_RUNTIME_DIR") else {
            bail!("no default for the daemon's socket: XDG_RUNTIME_DIR is not set; give --socket PATH");
        };
        Ok(PathBuf::from(directory).join("sakiyomi-daemon.sock"))
    }
}

/// Listens on a socket that only its user can connect to. A socket that a daemon has left behind is replaced.
fn listen(path: &Path) -> Result<UnixListener> {
    let cannot = || format!("cannot listen on {}", path.display());
    if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        std::fs::create_dir_all(directory).with_context(cannot)?;
    }
    if let Ok(found) = std::fs::symlink_metadata(path) {
        ensure!(
            found.file_type().is_socket(),
            "{} exists and is not a socket; give another --socket",
            path.display()
        );
        ensure!(
            UnixStream::connect(path).is_err(),
            "a daemon is already running on {}; `sakiyomi daemon status` shows it",
            path.display()
        );
        std::fs::remove_file(path).with_context(cannot)?;
    }
    let listener = UnixListener::bind(path).with_context(cannot)?;
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o600)).with_context(cannot)?;
    Ok(listener)
}

/// Asks the daemon for its status.
fn ask(path: &Path) -> Result<DaemonStatus> {
    /// Time for an answer.
    const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
    let mut stream = match UnixStream::connect(path) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
            bail!("no daemon answers on {}; start one with `sakiyomi daemon start`", path.display())
        }
        stream => stream.with_context(|| format!("cannot connect to {}", path.display()))?,
    };
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    let mut text = Vec::new();
    stream
        .read_to_end(&mut text)
        .with_context(|| format!("the daemon on {} does not answer", path.display()))?;
    serde_json::from_slice(&text)
        .with_context(|| format!("the answer on {} is not that of a sakiyomi daemon", path.display()))
}

/// Returns the unit file for systemd.
fn unit(program: &Path) -> String {
    format!(
        "[Unit]
Description=Prefetching for processes that wait for I/O
Documentation=man:sakiyomi-daemon(1)

[Service]
ExecStart=\"{}\" daemon start
TasksMax=4096
RuntimeDirectory=sakiyomi
Restart=on-failure
RestartSec=10
# Only what it does for other processes: inspect them, and take on their credentials. Settings with a mount namespace of its
# own, such as ProtectSystem=, would hide from it which files a command reads at its start.
CapabilityBoundingSet=CAP_SYS_PTRACE CAP_DAC_READ_SEARCH CAP_SETUID CAP_SETGID
NoNewPrivileges=yes
# Prefetched pages count as memory of this unit: with a lower limit they are evicted before they are read.
MemoryAccounting=yes

[Install]
WantedBy=multi-user.target",
        program.display().to_string().replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%")
    )
}
