//! The inputs of a blocked read.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use super::stream::Stream;

/// Files, in their order.
#[derive(Clone, Debug)]
pub struct Paths(pub(super) Vec<PathBuf>);

/// An input without offsets.
pub struct Reader<'r> {
    name: PathBuf,
    from: Stream<'r>,
}

impl<'r> Reader<'r> {
    pub(super) fn new(name: PathBuf, from: impl Read + Send + 'r) -> Reader<'r> {
        Reader { name, from: Stream::of(from) }
    }
}

impl fmt::Debug for Reader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reader({})", self.name.display())
    }
}

/// A source of a blocked read: [`Paths`], a [`Reader`], or any of them.
pub trait Source<'r>: sealed::IntoInputs<'r> {}

impl<'r> Source<'r> for Paths {}
impl<'r> Source<'r> for Reader<'r> {}
impl<'r> Source<'r> for Inputs<'r> {}

/// The inputs of any source.
pub enum Inputs<'r> {
    /// Files.
    Paths(Vec<PathBuf>),
    /// An input without offsets, with its name.
    #[expect(private_interfaces, reason = "the trait that names it is sealed")]
    Stream(PathBuf, Stream<'r>),
}

impl fmt::Debug for Inputs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Inputs::Paths(paths) => paths.fmt(f),
            Inputs::Stream(name, _) => name.fmt(f),
        }
    }
}

impl<'r> Inputs<'r> {
    /// Replaces the input by a stream, which keeps the name.
    pub(super) fn stream(self, from: Stream<'r>) -> Inputs<'r> {
        let name = match self {
            Inputs::Paths(paths) => paths.into_iter().next().unwrap_or_else(|| "-".into()),
            Inputs::Stream(name, _) => name,
        };
        Inputs::Stream(name, from)
    }

    /// Replaces the input by an open file, from its present position.
    pub(super) fn file(self, from: File) -> Inputs<'r> {
        self.stream(Stream::of_file(from, true))
    }
}

mod sealed {
    use super::{Inputs, Paths, Reader};

    pub trait IntoInputs<'r> {
        fn into_inputs(self) -> Inputs<'r>;
    }

    impl<'r> IntoInputs<'r> for Paths {
        fn into_inputs(self) -> Inputs<'r> {
            Inputs::Paths(self.0)
        }
    }

    impl<'r> IntoInputs<'r> for Inputs<'r> {
        fn into_inputs(self) -> Inputs<'r> {
            self
        }
    }

    impl<'r> IntoInputs<'r> for Reader<'r> {
        fn into_inputs(self) -> Inputs<'r> {
            Inputs::Stream(self.name, self.from)
        }
    }
}
