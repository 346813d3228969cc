//! Tables of the jobs: narrow and wide rows, texts, and the two sides of a join.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, Decimal128Array, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::ArrowError;
use rand_core::Rng;
use rand_pcg::Pcg64;

use super::super::data::{generator, text};
use super::super::measure::Effort;
use crate::output::{Output, OutputOptions, Target};
use crate::table::Format;
use crate::{Error, Job};

/// A generated table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// A random key `k` and a number `v`.
    Narrow,
    /// A random key `k`, sixteen numbers, four decimals and a text.
    Wide,
    /// A long text `t`, a number `k` and a short text of few values.
    Texts,
    /// A key `k` of [`Source::Sides`], a number `v` and a short text `c` of few values.
    Facts,
    /// The table of `Facts` as Arrow.
    ArrowFacts,
    /// A row for each key `k`, in no order, with a text.
    Sides,
}

/// Rows of a group, as other writers make them.
const GROUP_ROWS: u64 = 122_880;
/// Rows of the side of a join with a row for each key, a power of two.
const SIDE_ROWS: usize = 1 << 20;
/// Rows of the other side: three for each key.
const FACT_ROWS: usize = 3 << 20;
/// Odd, so that its multiples modulo a power of two are all numbers, in no order.
const KEY_FACTOR: u64 = 0x9_e377;
/// Rows of 16 bytes: twice the least memory limit of the jobs. Jobs take a quarter of a second at least, so that starting
/// threads and first uses of memory are a small part.
const NARROW_ROWS: usize = 8_000_000;
/// Rows of about 150 bytes: as many bytes.
const WIDE_ROWS: usize = 800_000;
/// Rows of about 80 bytes: as many bytes.
const TEXT_ROWS: usize = 1_400_000;
/// Bits of a random key.
const KEY_BITS: u32 = 40;
/// Columns of 4 bytes in a wide row.
const NUMBER_COLUMNS: usize = 16;
/// Columns of 16 bytes in a wide row.
const DECIMAL_COLUMNS: usize = 4;
/// Mean bytes of texts.
const LONG_TEXT_BYTES: u64 = 56;
/// Mean bytes of words.
const WORD_BYTES: u64 = 14;
/// Distinct words of a column that formats keep as codes.
const DISTINCT_WORDS: u64 = 23;
/// Distinct numbers of a column that Parquet keeps in a dictionary.
const DISTINCT_NUMBERS: u64 = 1009;

impl Source {
    /// All tables.
    pub(super) const ALL: [Source; 6] =
        [Source::Narrow, Source::Wide, Source::Texts, Source::Facts, Source::ArrowFacts, Source::Sides];

    /// Returns the file in a directory.
    pub(super) fn path(self, directory: &Path) -> PathBuf {
        directory.join(match self {
            Source::Narrow => "narrow.parquet",
            Source::Wide => "wide.parquet",
            Source::Texts => "texts.parquet",
            Source::Facts => "facts.parquet",
            Source::ArrowFacts => "facts.arrow",
            Source::Sides => "sides.parquet",
        })
    }

    fn format(self) -> Format {
        if self == Source::ArrowFacts { Format::ArrowFile } else { Format::Parquet }
    }

    fn rows(self) -> usize {
        match self {
            Source::Narrow => NARROW_ROWS,
            Source::Wide => WIDE_ROWS,
            Source::Texts => TEXT_ROWS,
            Source::Facts | Source::ArrowFacts => FACT_ROWS,
            Source::Sides => SIDE_ROWS,
        }
    }

    /// Writes the table to its file in a directory, group by group.
    ///
    /// # Errors
    /// Returns the errors of the file; too little memory in the job for a group.
    pub(super) fn write(self, job: &Job, directory: &Path, effort: Effort) -> Result<(), Error> {
        let rows = effort.amount(self.rows()) as u64;
        let mut random = generator(200 + self as u64);
        let first = self.batch(0..rows.min(GROUP_ROWS), effort, &mut random)?;
        let target = Target::File(self.path(directory));
        let options = OutputOptions::new(self.format());
        let mut output = Output::create(job, &target, &first.schema(), &options)?;
        let mut begin = first.num_rows() as u64;
        output.append(output.encoder().encode(&[first])?)?;
        while begin < rows {
            let group = self.batch(begin..rows.min(begin + GROUP_ROWS), effort, &mut random)?;
            begin += group.num_rows() as u64;
            output.append(output.encoder().encode(&[group])?)?;
        }
        output.finish()?;
        Ok(())
    }

    fn batch(self, rows: Range<u64>, effort: Effort, random: &mut Pcg64) -> Result<RecordBatch, ArrowError> {
        let sides = effort.amount(SIDE_ROWS).next_power_of_two() as u64;
        let mut columns = Columns { rows: rows.clone(), random, named: Vec::new() };
        match self {
            Source::Narrow => columns.numbers("k", 1 << KEY_BITS).numbers("v", DISTINCT_NUMBERS),
            Source::Wide => {
                columns.numbers("k", 1 << KEY_BITS);
                for at in 0..NUMBER_COLUMNS {
                    columns.small_numbers(&format!("n{at}"));
                }
                for at in 0..DECIMAL_COLUMNS {
                    columns.decimals(&format!("d{at}"));
                }
                columns.texts("t", WORD_BYTES, u64::MAX)
            }
            Source::Texts => columns.texts("t", LONG_TEXT_BYTES, u64::MAX).numbers("k", 1 << KEY_BITS).texts(
                "c",
                WORD_BYTES,
                DISTINCT_WORDS,
            ),
            Source::Facts | Source::ArrowFacts => columns
                .numbers("k", sides)
                .numbers("v", DISTINCT_NUMBERS)
                .texts("c", WORD_BYTES, DISTINCT_WORDS),
            Source::Sides => {
                let keys = rows.map(|row| (row.wrapping_mul(KEY_FACTOR) % sides) as i64);
                columns
                    .named
                    .push(("k".to_owned(), Arc::new(Int64Array::from_iter_values(keys)) as ArrayRef));
                columns.texts("t", WORD_BYTES, u64::MAX)
            }
        };
        RecordBatch::try_from_iter(columns.named)
    }
}

/// Columns of a batch of random values.
struct Columns<'a> {
    rows: Range<u64>,
    random: &'a mut Pcg64,
    named: Vec<(String, ArrayRef)>,
}

impl Columns<'_> {
    fn numbers(&mut self, name: &str, distinct: u64) -> &mut Self {
        let values = self.rows.clone().map(|_| (self.random.next_u64() % distinct) as i64);
        let column = Int64Array::from_iter_values(values);
        self.add(name, Arc::new(column))
    }

    fn small_numbers(&mut self, name: &str) -> &mut Self {
        let values = self.rows.clone().map(|_| (self.random.next_u64() >> 44) as i32);
        let column = Int32Array::from_iter_values(values);
        self.add(name, Arc::new(column))
    }

    fn decimals(&mut self, name: &str) -> &mut Self {
        let values = self.rows.clone().map(|_| i128::from(self.random.next_u64() >> 30));
        let column = Decimal128Array::from_iter_values(values);
        self.add(name, Arc::new(column))
    }

    fn texts(&mut self, name: &str, mean_bytes: u64, distinct: u64) -> &mut Self {
        let values = self.rows.clone().map(|_| text(self.random.next_u64() % distinct, mean_bytes));
        let column = StringArray::from_iter_values(values);
        self.add(name, Arc::new(column))
    }

    fn add(&mut self, name: &str, column: ArrayRef) -> &mut Self {
        self.named.push((name.to_owned(), column));
        self
    }
}
