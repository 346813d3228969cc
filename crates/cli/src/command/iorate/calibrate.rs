//! `iorate calibrate`: measures the profile of a real device, from which the ideal times of rates follow.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use clap::Args;
use sakiyomi_io::{Access, Volume, VolumeOptions};
use sakiyomi_model::{Bytes, Nanos};
use sakiyomi_os::block_device::Disk;
use sakiyomi_os::rights::is_root;
use sakiyomi_probe::target::Device;
use sakiyomi_realtime::{
    CalibrateError, DeviceProfile, PROFILE_SCHEMA, Site, Time, calibrate, profile_directory,
    profile_file_name,
};
use sakiyomi_report::number::duration;

use crate::console::{Common, print_result, print_text};
use crate::output::OutFile;
use crate::progress::{Interrupted, Progress, go_on};

pub(super) const EXAMPLES: &str = "Examples:
  sakiyomi iorate calibrate files
  sakiyomi iorate calibrate files --time 60s --size 4GiB
  sakiyomi iorate calibrate disk.img --profile disk.json
";

/// Bytes written at a time into the file that is measured.
const FILL_BYTES: usize = 1 << 20;
/// Size of the part of that file that is overwritten.
const WRITTEN_BYTES: u64 = 256 << 20;
/// Steps of the progress.
const PROGRESS_STEPS: u64 = 100;

/// Measure the service times of a device, so that its rates are constant.
#[derive(Debug, Args)]
#[command(
    after_help = "mount --regulate and serve --regulate then use the profile: the ideal time of an access depends on its \
        size and operation alone, and only rates that can be kept are granted. Of a directory, a file without a name is \
        written and measured, and on a hard disk, if sakiyomi may, the whole disk is read. Of a FILE or a DEVICE, reads \
        are measured, and writes are assumed to take as long. Nothing else should use the device meanwhile."
)]
pub(crate) struct Calibrate {
    /// The directory that is to be mounted, or the file or block device that is to be served
    #[arg(value_name = "DIR|FILE|DEVICE")]
    path: PathBuf,
    /// Time to measure for, besides writing the file
    #[arg(long, value_name = "TIME", default_value = "20s")]
    time: Nanos,
    /// Size of the file that is written into a directory
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    size: Bytes,
    /// Write the profile to this file [default: the one that mount and serve load for this device]
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
}

impl Calibrate {
    pub(super) fn run(&self, common: &Common) -> Result<()> {
        let device =
            Device::of(&self.path).with_context(|| format!("cannot open {}", self.path.display()))?;
        ensure!(self.time >= Nanos::SECOND, "--time {}: give at least 1s", self.time);
        let path = self.destination(&device)?;
        let file = OutFile::create(&path)?;
        let mut progress = Progress::new(Some(PROGRESS_STEPS), common.quiet);
        let (site, what) = self.site(&mut progress)?;
        let measured_bytes = site.reads.size();
        ensure!(
            site.reads.is_direct() || site.reads.is_in_memory(),
            "{}: its file system has no direct I/O, so the times would be those of the page cache",
            self.path.display()
        );
        let time = Duration::from_nanos(self.time.0);
        let measured = calibrate(site, time, |done| {
            progress.set((done * PROGRESS_STEPS as f64) as u64, || "measuring".to_owned()).is_ok()
                && go_on().is_ok()
        });
        let (profile, error) = match measured {
            Err(CalibrateError::Cancelled) => return Err(Interrupted.into()),
            measured => measured.with_context(|| format!("cannot measure {}", self.path.display()))?,
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let found = DeviceProfile::new(&profile, error, device, now);
        file.write(found.to_json().as_bytes())?;
        if common.json {
            return print_result(PROFILE_SCHEMA, &found);
        }
        print_text(&describe(&found, &format!("{} of {what}", Bytes(measured_bytes)), &path))
    }

    /// Returns the file of the profile.
    fn destination(&self, device: &Device) -> Result<PathBuf> {
        if let Some(path) = &self.profile {
            return Ok(path.clone());
        }
        let directory = profile_directory().context("HOME is not set; name a file with --profile")?;
        fs::create_dir_all(&directory)
            .with_context(|| format!("cannot create the directory {}", directory.display()))?;
        Ok(directory.join(profile_file_name(device)))
    }

    /// Opens what is to be measured, and says what it is.
    fn site(&self, progress: &mut Progress) -> Result<(Site, String)> {
        let name = self.path.display();
        if !self.path.is_dir() {
            return Ok((Site { reads: read_only(&self.path)?, writes: None }, name.to_string()));
        }
        let disk = hard_disk(&self.path);
        let size = if disk.is_some() { WRITTEN_BYTES } else { self.size.0.max(WRITTEN_BYTES) };
        let file = self.filled(size, progress)?;
        if let Some((disk, reads)) = disk {
            return Ok((Site { reads, writes: Some(file) }, format!("the disk {disk}")));
        }
        let writes = Some(self.filled(WRITTEN_BYTES, progress)?);
        Ok((Site { reads: file, writes }, format!("a file in {name}")))
    }

    /// Creates a file without a name, with data: what has none is read without the device.
    fn filled(&self, size: u64, progress: &mut Progress) -> Result<Volume> {
        let path = self.path.join(format!(".sakiyomi-calibrate-{}", std::process::id()));
        let failed = || format!("cannot write a file in {}", self.path.display());
        let created = OpenOptions::new().read(true).write(true).create_new(true).open(&path);
        let created: File = created.with_context(failed)?;
        let opened = created.set_len(size).map_err(Into::into).and_then(|()| {
            Ok(Volume::open(&path, VolumeOptions { access: Access::Direct, read_only: false })?)
        });
        fs::remove_file(&path).with_context(failed)?;
        let volume = opened.map_err(|error: anyhow::Error| error.context(failed()))?;
        fill(&volume, progress).with_context(failed)?;
        Ok(volume)
    }
}

/// Opens a file or a block device for reading.
fn read_only(path: &Path) -> Result<Volume> {
    Ok(Volume::open(path, VolumeOptions { access: Access::Direct, read_only: true })?)
}

/// Returns the hard disk of a directory, if it is on one that this process may read. Other devices return what was never
/// written without reading it, so only files tell their times.
fn hard_disk(directory: &Path) -> Option<(String, Volume)> {
    use std::os::unix::fs::MetadataExt;
    let disk =
        Disk::of(fs::metadata(directory).ok()?.dev()).filter(|disk| is_root() && disk.is_rotational())?;
    let name = disk.name();
    let volume = read_only(&Path::new("/dev").join(&name)).ok()?;
    Some((name, volume))
}

/// Writes incompressible data.
fn fill(volume: &Volume, progress: &mut Progress) -> Result<()> {
    let mut block = vec![0; FILL_BYTES];
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    for offset in (0..volume.size()).step_by(FILL_BYTES) {
        for word in block.as_chunks_mut::<8>().0 {
            // Marsaglia's xorshift.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            *word = state.to_le_bytes();
        }
        let size = (volume.size() - offset).min(FILL_BYTES as u64) as usize;
        volume.write(offset, &block[..size])?;
        progress.set(0, || format!("writing a file of {}", Bytes(volume.size())))?;
    }
    Ok(volume.sync()?)
}

/// Describes a profile to people.
fn describe(found: &DeviceProfile, what: &str, path: &Path) -> String {
    let row = |times: &[Time; 4]| {
        times.iter().map(|one| format!("{:>10}", duration(one.mean_ns as u64))).collect::<String>()
    };
    let name = if found.device.name.is_empty() { &found.device.number } else { &found.device.name };
    let serves = if found.serves_several() {
        "It serves several requests at once"
    } else {
        "It serves one request after another"
    };
    let rates = match found.largest_rate_percent() {
        Some(percent) => format!("rates up to {percent} % can be kept beside anything"),
        None => "no rate can be kept".to_owned(),
    };
    format!(
        "{name}: random accesses to {what}\n\n             4 KiB    64 KiB   256 KiB     1 MiB\nreads   {}\nwrites  {}\n\n\
         {serves}; {rates}. The error is about {:.0} %.\nprofile: {}\n",
        row(&found.reads),
        row(&found.writes),
        found.error_ratio * 100.0,
        path.display()
    )
}
