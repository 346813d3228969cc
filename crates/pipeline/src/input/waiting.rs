//! A reader that waits as long as the pipeline runs.

use std::io::{ErrorKind, Read};

use crate::control::Control;

/// Repeats reads that time out, as those of a socket do so that its thread can look whether it is to end; the input ends
/// when the pipeline is to stop. For readers that take a timeout for an error.
pub(super) struct Waiting<'c, R> {
    input: R,
    control: &'c Control,
}

impl<'c, R> Waiting<'c, R> {
    pub(super) fn new(input: R, control: &'c Control) -> Waiting<'c, R> {
        Waiting { input, control }
    }
}

impl<R: Read> Read for Waiting<'_, R> {
    fn read(&mut self, space: &mut [u8]) -> std::io::Result<usize> {
        while !self.control.is_stopped() {
            match self.input.read(space) {
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                result => return result,
            }
        }
        Ok(0)
    }
}
