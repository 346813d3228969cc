//! Descriptors that refer to the same open file: a `read` through one also advances the other.
#![allow(unsafe_code)]

use super::Process;

/// Type of comparison of `kcmp`: two open files.
const KCMP_FILE: libc::c_int = 0;

impl Process {
    /// Returns whether a descriptor of this process and one of another refer to the same open file, duplicated or
    /// inherited, with a common offset. False if the system does not tell.
    #[must_use]
    pub fn shares(&self, file: u32, other: &Process, others: u32) -> bool {
        // SAFETY: the call compares numbers; it touches no memory.
        let order = unsafe {
            libc::syscall(
                libc::SYS_kcmp,
                self.number.cast_signed(),
                other.number.cast_signed(),
                KCMP_FILE,
                libc::c_ulong::from(file),
                libc::c_ulong::from(others),
            )
        };
        order == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsRawFd;

    #[test]
    fn only_what_was_duplicated_or_inherited_is_shared() {
        let own = Process::open(std::process::id()).unwrap();
        let path = std::env::current_exe().unwrap();
        let (file, again) = (File::open(&path).unwrap(), File::open(&path).unwrap());
        let copy = file.try_clone().unwrap();
        let number = |file: &File| file.as_raw_fd().cast_unsigned();
        if !own.shares(number(&file), &own, number(&file)) {
            return sakiyomi_testing::skipped(
                "only_what_was_duplicated",
                "this system does not compare open files",
            );
        }
        assert!(own.shares(number(&file), &own, number(&copy)));
        assert!(!own.shares(number(&file), &own, number(&again)), "opened twice");
        assert!(!own.shares(number(&file), &own, 99_999), "not open");
        let mut child = std::process::Command::new("sleep").arg("60").stdin(copy).spawn().unwrap();
        let theirs = Process::open(child.id()).unwrap();
        assert!(own.shares(number(&file), &theirs, 0) && theirs.shares(0, &own, number(&file)));
        assert!(!own.shares(number(&again), &theirs, 0));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!own.shares(number(&file), &theirs, 0), "it has ended");
    }
}
