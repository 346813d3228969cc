//! The tables of TPC-H, and their rows in parts.
//!
//! A part is a fixed number of rows (orders for LINEITEM), independent of the number of threads. Its contents therefore
//! depend only on the scale factor. The generator seeks to any part in logarithmic time.

use std::str::FromStr;
use std::sync::LazyLock;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};
use tpchgen::distribution::Distributions;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};
use tpchgen::text::TextPool;
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow,
    SupplierArrow,
};

use crate::Error;

/// Rows of a generated batch: they fit into a core's cache while columns are built.
pub(super) const GENERATED_BATCH_ROWS: usize = 8192;

/// Target rows of a part: a typical row group.
const PART_ROWS: f64 = 122_880.0;

/// Mean rows of LINEITEM per order: uniform from 1 to 7.
const LINES_PER_ORDER: f64 = 4.0;

/// Rows of PARTSUPP per row of PART.
const SUPPLIERS_PER_PART: f64 = 4.0;

/// Largest scale factor: above it, keys overflow the generator's integers.
const SCALE_FACTOR_MAX: f64 = 100_000.0;

/// A table of TPC-H.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TpchTable {
    /// 5 rows.
    Region,
    /// 25 rows.
    Nation,
    /// 10,000 rows at scale factor 1.
    Supplier,
    /// 150,000 rows at scale factor 1.
    Customer,
    /// 200,000 rows at scale factor 1.
    Part,
    /// 800,000 rows at scale factor 1.
    Partsupp,
    /// 1,500,000 rows at scale factor 1.
    Orders,
    /// 6,001,215 rows at scale factor 1.
    Lineitem,
}

/// All tables, the smallest first.
pub const TPCH_TABLES: [TpchTable; 8] = [
    TpchTable::Region,
    TpchTable::Nation,
    TpchTable::Supplier,
    TpchTable::Customer,
    TpchTable::Part,
    TpchTable::Partsupp,
    TpchTable::Orders,
    TpchTable::Lineitem,
];

impl TpchTable {
    /// Its name: `lineitem`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            TpchTable::Region => "region",
            TpchTable::Nation => "nation",
            TpchTable::Supplier => "supplier",
            TpchTable::Customer => "customer",
            TpchTable::Part => "part",
            TpchTable::Partsupp => "partsupp",
            TpchTable::Orders => "orders",
            TpchTable::Lineitem => "lineitem",
        }
    }

    /// Returns the names and types of its columns as generated.
    pub(super) fn schema(self) -> SchemaRef {
        match self {
            TpchTable::Region => RegionArrow::schema_ref(),
            TpchTable::Nation => NationArrow::schema_ref(),
            TpchTable::Supplier => SupplierArrow::schema_ref(),
            TpchTable::Customer => CustomerArrow::schema_ref(),
            TpchTable::Part => PartArrow::schema_ref(),
            TpchTable::Partsupp => PartSuppArrow::schema_ref(),
            TpchTable::Orders => OrderArrow::schema_ref(),
            TpchTable::Lineitem => LineItemArrow::schema_ref(),
        }
    }

    /// Returns the number of generator units: rows of the table, orders for LINEITEM, rows of PART for PARTSUPP.
    fn units(self, scale: f64) -> i64 {
        match self {
            TpchTable::Region => 5,
            TpchTable::Nation => 25,
            TpchTable::Supplier => SupplierGenerator::calculate_row_count(scale, 1, 1),
            TpchTable::Customer => CustomerGenerator::calculate_row_count(scale, 1, 1),
            TpchTable::Part | TpchTable::Partsupp => PartGenerator::calculate_row_count(scale, 1, 1),
            TpchTable::Orders | TpchTable::Lineitem => OrderGenerator::calculate_row_count(scale, 1, 1),
        }
    }

    fn rows_per_unit(self) -> f64 {
        match self {
            TpchTable::Lineitem => LINES_PER_ORDER,
            TpchTable::Partsupp => SUPPLIERS_PER_PART,
            _ => 1.0,
        }
    }

    /// Its rows at a scale factor; for LINEITEM an estimate to about 0.1 %.
    #[must_use]
    pub fn rows(self, scale: f64) -> u64 {
        (self.units(scale) as f64 * self.rows_per_unit()) as u64
    }

    /// Returns the number of its parts; 0 if it has no rows.
    pub(super) fn parts(self, scale: f64) -> usize {
        let units = self.units(scale);
        let parts = (units as f64 * self.rows_per_unit() / PART_ROWS).ceil();
        match self {
            // These tables are generated whole.
            TpchTable::Region | TpchTable::Nation => 1,
            _ => (parts as i64).clamp(units.min(1), i64::from(i32::MAX)) as usize,
        }
    }

    /// Returns the batches of one of `parts` parts. Without `has_comments`, comments differ from the standard's.
    pub(super) fn part(
        self,
        scale: f64,
        part: usize,
        parts: usize,
        has_comments: bool,
    ) -> Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>>> {
        let pool = if has_comments { TextPool::get_or_init_default() } else { &SMALL_TEXT_POOL };
        let words = Distributions::static_default();
        let (part, parts) = (part as i32 + 1, parts as i32);
        macro_rules! batches {
            ($arrow:ident, $generator:expr) => {
                Box::new($arrow::new($generator).with_batch_size(GENERATED_BATCH_ROWS))
            };
        }
        macro_rules! of_part {
            ($generator:ident) => {
                $generator::new_with_distributions_and_text_pool(scale, part, parts, words, pool)
            };
        }
        match self {
            TpchTable::Region => {
                batches!(RegionArrow, RegionGenerator::new_with_distributions_and_text_pool(words, pool))
            }
            TpchTable::Nation => {
                batches!(NationArrow, NationGenerator::new_with_distributions_and_text_pool(words, pool))
            }
            TpchTable::Supplier => batches!(SupplierArrow, of_part!(SupplierGenerator)),
            TpchTable::Customer => batches!(CustomerArrow, of_part!(CustomerGenerator)),
            TpchTable::Part => batches!(PartArrow, of_part!(PartGenerator)),
            TpchTable::Partsupp => {
                batches!(PartSuppArrow, PartSuppGenerator::new_with_text_pool(scale, part, parts, pool))
            }
            TpchTable::Orders => batches!(OrderArrow, of_part!(OrderGenerator)),
            TpchTable::Lineitem => batches!(LineItemArrow, of_part!(LineItemGenerator)),
        }
    }
}

impl FromStr for TpchTable {
    type Err = Error;

    fn from_str(text: &str) -> Result<TpchTable, Error> {
        TPCH_TABLES.into_iter().find(|table| table.name() == text).ok_or_else(|| {
            let names = TPCH_TABLES.map(TpchTable::name).join(", ");
            Error::Query(format!("`{text}` is not a table of TPC-H; the tables are {names}"))
        })
    }
}

/// Bytes of the standard's text pool. It is built once, and stays in memory until the process ends.
pub(super) const TEXT_POOL_BYTES: usize = 300 << 20;

/// Bytes of the text pool for unused comments; more than the longest comment.
const SMALL_TEXT_POOL_BYTES: i32 = 64 << 10;

/// Text pool for comments that are not projected: the standard's pool takes 300 MiB and a second.
static SMALL_TEXT_POOL: LazyLock<TextPool> =
    LazyLock::new(|| TextPool::new(SMALL_TEXT_POOL_BYTES, Distributions::static_default()));

/// Checks that a scale factor is in range.
pub(super) fn check_scale(scale: f64) -> Result<(), Error> {
    if scale > 0.0 && scale <= SCALE_FACTOR_MAX {
        return Ok(());
    }
    let text = format!("a scale factor of {scale} is out of range; use one above 0 and at most 100000");
    Err(Error::Query(text))
}
