//! Searching, which ends with the first result.

use std::sync::atomic::AtomicBool;

use super::error::Error;
use super::mapped::Mapped;
use super::report::{Event, Report, Wanted};

impl<T: Send> Mapped<'_, Option<T>> {
    /// Returns the first result that is not `None`, in the order of the files and of their bytes. Blocks after it are
    /// not read, except those that were on their way.
    ///
    /// ```
    /// use sakiyomi_exec::read::blocked_reader;
    /// let text = b"one\ntwo\nthree\n";
    /// let (found, _) = blocked_reader("text", &text[..])
    ///     .block(4)
    ///     .map_blocks(|block| block.iter().position(|&byte| byte == b't').map(|at| block.offset() + at as u64))
    ///     .find_first()?;
    /// assert_eq!(found, Some(4));
    /// # Ok::<(), sakiyomi_exec::read::Error>(())
    /// ```
    ///
    /// # Errors
    /// If a file up to the result cannot be read, a record is too long, or a function of the caller's fails or panics.
    pub fn find_first(self) -> Result<(Option<T>, Report), Error> {
        let mut found = None;
        let report = self.run(None, &AtomicBool::new(false), |_, event| {
            match event {
                Event::Result(result) => found = result,
                Event::End(end) => drop(end?),
            }
            Ok(if found.is_some() { Wanted::Nothing } else { Wanted::More })
        })?;
        Ok((found, report))
    }
}
