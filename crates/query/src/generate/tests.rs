//! Generated rows against those of `tpchgen`, and the random order.

use std::collections::BTreeSet;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_cast::cast;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_ipc::reader::{FileReader, StreamReader};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use sakiyomi_testing::Scratch;

use super::*;
use crate::JobOptions;
use crate::table::Format;

/// Memory limit of a test's job: the bucket buffers of a small table, and a few parts.
const TEST_MEMORY_BYTES: usize = 192 << 20;

fn job(scratch: &Scratch, threads: usize, memory: usize) -> Job {
    let spill = vec![scratch.root().to_owned()];
    Job::new(JobOptions { memory, threads, spill, ..JobOptions::default() }).unwrap()
}

fn options(table: TpchTable, scale: f64, columns: &[&str], shuffle: Option<u64>) -> GenerateOptions {
    let columns = columns.iter().map(|&name| name.to_owned()).collect();
    GenerateOptions { table, scale, columns, shuffle, types: ColumnTypes::Compact }
}

fn generate(threads: usize, options: &GenerateOptions) -> Vec<RecordBatch> {
    let scratch = Scratch::new("generate");
    let mut rows = Generator::new(&job(&scratch, threads, TEST_MEMORY_BYTES), options).unwrap();
    let mut batches = Vec::new();
    while let Some(batch) = rows.next().unwrap() {
        assert_eq!(batch.schema(), rows.schema());
        batches.push(batch);
    }
    assert!(rows.next().unwrap().is_none());
    batches
}

/// All rows as text.
fn texts(batches: &[RecordBatch]) -> Vec<String> {
    let format = FormatOptions::default();
    let rows = batches.iter().flat_map(|batch| {
        let columns = batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &format).unwrap());
        let columns: Vec<_> = columns.collect();
        let row = |row| columns.iter().map(|column| column.value(row).to_string() + "|").collect::<String>();
        (0..batch.num_rows()).map(row).collect::<Vec<_>>()
    });
    rows.collect()
}

fn numbers(batches: &[RecordBatch], column: usize) -> Vec<i64> {
    batches
        .iter()
        .flat_map(|batch| batch.column(column).as_primitive::<Int64Type>().values().to_vec())
        .collect()
}

#[test]
fn tables_have_the_rows_of_the_specification() {
    for (table, key, rows) in [
        (TpchTable::Region, "r_regionkey", 5),
        (TpchTable::Nation, "n_nationkey", 25),
        (TpchTable::Supplier, "s_suppkey", 100),
        (TpchTable::Customer, "c_custkey", 1_500),
        (TpchTable::Part, "p_partkey", 2_000),
        (TpchTable::Partsupp, "ps_partkey", 8_000),
        (TpchTable::Orders, "o_orderkey", 15_000),
        (TpchTable::Lineitem, "l_orderkey", 60_175),
    ] {
        let batches = generate(2, &options(table, 0.01, &[key], None));
        assert_eq!(numbers(&batches, 0).len(), rows, "{}", table.name());
        assert!(table.rows(0.01).abs_diff(rows as u64) <= rows as u64 / 100, "{}", table.name());
    }
}

#[test]
fn parts_together_are_the_table_of_the_generator() {
    // Several parts, without comments, because their text pool takes a second to build.
    let (scale, columns) =
        (0.03, ["l_orderkey", "l_linenumber", "l_extendedprice", "l_shipmode", "l_shipdate"]);
    let plan_parts = TpchTable::Lineitem.parts(scale);
    assert!(plan_parts > 1, "{plan_parts}");
    let found = texts(&generate(2, &options(TpchTable::Lineitem, scale, &columns, None)));
    let whole = TpchTable::Lineitem.part(scale, 0, 1, false).map(|batch| {
        let batch = batch.unwrap();
        let schema = batch.schema();
        let places: Vec<usize> = columns.iter().map(|name| schema.index_of(name).unwrap()).collect();
        batch.project(&places).unwrap()
    });
    assert!(found == texts(&whole.collect::<Vec<_>>()));
}

#[test]
fn compact_columns_have_the_values_of_the_standard_ones() {
    for table in TPCH_TABLES {
        let mut options = options(table, 0.001, &[], None);
        let schema = table.schema();
        let names = schema.fields().iter().map(|field| field.name().clone());
        options.columns = names.filter(|name| !name.ends_with("_comment")).collect();
        let compact = generate(1, &options);
        options.types = ColumnTypes::Standard;
        let standard = generate(1, &options);
        assert_eq!(texts(&compact), texts(&standard), "{}", table.name());
        for (compact, standard) in compact[0].columns().iter().zip(standard[0].columns()) {
            assert_eq!(&cast(compact, standard.data_type()).unwrap(), standard);
        }
    }
}

#[test]
fn the_columns_of_q1_have_38_bytes_a_row() {
    let columns = [
        "l_quantity",
        "l_extendedprice",
        "l_discount",
        "l_tax",
        "l_returnflag",
        "l_linestatus",
        "l_shipdate",
    ];
    let schema = schema(&options(TpchTable::Lineitem, 1.0, &columns, None)).unwrap();
    assert_eq!(columns::row_bytes(&schema), 38);
}

/// The rows of a file.
fn read(path: &std::path::Path, format: Format) -> Vec<RecordBatch> {
    let file = std::fs::File::open(path).unwrap();
    match format {
        Format::Parquet => {
            let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
            reader.map(Result::unwrap).collect()
        }
        Format::ArrowFile => FileReader::try_new(file, None).unwrap().map(Result::unwrap).collect(),
        Format::ArrowStream => StreamReader::try_new(file, None).unwrap().map(Result::unwrap).collect(),
        Format::Csv => unreachable!("is compared as text"),
    }
}

#[test]
fn a_file_has_the_rows_of_the_stream() {
    let columns = ["l_orderkey", "l_quantity", "l_returnflag", "l_shipmode", "l_shipdate"];
    let scratch = Scratch::new("generate");
    for (format, shuffle) in [
        (Format::Parquet, None),
        (Format::ArrowFile, None),
        (Format::ArrowFile, Some(2)),
        (Format::ArrowStream, Some(2)),
    ] {
        let options = options(TpchTable::Lineitem, 0.02, &columns, shuffle);
        let (path, mut last) = (scratch.path("rows"), None);
        let output = OutputOptions { group_rows: 50_000, alignment: 4096, ..OutputOptions::new(format) };
        let target = Target::File(path.clone());
        let job = job(&scratch, 2, TEST_MEMORY_BYTES);
        let mut progress = |at: Progress| last = Some(at);
        let generated = generate_file(&job, &options, &target, &output, &mut progress).unwrap();
        let found = read(&path, format);
        assert!(texts(&found) == texts(&generate(1, &options)), "{format:?}");
        assert_eq!(generated.rows, found.iter().map(|batch| batch.num_rows() as u64).sum::<u64>());
        assert_eq!(generated.bytes, std::fs::metadata(&path).unwrap().len());
        let last = last.unwrap();
        assert!(last.rows <= last.total && last.rows > last.total * 9 / 10);
        let is_coded = matches!(found[0].column(2).data_type(), arrow_schema::DataType::Dictionary(..));
        assert_eq!(is_coded, format != Format::Parquet);
        if format == Format::ArrowFile {
            // 8 + 8 + 1 + 1 + 4 bytes a row, and the ends of groups.
            assert!(generated.bytes < generated.rows * 22 + 40_000, "{}", generated.bytes);
        }
    }
}

#[test]
fn a_shuffled_table_is_a_permutation_that_its_seed_decides() {
    let columns = ["l_orderkey", "l_linenumber", "l_returnflag"];
    let shuffled =
        |threads, seed| generate(threads, &options(TpchTable::Lineitem, 0.03, &columns, Some(seed)));
    let (first, again, other) = (shuffled(1, 7), shuffled(3, 7), shuffled(2, 8));
    assert!(texts(&first) == texts(&again), "the number of threads does not matter");
    assert!(texts(&first) != texts(&other), "the seed does");
    let in_order = generate(1, &options(TpchTable::Lineitem, 0.03, &columns, None));
    let (mut sorted, mut expected) = (texts(&first), texts(&in_order));
    sorted.sort();
    expected.sort();
    assert!(sorted == expected, "all rows are there once");
    // Half of the neighbors of a random order ascend.
    let keys = numbers(&first, 0);
    let ascents = keys.windows(2).filter(|pair| pair[0] < pair[1]).count();
    assert!(ascents.abs_diff(keys.len() / 2) < keys.len() / 100, "{ascents} of {}", keys.len());
    // Each tenth of the result has keys from all tenths of the table.
    let tenth = keys.len() / 10;
    let largest = keys.iter().max().unwrap() + 1;
    for part in keys.chunks(tenth).take(10) {
        let seen: BTreeSet<i64> = part.iter().map(|key| key * 10 / largest).collect();
        assert_eq!(seen.len(), 10);
    }
}

#[test]
fn buckets_that_are_too_large_are_scattered_again() {
    let scratch = Scratch::new("generate");
    let columns = ["o_orderkey".to_owned()];
    let job = job(&scratch, 2, TEST_MEMORY_BYTES);
    let options =
        GenerateOptions { columns: columns.to_vec(), ..options(TpchTable::Orders, 0.1, &[], Some(1)) };
    let plan = Plan::new(&job, &options).unwrap();
    let (mut keys, mut sizes) = (Vec::new(), Vec::new());
    let mut shuffle = Shuffle::start(&plan, 1, Arc::new(Ok), &mut |_| ()).unwrap();
    shuffle.merge_buckets(100_000).unwrap();
    while let Some(batches) = shuffle.next().unwrap() {
        keys.extend(numbers(&batches, 0));
        sizes.push(batches.len());
    }
    assert!(sizes.len() > 1);
    assert_eq!(keys.len(), 150_000);
    assert!(!keys.is_sorted());
    assert_eq!(keys.into_iter().collect::<BTreeSet<_>>().len(), 150_000);
}

#[test]
fn options_that_are_not_possible_are_refused_with_a_sentence() {
    let scratch = Scratch::new("generate");
    let job = job(&scratch, 1, TEST_MEMORY_BYTES);
    let refused = |options: &GenerateOptions| Generator::new(&job, options).err().unwrap().to_string();
    for scale in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e9] {
        let error = refused(&options(TpchTable::Orders, scale, &[], None));
        assert!(error.contains("scale factor"), "{error}");
    }
    let error = refused(&options(TpchTable::Nation, 1.0, &["x"], None));
    assert_eq!(
        error,
        "no column of nation is named x; the columns are n_nationkey, n_name, n_regionkey, n_comment"
    );
    assert!("line".parse::<TpchTable>().unwrap_err().to_string().contains("lineitem"));
    // A scale factor too small for any rows.
    let none = options(TpchTable::Supplier, 1e-9, &["s_suppkey"], None);
    assert!(generate(1, &none).is_empty());
    assert!(generate(1, &GenerateOptions { shuffle: Some(1), ..none }).is_empty());
}

#[test]
fn too_little_memory_and_no_place_to_spill_are_errors() {
    let scratch = Scratch::new("generate");
    let shuffled = options(TpchTable::Orders, 0.1, &["o_orderkey", "o_totalprice"], Some(1));
    let mut small = Generator::new(&job(&scratch, 2, 1 << 20), &shuffled).unwrap();
    assert!(matches!(small.next(), Err(Error::Memory { .. } | Error::Io(_))));
    let spill = vec![scratch.path("missing")];
    let job = Job::new(JobOptions { memory: TEST_MEMORY_BYTES, spill, ..JobOptions::default() }).unwrap();
    let mut rows = Generator::new(&job, &shuffled).unwrap();
    assert!(rows.next().unwrap_err().to_string().contains("missing"));
    assert!(rows.next().unwrap().is_none());
}

#[test]
fn a_cancelled_generator_ends_with_an_error() {
    let scratch = Scratch::new("generate");
    let job = job(&scratch, 2, TEST_MEMORY_BYTES);
    for shuffle in [None, Some(3)] {
        let mut rows =
            Generator::new(&job, &options(TpchTable::Orders, 0.3, &["o_orderkey"], shuffle)).unwrap();
        assert!(shuffle.is_some() || rows.next().unwrap().is_some());
        job.cancel();
        let end = loop {
            match rows.next() {
                Ok(Some(_)) => {}
                end => break end,
            }
        };
        assert!(matches!(end, Err(Error::Cancelled)));
    }
}

#[test]
fn groups_have_at_most_the_rows_that_are_asked_for() {
    let batches = generate(1, &options(TpchTable::Orders, 0.02, &["o_orderkey"], None));
    for group_rows in [1_000, 8_192, 10_000, 1_000_000] {
        let groups = groups(batches.clone(), group_rows);
        let sizes: Vec<usize> =
            groups.iter().map(|group| group.iter().map(RecordBatch::num_rows).sum()).collect();
        let (last, others) = sizes.split_last().unwrap();
        assert!(others.iter().all(|&size| size == group_rows) && *last <= group_rows);
        assert_eq!(numbers(&groups.concat(), 0), numbers(&batches, 0));
    }
}
