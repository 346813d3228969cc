//! Files on an emulated drive that is mounted for one experiment.

use std::fs::{self, File};
use std::io::BufWriter;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use sakiyomi_drive::Drive;
use sakiyomi_drive::spec::DriveSpec;
use sakiyomi_io::file::file_size_max;
use sakiyomi_model::{Bytes, Device};
use sakiyomi_mount::layout::{FileId, Layout, NoSpace, Placement};
use sakiyomi_mount::{EmulatedStorage, Mounted, Options, Snapshot, mount};

use super::scratch::{MOUNT_POINT, Scratch};
use crate::progress::{Interrupted, go_on};

/// Time for which an unmount waits for the kernel to close files.
const UNMOUNT_TIMEOUT: Duration = Duration::from_secs(5);

/// A mount over a directory of its own. Dropping it unmounts, and removes the files.
pub(super) struct EmulatedDrive {
    mounted: Option<Mounted>,
    backing: PathBuf,
    directory: PathBuf,
    layout: PathBuf,
}

/// Number of no file: that of the data before the first file.
const FILLER: FileId = FileId { device: 0, inode: 0 };

impl EmulatedDrive {
    /// Mounts `drive`, with files that `fill` makes in the directory that it is given. They lie one after the other, from
    /// a share `place` of the drive on, as if they had no holes.
    ///
    /// # Errors
    /// If this machine cannot mount, or the files cannot be made.
    pub(super) fn mount(
        scratch: &Scratch,
        (drive, place): (&DriveSpec, f64),
        options: Options,
        fill: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<EmulatedDrive> {
        sakiyomi_mount::can_mount()?;
        let [backing, directory, layout] =
            ["files", MOUNT_POINT, "layout"].map(|name| scratch.path().join(name));
        let mut emulated = EmulatedDrive { mounted: None, backing, directory, layout };
        for path in [&emulated.backing, &emulated.directory] {
            fs::create_dir(path).with_context(|| format!("cannot make {}", path.display()))?;
        }
        fill(&emulated.backing)?;
        emulated.lay_out(drive, place)?;
        let layout = Some(emulated.layout.clone());
        let behind = Some(EmulatedStorage::Drive(Box::new(drive.clone())));
        let options = Options { behind, layout, go_on: || go_on().is_ok(), ..options };
        match mount(&emulated.backing, &emulated.directory, &options) {
            Err(sakiyomi_mount::Error::Interrupted) => return Err(Interrupted.into()),
            mounted => emulated.mounted = Some(mounted?),
        }
        Ok(emulated)
    }

    /// Gives the files their places. Without them a hole would be read in no time.
    fn lay_out(&self, drive: &DriveSpec, place: f64) -> Result<()> {
        let device = Drive::new(drive)?;
        let capacity = device.capacity().to_bytes(device.sector());
        let mut layout = Layout::new(capacity, Placement::Contiguous, 1);
        let no_space = |NoSpace| anyhow!("the files do not fit on a drive of {capacity}");
        layout.place(FILLER, 0, Bytes((capacity.0 as f64 * place) as u64).0).map_err(no_space)?;
        let listed = || -> std::io::Result<Vec<(PathBuf, u64, u64)>> {
            let entries = fs::read_dir(&self.backing)?.map(|entry| {
                let entry = entry?;
                let metadata = entry.metadata()?;
                Ok((entry.path(), metadata.ino(), metadata.len()))
            });
            entries.collect()
        };
        let cannot_read = || format!("cannot read {}", self.backing.display());
        let mut files = listed().with_context(cannot_read)?;
        files.sort_unstable();
        for (_, inode, bytes) in files {
            layout.place(FileId { device: 0, inode }, 0, bytes).map_err(no_space)?;
        }
        let stored = File::create(&self.layout).and_then(|file| {
            let mut file = BufWriter::new(file);
            layout.store(&mut file)?;
            file.into_inner().map(drop).map_err(std::io::IntoInnerError::into_error)
        });
        stored.with_context(|| format!("cannot write {}", self.layout.display()))
    }

    /// The mount point.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Statistics so far.
    pub(super) fn seen(&self) -> Result<Snapshot> {
        Ok(self.mounted.as_ref().context("the drive is not mounted any more")?.seen())
    }
}

impl Drop for EmulatedDrive {
    fn drop(&mut self) {
        if let Some(mounted) = self.mounted.take() {
            // A mount that is still used goes when its last user has closed its files.
            let _ = mounted.finish(UNMOUNT_TIMEOUT);
        }
        // Fails as long as something is mounted on it, as it should.
        if fs::remove_dir(&self.directory).is_ok() || !self.directory.exists() {
            let _ = fs::remove_dir_all(&self.backing);
            let _ = fs::remove_file(&self.layout);
        }
    }
}

/// Makes a file of this size that takes no room.
pub(super) fn sparse_file(path: &Path, bytes: u64) -> Result<()> {
    ensure!(bytes <= file_size_max(), "files of {bytes} bytes are not allowed here (`ulimit -f`)");
    let made = File::create_new(path).and_then(|file| file.set_len(bytes));
    made.with_context(|| format!("cannot make a file of {bytes} bytes at {}", path.display()))
}
