//! Counters of disks, and the identity of block devices (`/sys/dev/block`).

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::mounts::MountTable;

/// A whole disk.
#[derive(Debug)]
pub struct Disk {
    directory: PathBuf,
}

impl Disk {
    /// Returns the disk of a file system, given the device number (`st_dev`) of the disk or of a partition; `None`
    /// for a file system on several disks, or on none.
    #[must_use]
    pub fn of(device: u64) -> Option<Disk> {
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let directory = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
        let whole = if directory.join("partition").exists() { directory.parent()? } else { &directory };
        Some(Disk { directory: whole.to_owned() })
    }

    /// Returns its name in `/dev`.
    #[must_use]
    pub fn name(&self) -> String {
        self.directory.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Returns the number of reads and writes that the disk has completed since it was found.
    ///
    /// # Errors
    /// If the disk has been removed.
    pub fn completed(&self) -> io::Result<u64> {
        let text = fs::read_to_string(self.directory.join("stat"))?;
        completed_of(&text).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Returns whether it is a hard disk.
    #[must_use]
    pub fn is_rotational(&self) -> bool {
        read_trimmed(&self.directory.join("queue/rotational")).is_some_and(|text| text == "1")
    }

    /// Returns the maximum size of a request in bytes, if the kernel reports it.
    #[must_use]
    pub fn request_max_bytes(&self) -> Option<u64> {
        let text = read_trimmed(&self.directory.join("queue/max_sectors_kb"))?;
        text.parse::<u64>().ok()?.checked_mul(1024)
    }
}

/// A block device, or the number of a file system without one (tmpfs, btrfs).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockDevice {
    /// `MAJOR:MINOR`.
    pub number: String,
    /// The kernel's name: `nvme0n1p2`; empty if the device does not exist.
    pub name: String,
    /// Model name of the drive; empty if it has none, as most virtual disks.
    pub model: String,
}

impl BlockDevice {
    /// Returns the device of a number, such as `st_dev` of a file on it or `st_rdev` of its node.
    #[must_use]
    pub fn of_number(number: u64) -> BlockDevice {
        let number = format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number));
        let Ok(found) = fs::canonicalize(format!("/sys/dev/block/{number}")) else {
            return BlockDevice { number, ..BlockDevice::default() };
        };
        let name = found.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        // The model of a partition is listed with its disk.
        let models = [Some(found.as_path()), found.parent()].into_iter().flatten();
        let model = models.filter_map(model).next().unwrap_or_default();
        BlockDevice { number, name, model }
    }
}

/// A block device, or a part of one, as the kernel addresses its requests: by its disk and sectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskPart {
    /// The kernel's name of the device: `sda1`.
    pub name: String,
    /// Major and minor number of the whole disk.
    pub disk: (u32, u32),
    /// The kernel's name of the whole disk: `sda`.
    pub disk_name: String,
    /// First sector of 512 bytes and number of sectors of a partition; `None` for a whole disk.
    pub sectors: Option<(u64, u64)>,
    /// The kernel's names of the devices below, of device-mapper and md.
    pub below: Vec<String>,
    /// Whether the driver takes requests, rather than bios as those of zram, pmem, device-mapper and md.
    pub takes_requests: bool,
}

impl DiskPart {
    /// Returns the device of a path: of a block device's node, or of the file system on which a file or directory lies.
    ///
    /// # Errors
    /// The reason, as a clause, if the path or its device does not exist.
    pub fn of_path(path: &Path) -> Result<DiskPart, String> {
        let stat = fs::metadata(path).map_err(|error| error.to_string())?;
        if stat.file_type().is_block_device() {
            return DiskPart::of_number(stat.rdev())
                .ok_or_else(|| "the kernel does not know its device".to_owned());
        }
        let of_source = || {
            // File systems with numbers of their own, such as btrfs, name their device as the source of the mount.
            let table = MountTable::read().ok()?;
            let absolute = fs::canonicalize(path).ok()?;
            let mount = table.on(&absolute).or_else(|| table.above(&absolute))?;
            let source = Path::new(mount.source);
            let node = source.is_absolute().then(|| fs::metadata(source).ok())??;
            node.file_type().is_block_device().then(|| DiskPart::of_number(node.rdev()))?
        };
        DiskPart::of_number(stat.dev()).or_else(of_source).ok_or_else(|| {
            "it is neither a block device nor on one: its file system is in memory, on a network, or of a program".to_owned()
        })
    }

    /// Returns the device of a number, such as `st_rdev` of its node; `None` if there is none.
    #[must_use]
    pub fn of_number(number: u64) -> Option<DiskPart> {
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        DiskPart::of_directory(&fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?)
    }

    /// Returns the device of a directory of sysfs.
    fn of_directory(directory: &Path) -> Option<DiskPart> {
        let is_partition = directory.join("partition").exists();
        let whole = if is_partition { directory.parent()? } else { directory };
        let name = |directory: &Path| Some(directory.file_name()?.to_string_lossy().into_owned());
        let disk = read_trimmed(&whole.join("dev"))?;
        let (major, minor) = disk.split_once(':')?;
        let below = fs::read_dir(whole.join("slaves")).into_iter().flatten().flatten();
        let mut below: Vec<String> =
            below.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        below.sort();
        // Before Linux 5.0 there were queues of requests without `mq`; bios have no scheduler to choose.
        let takes_requests = whole.join("mq").exists()
            || read_trimmed(&whole.join("queue/scheduler")).is_some_and(|text| text.contains('['));
        let number = |file: &str| read_trimmed(&directory.join(file))?.parse().ok();
        let sectors = if is_partition { Some((number("start")?, number("size")?)) } else { None };
        Some(DiskPart {
            name: name(directory)?,
            disk: (major.parse().ok()?, minor.parse().ok()?),
            disk_name: name(whole)?,
            sectors,
            below,
            takes_requests,
        })
    }
}

fn model(device: &Path) -> Option<String> {
    read_trimmed(&device.join("device/model")).filter(|model| !model.is_empty())
}

fn read_trimmed(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

/// Parses `stat`: the first field counts reads, the fifth writes (Documentation/block/stat.rst).
fn completed_of(text: &str) -> Option<u64> {
    let mut numbers = text.split_ascii_whitespace().map(|number| number.parse::<u64>().ok());
    numbers.next()??.checked_add(numbers.nth(3)??)
}

#[cfg(test)]
mod tests {
    use sakiyomi_testing::Scratch;

    use super::*;

    #[test]
    fn reads_and_writes_are_counted_and_nothing_else() {
        let text = "    9 1 2 3    40 5 6 7    0 8 9    0    0    0    0  100 1\n";
        assert_eq!(completed_of(text), Some(49));
        assert_eq!(completed_of("9 1 2"), None);
    }

    #[test]
    fn what_lies_on_no_disk_has_none() {
        let proc = rustix::fs::stat("/proc").unwrap();
        assert!(Disk::of(proc.st_dev).is_none());
    }

    #[test]
    fn devices_are_parts_of_disks() {
        assert!(
            DiskPart::of_path(Path::new("/proc/self"))
                .unwrap_err()
                .contains("neither a block device nor on one")
        );
        assert!(DiskPart::of_path(Path::new("/no/such/path")).unwrap_err().contains("No such file"));
        for entry in fs::read_dir("/sys/dev/block").into_iter().flatten().flatten() {
            let number = entry.file_name().into_string().unwrap();
            let (major, minor) = number.split_once(':').unwrap();
            let device = (major.parse().unwrap(), minor.parse().unwrap());
            let found = DiskPart::of_number(rustix::fs::makedev(device.0, device.1)).unwrap();
            assert_eq!(found.sectors.is_some(), found.name != found.disk_name, "{found:?}");
            assert_eq!(found.sectors.is_none(), found.disk == device, "{found:?}");
            let has_bios = found.name.starts_with("zram") || found.name.starts_with("pmem");
            assert!(!(has_bios && found.takes_requests), "{found:?}");
            let has_requests = found.name.starts_with("loop") || found.name.starts_with("vd");
            assert!(!has_requests || found.takes_requests, "{found:?}");
        }
    }

    #[test]
    fn a_partition_lies_on_what_its_disk_lies_on() {
        let scratch = Scratch::new("block_device");
        let part = scratch.path("md0/md0p1");
        for directory in [&part, &scratch.path("md0/slaves/sdb"), &scratch.path("md0/slaves/sda")] {
            fs::create_dir_all(directory).unwrap();
        }
        for (file, text) in [
            ("dev", "9:0"),
            ("md0p1/dev", "259:0"),
            ("md0p1/partition", "1"),
            ("md0p1/start", "2048"),
            ("md0p1/size", "64"),
        ] {
            fs::write(scratch.path("md0").join(file), format!("{text}\n")).unwrap();
        }
        let wanted = DiskPart {
            name: "md0p1".to_owned(),
            disk: (9, 0),
            disk_name: "md0".to_owned(),
            sectors: Some((2048, 64)),
            below: vec!["sda".to_owned(), "sdb".to_owned()],
            takes_requests: false,
        };
        assert_eq!(DiskPart::of_directory(&part), Some(wanted));
        fs::create_dir(scratch.path("md0/queue")).unwrap();
        for (schedulers, takes_requests) in
            [("none", false), ("[none] mq-deadline", true), ("noop [cfq]", true)]
        {
            fs::write(scratch.path("md0/queue/scheduler"), schedulers).unwrap();
            let found = DiskPart::of_directory(&scratch.path("md0")).unwrap();
            assert_eq!((found.takes_requests, found.sectors), (takes_requests, None), "{schedulers}");
        }
    }

    #[test]
    fn the_device_of_a_file_has_its_number() {
        let device = fs::metadata("/proc/self").unwrap().dev();
        let found = BlockDevice::of_number(device);
        assert!(found.number.starts_with("0:") && found.name.is_empty(), "{found:?}");
        for entry in fs::read_dir("/sys/dev/block").into_iter().flatten().flatten().take(3) {
            let number = entry.file_name().into_string().unwrap();
            let (major, minor) = number.split_once(':').unwrap();
            let device = rustix::fs::makedev(major.parse().unwrap(), minor.parse().unwrap());
            let found = BlockDevice::of_number(device);
            assert!(found.number == number && !found.name.is_empty(), "{found:?}");
        }
    }
}
