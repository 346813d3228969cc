//! Character classes of this machine's C library: printable, white space, width.
//!
//! The classes are those of the locale that the environment selects, as the C library itself reports them, so that a
//! command that replaces one of the system's agrees with it about every character. They are determined for pages of
//! 256 code points, when a character of the page first occurs: ASCII text needs a single page.
#![allow(unsafe_code)]

use std::ffi::{CStr, OsStr};
use std::sync::OnceLock;

/// The character encoding of a locale.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Single bytes.
    Bytes,
    /// UTF-8.
    Utf8,
    /// Another encoding, by name: `EUC-JP`.
    Other(String),
}

/// The class of a character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class(u8);

/// Bit of a printable character.
const PRINTABLE_BIT: u8 = 0x80;
/// Bit of white space.
const SPACE_BIT: u8 = 0x40;
/// Bits of a character's width in columns.
const WIDTH_MASK: u8 = 0x3f;

impl Class {
    /// Neither printable nor white space.
    pub const OTHER: Class = Class(0);

    /// Returns whether it is printable (`isprint`, `iswprint`).
    #[must_use]
    pub fn is_printable(self) -> bool {
        self.0 & PRINTABLE_BIT != 0
    }

    /// Returns whether it is white space (`isspace`, `iswspace`).
    #[must_use]
    pub fn is_space(self) -> bool {
        self.0 & SPACE_BIT != 0
    }

    /// Returns its width in columns (`wcwidth`), 0 if it is not printable.
    #[must_use]
    pub fn width(self) -> u64 {
        u64::from(self.0 & WIDTH_MASK)
    }
}

/// Code points whose classes are determined at a time.
const PAGE_CODES: usize = 256;
/// Number of code points of Unicode. Larger values that a decoder yields belong to no class.
const UNICODE_CODES: usize = 0x11_0000;

/// The characters of a locale.
#[derive(Debug)]
pub struct Characters {
    locale: Locale,
    encoding: Encoding,
    planes: Box<[OnceLock<Plane>]>,
}

/// Classes of 256 pages of characters, computed when a character of the page is first asked for.
type Plane = Box<[OnceLock<Box<[Class; PAGE_CODES]>>]>;

/// Pages of a plane.
const PLANE_PAGES: usize = 256;

impl Characters {
    /// Returns the characters of the locale that `LC_ALL`, `LC_CTYPE` or `LANG` selects, or of the C locale if that
    /// is unknown.
    #[must_use]
    pub fn from_environment() -> Characters {
        // A program's `setlocale(LC_ALL, "")` also fails if another category is missing; loading all of them takes a
        // third of a millisecond.
        let is_other = |name: &OsStr| {
            name.as_encoded_bytes().starts_with(b"LC_") && name != "LC_ALL" && name != "LC_CTYPE"
        };
        let one_for_all = std::env::var_os("LC_ALL").is_some_and(|name| !name.is_empty());
        let any_other = !one_for_all && std::env::vars_os().any(|(name, _)| is_other(&name));
        let categories = if any_other { libc::LC_ALL_MASK } else { libc::LC_CTYPE_MASK };
        Characters::of(Locale::new(c"", categories).unwrap_or(Locale::PLAIN))
    }

    /// Returns the characters of the locale `name`; `None` if it is unknown.
    #[must_use]
    pub fn named(name: &CStr) -> Option<Characters> {
        Locale::new(name, libc::LC_CTYPE_MASK).map(Characters::of)
    }

    fn of(locale: Locale) -> Characters {
        let encoding = locale.encoding();
        let points = if encoding == Encoding::Utf8 { UNICODE_CODES } else { PAGE_CODES };
        let planes = points.div_ceil(PLANE_PAGES * PAGE_CODES);
        Characters { locale, encoding, planes: (0..planes).map(|_| OnceLock::new()).collect() }
    }

    /// Returns their encoding.
    #[must_use]
    pub fn encoding(&self) -> &Encoding {
        &self.encoding
    }

    /// Returns the class of a character, given as a code point, or as a byte in a locale of single-byte characters.
    #[must_use]
    pub fn class(&self, code: u32) -> Class {
        let (page, index) = (code as usize / PAGE_CODES, code as usize % PAGE_CODES);
        let Some(plane) = self.planes.get(page / PLANE_PAGES) else { return Class::OTHER };
        if page > 0 && self.encoding != Encoding::Utf8 {
            return Class::OTHER;
        }
        let pages = || (0..PLANE_PAGES).map(|_| OnceLock::new()).collect();
        let page_of = &plane.get_or_init(pages)[page % PLANE_PAGES];
        let ask = || {
            let wide = self.encoding == Encoding::Utf8;
            let codes: [i32; PAGE_CODES] = std::array::from_fn(|index| (page * PAGE_CODES + index) as i32);
            Box::new(self.locale.during(|| codes.map(|code| class(code, wide))))
        };
        page_of.get_or_init(ask)[index]
    }
}

/// Returns the class of a character in the thread's current locale.
fn class(code: i32, wide: bool) -> Class {
    let (printable, space, width) = if wide {
        // SAFETY: these take any value of their types.
        unsafe { (iswprint(code.cast_unsigned()) != 0, iswspace(code.cast_unsigned()) != 0, wcwidth(code)) }
    } else {
        // SAFETY: these take any value of an unsigned char, which `code` is.
        unsafe { (libc::isprint(code) != 0, libc::isspace(code) != 0, 1) }
    };
    let width = if printable { u8::try_from(width).unwrap_or(0).min(WIDTH_MASK) } else { 0 };
    Class(width | if printable { PRINTABLE_BIT } else { 0 } | if space { SPACE_BIT } else { 0 })
}

// Missing in `libc`. `wint_t` is `unsigned int`; `wchar_t` is `int` on Linux except on ARM, where it has the same
// width.
unsafe extern "C" {
    fn iswprint(code: libc::c_uint) -> libc::c_int;
    fn iswspace(code: libc::c_uint) -> libc::c_int;
    fn wcwidth(code: libc::wchar_t) -> libc::c_int;
}

/// A locale of the C library; null for `C`, in which a program starts.
#[derive(Debug)]
struct Locale(libc::locale_t);

// SAFETY: a locale is immutable, and the C library lets any thread use it.
unsafe impl Send for Locale {}
// SAFETY: as above.
unsafe impl Sync for Locale {}

impl Locale {
    const PLAIN: Locale = Locale(std::ptr::null_mut());

    fn new(name: &CStr, categories: libc::c_int) -> Option<Locale> {
        // SAFETY: the name is a NUL-terminated string, and no base locale is passed.
        let locale = unsafe { libc::newlocale(categories, name.as_ptr(), std::ptr::null_mut()) };
        (!locale.is_null()).then_some(Locale(locale))
    }

    /// Calls a function with this locale as the thread's current one.
    fn during<T>(&self, what: impl FnOnce() -> T) -> T {
        if self.0.is_null() {
            return what();
        }
        // SAFETY: the locale lives until `self` is dropped, and is the thread's locale only until the call below.
        let before = unsafe { libc::uselocale(self.0) };
        let result = what();
        // SAFETY: restores the thread's previous locale.
        unsafe { libc::uselocale(before) };
        result
    }

    fn encoding(&self) -> Encoding {
        let name = self.during(|| {
            // SAFETY: the string is valid until the next call by this thread, and is copied before.
            unsafe { CStr::from_ptr(libc::nl_langinfo(libc::CODESET)) }.to_string_lossy().into_owned()
        });
        match name.as_str() {
            "UTF-8" => Encoding::Utf8,
            // Each of these encodes a character in one byte; all others in glibc need several bytes for some.
            "ANSI_X3.4-1968" | "US-ASCII" | "ASCII" => Encoding::Bytes,
            name if ["ISO-8859-", "KOI8-", "CP125"].iter().any(|start| name.starts_with(start)) => {
                Encoding::Bytes
            }
            _ => Encoding::Other(name),
        }
    }
}

impl Drop for Locale {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: made by `newlocale`, and not the locale of any thread outside of `during`.
            unsafe { libc::freelocale(self.0) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_c_locale_knows_ascii_only() {
        let characters = Characters::named(c"C").unwrap();
        assert_eq!(characters.encoding(), &Encoding::Bytes);
        for byte in 0..=255u8 {
            let class = characters.class(u32::from(byte));
            assert_eq!(class.is_printable(), (0x20..0x7f).contains(&byte), "{byte}");
            assert_eq!(class.is_space(), matches!(byte, 9..=13 | 32), "{byte}");
        }
        assert_eq!(characters.class(0x3042), Class::OTHER);
    }

    #[test]
    fn a_utf8_locale_knows_spaces_and_widths() {
        let Some(characters) = Characters::named(c"C.UTF-8") else { return };
        assert_eq!(characters.encoding(), &Encoding::Utf8);
        let of = |character: char| characters.class(u32::from(character));
        assert!(of('\u{3000}').is_space() && of('あ').is_printable() && !of('あ').is_space());
        assert_eq!((of('あ').width(), of('a').width(), of('\u{301}').width()), (2, 1, 0));
        assert_eq!(characters.class(0x11_0000), Class::OTHER);
        assert_eq!(characters.class(u32::MAX), Class::OTHER);
    }

    #[test]
    fn a_locale_that_is_not_there_is_none() {
        assert!(Characters::named(c"xx_YY.nothing").is_none());
    }
}
