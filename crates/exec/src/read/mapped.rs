//! The mapping of blocks and of records.

use std::fmt;
use std::sync::Arc;

use super::block::Block;
use super::builder::{BlockedRead, Options};
use super::cut::{Cut, Splitter};
use super::grid::Grid;
use super::shape::Shape;
use super::source::{Inputs, Paths, Source};
use super::work::{BoxError, Kernel};

impl<S> BlockedRead<S> {
    /// Reads whole records only, each with the byte that ends it; the last one may lack it.
    ///
    /// Each record is in exactly one call, and results are in the records' order. How many records a call gets depends
    /// on what is cached: with [`BlockedRead::block`], as many as fit into a block, but at least one, and fewer where
    /// records cross the boundaries of what is read at a time; otherwise as many as are at hand.
    pub fn records(self, end: u8) -> Records<S> {
        self.cut_by(Cut::Byte(end))
    }

    /// Reads whole lines of CSV, which end with a line feed unless it is quoted: calls as [`BlockedRead::records`].
    ///
    /// `quote` is mostly `b'"'`. It opens and closes a quotation wherever it stands, as RFC 4180 has it: in a quotation
    /// it is doubled, and an unquoted field has none. A backslash has no meaning.
    ///
    /// ```
    /// use sakiyomi_exec::read::blocked_reader;
    /// let csv = "name,text\na,\"one\ntwo\"\nb,three\n";
    /// let mut lines = Vec::new();
    /// blocked_reader("csv", csv.as_bytes())
    ///     .block(1)
    ///     .csv_records(b'"')
    ///     .map(|line| String::from_utf8_lossy(line).into_owned())
    ///     .in_order(|line| Ok(lines.push(line)))?;
    /// assert_eq!(lines, ["name,text\n", "a,\"one\ntwo\"\n", "b,three\n"]);
    /// # Ok::<(), sakiyomi_exec::read::Error>(())
    /// ```
    pub fn csv_records(self, quote: u8) -> Records<S> {
        assert!(quote != b'\n', "a line feed ends records, and cannot quote");
        self.cut_by(Cut::Quoted(quote))
    }

    /// Reads whole records of this many bytes, from the start of the range; the last one may be shorter. Calls are as
    /// those of [`BlockedRead::records`]: to get one record at a time, set it as the block size instead.
    ///
    /// # Panics
    /// If it is 0.
    pub fn records_of_length(self, bytes: usize) -> Records<S> {
        assert!(bytes > 0, "a record of no bytes");
        let grid = Grid { origin: self.options.range.start, unit: bytes as u64 };
        self.cut_by(Cut::Grid(grid))
    }

    /// Reads whole records that end where `splitter` says: calls as those of [`BlockedRead::records`].
    pub fn records_of(self, splitter: impl Splitter + 'static) -> Records<S> {
        self.cut_by(Cut::Own(Arc::new(splitter)))
    }

    fn cut_by(self, cut: Cut) -> Records<S> {
        Records { read: self, cut }
    }

    fn shape(&self) -> Shape {
        let start = self.options.range.start;
        self.options.block.map_or_else(Shape::any, |block| Shape::blocks(block, start))
    }
}

/// An input to be read by blocks of whole records.
#[derive(Clone, Debug)]
#[must_use = "nothing is read until it is reduced or written"]
pub struct Records<S = Paths> {
    read: BlockedRead<S>,
    cut: Cut,
}

impl<S> Records<S> {
    /// Forgets the type of the source.
    pub(super) fn erased<'f>(self) -> Records<Inputs<'f>>
    where
        S: Source<'f>,
    {
        Records { read: self.read.erased(), cut: self.cut }
    }

    fn mapped<'f, T>(
        self,
        kernel: impl Fn(Block<'_>) -> Result<T, BoxError> + Send + Sync + 'f,
    ) -> Mapped<'f, T>
    where
        S: Source<'f>,
    {
        let shape = Shape::records(self.cut, self.read.options.block);
        Mapped::new(self.read, shape, kernel)
    }
}

/// An input to be read, and the function that maps its blocks.
#[must_use = "nothing is read until it is reduced or written"]
pub struct Mapped<'f, T> {
    pub(super) inputs: Inputs<'f>,
    pub(super) options: Options,
    pub(super) shape: Shape,
    pub(super) kernel: Box<Kernel<'f, T>>,
}

impl<'f, T> Mapped<'f, T> {
    fn new<S: Source<'f>>(
        read: BlockedRead<S>,
        shape: Shape,
        kernel: impl Fn(Block<'_>) -> Result<T, BoxError> + Send + Sync + 'f,
    ) -> Mapped<'f, T> {
        let BlockedRead { source, options } = read;
        Mapped { inputs: source.into_inputs(), options, shape, kernel: Box::new(kernel) }
    }

    /// Applies a function to each result, in the thread that made it.
    pub(super) fn then<U>(self, next: impl Fn(T) -> Result<U, BoxError> + Send + Sync + 'f) -> Mapped<'f, U>
    where
        T: 'f,
    {
        let Mapped { inputs, options, shape, kernel } = self;
        Mapped { inputs, options, shape, kernel: Box::new(move |block| next(kernel(block)?)) }
    }
}

impl<T> fmt::Debug for Mapped<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mapped").field("options", &self.options).finish_non_exhaustive()
    }
}

/// The functions that map blocks, which are the same for blocks and for records.
macro_rules! maps {
    ($type:ident) => {
        impl<S> $type<S> {
            /// Maps the bytes of each block.
            pub fn map<'f, T>(self, map: impl Fn(&[u8]) -> T + Send + Sync + 'f) -> Mapped<'f, T>
            where
                S: Source<'f>,
            {
                self.mapped(move |block| Ok(map(&block)))
            }

            /// Maps as `map` does; the function also receives the number of the file, from 0.
            pub fn map_of_each<'f, T>(
                self,
                map: impl Fn(usize, &[u8]) -> T + Send + Sync + 'f,
            ) -> Mapped<'f, T>
            where
                S: Source<'f>,
            {
                self.mapped(move |block| Ok(map(block.file(), &block)))
            }

            /// Maps each [`Block`], which knows its offset, number and file.
            pub fn map_blocks<'f, T>(self, map: impl Fn(Block<'_>) -> T + Send + Sync + 'f) -> Mapped<'f, T>
            where
                S: Source<'f>,
            {
                self.mapped(move |block| Ok(map(block)))
            }

            /// Maps by a function that may fail. An error ends the reading of its file with
            /// [`Error::Function`](super::Error::Function); of several, the one at the lowest offset is returned.
            pub fn try_map<'f, T, E: Into<BoxError>>(
                self,
                map: impl Fn(Block<'_>) -> Result<T, E> + Send + Sync + 'f,
            ) -> Mapped<'f, T>
            where
                S: Source<'f>,
            {
                self.mapped(move |block| map(block).map_err(E::into))
            }
        }
    };
}

maps!(BlockedRead);
maps!(Records);

impl<S> BlockedRead<S> {
    /// Forgets the type of the source.
    pub(super) fn erased<'f>(self) -> BlockedRead<Inputs<'f>>
    where
        S: Source<'f>,
    {
        BlockedRead { source: self.source.into_inputs(), options: self.options }
    }

    fn mapped<'f, T>(
        self,
        kernel: impl Fn(Block<'_>) -> Result<T, BoxError> + Send + Sync + 'f,
    ) -> Mapped<'f, T>
    where
        S: Source<'f>,
    {
        let shape = self.shape();
        Mapped::new(self, shape, kernel)
    }
}
