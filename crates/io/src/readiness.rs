//! Tells whether a descriptor can be read without waiting.

use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Returns whether a read would return at once: with bytes, at the end, or with an error. Always true for regular
/// files.
#[must_use]
pub fn is_readable_now(file: impl AsFd) -> bool {
    let mut asked = [PollFd::new(&file, PollFlags::IN)];
    // A file that cannot be polled counts as readable; reading it then returns the error.
    poll(&mut asked, Some(&Timespec::default())).map_or(true, |ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_pipe_is_readable_when_it_holds_bytes_or_has_no_writer_any_more() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        assert!(!is_readable_now(&reader));
        writer.write_all(b"x").unwrap();
        assert!(is_readable_now(&reader));
        let (reader, writer) = std::io::pipe().unwrap();
        drop(writer);
        assert!(is_readable_now(&reader));
        assert!(is_readable_now(std::fs::File::open("/proc/self/status").unwrap()));
    }
}
