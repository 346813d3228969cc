//! Minimum, mean and maximum by station.

use std::fmt;

use memchr::memchr;

/// Measurements of a station, in tenths of a degree.
#[derive(Clone, Debug)]
pub(crate) struct Station {
    name: Box<[u8]>,
    min: i32,
    max: i32,
    sum: i64,
    count: u64,
}

/// Stations by name: a hash table with open addressing.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    /// A power of two of them, at most half of which are used.
    slots: Vec<Option<Station>>,
    used: usize,
}

/// Slots of a new table: enough for the 413 stations of the challenge.
const SLOTS_AT_FIRST: usize = 1 << 12;

impl Default for Table {
    fn default() -> Table {
        Table { slots: vec![None; SLOTS_AT_FIRST], used: 0 }
    }
}

impl Table {
    /// Adds lines of the form `station;-12.3`.
    ///
    /// # Errors
    /// Returns the first line that has another form.
    pub(crate) fn add_lines<'l>(&mut self, mut lines: &'l [u8]) -> Result<(), &'l [u8]> {
        while !lines.is_empty() {
            let semicolon = memchr(b';', lines).ok_or(lines)?;
            let (tenths, length) = tenths(&lines[semicolon + 1..]).ok_or(lines)?;
            self.add(&lines[..semicolon], tenths);
            lines = &lines[semicolon + 1 + length..];
        }
        Ok(())
    }

    fn add(&mut self, name: &[u8], tenths: i32) {
        let station = self.station(name);
        station.min = station.min.min(tenths);
        station.max = station.max.max(tenths);
        station.sum += i64::from(tenths);
        station.count += 1;
    }

    /// Adds the measurements of another table.
    #[must_use]
    pub(crate) fn merged(mut self, other: Table) -> Table {
        for next in other.slots.into_iter().flatten() {
            let station = self.station(&next.name);
            station.min = station.min.min(next.min);
            station.max = station.max.max(next.max);
            station.sum += next.sum;
            station.count += next.count;
        }
        self
    }

    fn station(&mut self, name: &[u8]) -> &mut Station {
        let mut at = self.find(name);
        if self.slots[at].is_none() {
            self.used += 1;
            if 2 * self.used > self.slots.len() {
                self.grow();
                at = self.find(name);
            }
        }
        self.slots[at].get_or_insert_with(|| Station::new(name))
    }

    /// Returns the slot of a station, or the free one where it belongs.
    fn find(&self, name: &[u8]) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = hash(name) as usize & mask;
        while self.slots[at].as_ref().is_some_and(|station| *station.name != *name) {
            at = (at + 1) & mask;
        }
        at
    }

    fn grow(&mut self) {
        let larger = vec![None; 2 * self.slots.len()];
        for station in std::mem::replace(&mut self.slots, larger).into_iter().flatten() {
            let at = self.find(&station.name);
            self.slots[at] = Some(station);
        }
    }
}

impl Station {
    fn new(name: &[u8]) -> Station {
        Station { name: name.into(), min: i32::MAX, max: i32::MIN, sum: 0, count: 0 }
    }
}

/// Parses `-12.3` and the end of the line; returns the number in tenths, and the bytes it takes.
fn tenths(text: &[u8]) -> Option<(i32, usize)> {
    let is_negative = text.first() == Some(&b'-');
    let digit = |byte: u8| byte.is_ascii_digit().then(|| i32::from(byte - b'0'));
    let (tenths, length) = match text[usize::from(is_negative)..] {
        [ones, b'.', tenth, ref rest @ ..] if rest.first().is_none_or(|&end| end == b'\n') => {
            (digit(ones)? * 10 + digit(tenth)?, 3 + rest.len().min(1))
        }
        [tens, ones, b'.', tenth, ref rest @ ..] if rest.first().is_none_or(|&end| end == b'\n') => {
            (digit(tens)? * 100 + digit(ones)? * 10 + digit(tenth)?, 4 + rest.len().min(1))
        }
        _ => return None,
    };
    Some((if is_negative { -tenths } else { tenths }, length + usize::from(is_negative)))
}

/// Mixes eight bytes at a time (as `FxHash` does).
fn hash(name: &[u8]) -> u64 {
    const FACTOR: u64 = 0xf135_7aea_2e62_a9c5;
    let (words, rest) = name.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let mixed = words
        .iter()
        .fold(0, |hash: u64, word| (hash.rotate_left(5) ^ u64::from_le_bytes(*word)).wrapping_mul(FACTOR));
    (mixed.rotate_left(5) ^ u64::from_le_bytes(last)).wrapping_mul(FACTOR) >> 32
}

/// `{Abha=-23.0/18.0/59.2, …}`, in the order of names.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut stations: Vec<&Station> = self.slots.iter().flatten().collect();
        stations.sort_by(|first, next| first.name.cmp(&next.name));
        let shown = |station: &&Station| {
            let (name, degrees) = (String::from_utf8_lossy(&station.name), |tenths: f64| tenths / 10.0);
            let mean = degrees(station.sum as f64 / station.count as f64);
            let (min, max) = (degrees(f64::from(station.min)), degrees(f64::from(station.max)));
            format!("{name}={min:.1}/{mean:.1}/{max:.1}")
        };
        write!(f, "{{{}}}", stations.iter().map(shown).collect::<Vec<_>>().join(", "))
    }
}
