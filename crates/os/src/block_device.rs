//! What the kernel knows of a block device.

use std::fs;
use std::path::Path;

/// A block device, or the number that a file system without one has (tmpfs, btrfs).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockDevice {
    /// `MAJOR:MINOR`.
    pub number: String,
    /// The kernel's name, `nvme0n1p2`; empty if there is no such device.
    pub name: String,
    /// Vendor's name of the drive; empty if it has none, as most virtual disks.
    pub model: String,
}

impl BlockDevice {
    /// The device of a number, such as `st_dev` of a file on it or `st_rdev` of its node.
    #[must_use]
    pub fn of_number(number: u64) -> BlockDevice {
        let number = format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number));
        let Ok(found) = fs::canonicalize(format!("/sys/dev/block/{number}")) else {
            return BlockDevice { number, ..BlockDevice::default() };
        };
        let name = found.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        // That of a partition is with its disk.
        let models = [Some(found.as_path()), found.parent()].into_iter().flatten();
        let model = models.filter_map(model).next().unwrap_or_default();
        BlockDevice { number, name, model }
    }
}

fn model(device: &Path) -> Option<String> {
    let model = fs::read_to_string(device.join("device/model")).ok()?;
    Some(model.trim().to_owned()).filter(|model| !model.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

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
