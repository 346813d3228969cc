//! Look-ups in tables.

use std::sync::Arc;

use arrow_array::{BinaryArray, RecordBatch};
use arrow_ipc::writer::StreamWriter;
use sakiyomi_testing::Scratch;

use crate::harness::{lines, refused};

fn description(file: &std::path::Path, keys: &str) -> String {
    format!(
        "[source.in]\nfrom = \"stdin\"\nsplit = \",\"\nfields = [\"ip\", \"n\"]\ncolumns = {{ n = \"int64\" }}\n\
         [[step]]\nop = \"lookup\"\nfile = \"{}\"\n{keys}\n[sink.out]\nto = \"stdout\"\nformat = \"csv\"\n",
        file.display()
    )
}

const INPUT: &str = "10.0.0.1,5\n10.0.0.9,6\n10.0.0.2,7\n";

#[test]
fn columns_of_a_table_are_added_and_missing_keys_are_nulls_or_dropped() {
    let scratch = Scratch::new("pipeline_lookup");
    let hosts = scratch.file("hosts.csv", "name,ip,rack,n\n\"a, b\",10.0.0.1,3,x\nc,10.0.0.2,4,y\n");
    let keys = "on = \"ip = ip\"\ncolumns = { rack = \"int64\" }";
    assert_eq!(
        lines(&description(&hosts, keys), INPUT),
        "ip,n,name,rack,n_right\n10.0.0.1,5,\"a, b\",3,x\n10.0.0.9,6,,,\n10.0.0.2,7,c,4,y\n"
    );
    let keys = "on = \"ip = ip\"\nmissing = \"drop\"\n[[step]]\nop = \"filter\"\nwhere = \"rack = '4'\"\n\
                [[step]]\nop = \"select\"\ncolumns = \"name\"";
    assert_eq!(lines(&description(&hosts, keys), INPUT), "name\nc\n");
}

#[test]
fn a_table_of_arrow_is_found_by_its_name() {
    let scratch = Scratch::new("pipeline_lookup_arrow");
    let file = scratch.path("numbers.arrow");
    let write = format!(
        "[source.in]\nfrom = \"generator\"\nrows = 20000\n[[step]]\nop = \"select\"\n\
         columns = \"number, number * number AS square\"\n[sink.out]\nto = \"file:{}\"\nformat = \"arrow\"\n",
        file.display()
    );
    lines(&write, "");
    let keys = "on = \"n = number\"";
    assert_eq!(
        lines(&description(&file, keys), INPUT),
        "ip,n,number,square\n10.0.0.1,5,5,25\n10.0.0.9,6,6,36\n10.0.0.2,7,7,49\n"
    );
}

#[test]
fn a_table_that_does_not_fit_is_refused() {
    let scratch = Scratch::new("pipeline_lookup_refused");
    let twice = scratch.file("twice.csv", "ip,a\nx,1\nx,2\n");
    let cases = [
        (&twice, "on = \"ip = ip\"", "two rows have the key Text(\"x\"); a look-up needs unique keys"),
        (&twice, "on = \"ip = pi\"", "no column is named pi; the columns are ip, a"),
        (&twice, "on = \"n = ip\"", "n is Int64 and ip is Utf8; cast one of them in a select before"),
        (&twice, "on = \"ip = ip\"\ncolumns = { b = \"int64\" }", "has no column b; it has ip, a"),
        (
            &twice,
            "on = \"ip = ip\"\ncolumns = { ip = \"text\", a = \"bool\" }",
            "the value of column a is not true or false",
        ),
        (&scratch.path("none.csv"), "on = \"ip = ip\"", "No such file or directory"),
    ];
    for (file, keys, expected) in cases {
        let error = refused(&description(file, keys));
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_table_with_columns_that_rows_do_not_have_is_refused() {
    let scratch = Scratch::new("pipeline_lookup_types");
    let file = scratch.path("keys.arrow");
    let column = Arc::new(BinaryArray::from(vec![b"x".as_slice()]));
    let batch = RecordBatch::try_from_iter([("raw", column as _)]).unwrap();
    let mut writer = StreamWriter::try_new(std::fs::File::create(&file).unwrap(), &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    let error = refused(&description(&file, "on = \"ip = raw\""));
    let expected =
        format!("step.0.file: column raw of {} is Binary, which pipelines do not support", file.display());
    assert!(error.contains(&expected), "{error}");
}
