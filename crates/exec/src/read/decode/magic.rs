//! Formats by the first bytes of an input.

use super::gzip::{Bgzf, Gzip};
use super::zstd::Zstd;
use super::{Decoder, Format};

/// Recognizes gzip, BGZF and zstd.
#[derive(Debug)]
pub(in super::super) struct ByMagic;

impl Decoder for ByMagic {
    fn format(&self, beginning: &[u8]) -> Option<&'static dyn Format> {
        match beginning {
            [0x1f, 0x8b, 8, ..] if Bgzf::size(beginning).is_some() => Some(&Bgzf),
            [0x1f, 0x8b, 8, ..] => Some(&Gzip),
            _ if Zstd::begins(beginning) => Some(&Zstd),
            _ => None,
        }
    }
}
