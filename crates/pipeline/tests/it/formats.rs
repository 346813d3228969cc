//! Records in and out.

use std::io::Cursor;

use sakiyomi_pipeline::{Error, Unused};

use crate::harness::{lines, run};

const LOG: &str = r#"192.0.2.1 - - [10/Oct/2000:13:55:36 +0000] "GET /a HTTP/1.1" 200 10 "-" "x"
192.0.2.2 - u [10/Oct/2000:13:55:37 +0000] "GET /b HTTP/1.1" 503 - "-" "x"
192.0.2.1 - - [10/Oct/2000:13:55:38 +0000] "POST /a HTTP/1.1" 500 30 "http://e/" "x"
"#;

#[test]
fn errors_of_a_web_server_are_filtered_and_selected() {
    let written = lines(
        r#"
        [source.log]
        from = "stdin"
        format = "combined"
        [[step]]
        op = "filter"
        where = "status >= 500"
        [[step]]
        op = "select"
        columns = "time, lower(method) || path AS request, bytes * 2 AS double, host"
        [sink.out]
        to = "stdout"
        format = "json"
        "#,
        LOG,
    );
    assert_eq!(
        written,
        "{\"time\":\"2000-10-10T13:55:37Z\",\"request\":\"get/b\",\"double\":null,\"host\":\"192.0.2.2\"}\n\
         {\"time\":\"2000-10-10T13:55:38Z\",\"request\":\"post/a\",\"double\":60,\"host\":\"192.0.2.1\"}\n"
    );
}

#[test]
fn a_pattern_and_fields_between_blanks_read_the_same() {
    let pattern = r#"
        [source.log]
        from = "stdin"
        parse = '^(?P<host>\S+) \S+ \S+ \S+ \S+ "(?P<method>\S+) (?P<path>\S+)'
        [sink.out]
        to = "stdout"
        "#;
    let split = r#"
        [source.log]
        from = "stdin"
        split = " "
        fields = ["host", "ident", "user", "time", "zone", "method", "path"]
        [[step]]
        op = "select"
        columns = "host, substring(method from 2) as method, path"
        [sink.out]
        to = "stdout"
        "#;
    assert_eq!(lines(pattern, LOG), "192.0.2.1\tGET\t/a\n192.0.2.2\tGET\t/b\n192.0.2.1\tPOST\t/a\n");
    assert_eq!(lines(pattern, LOG), lines(split, LOG));
}

/// Reads a format and writes another one.
fn convert(from: &str, to: &str, input: Vec<u8>) -> Vec<u8> {
    let columns = r#"columns = { b = "bool", d = "date", f = "float64", i = "int64", t = "text", u = "timestamp(us)" }"#;
    let description = format!(
        "[source.in]\nfrom = \"stdin\"\nformat = \"{from}\"\n{columns}\n[sink.out]\nto = \"stdout\"\nformat = \"{to}\"\n"
    );
    run(&description, Cursor::new(input))
        .unwrap_or_else(|error| panic!("{from} to {to}: {error}"))
        .written
        .bytes()
}

#[test]
fn rows_pass_all_formats_unchanged() {
    let json = "{\"b\":true,\"d\":\"2000-02-29\",\"f\":0.1,\"i\":-9223372036854775808,\"t\":\"a \\\"b\\\",\\n\u{e9}\",\"u\":\"2000-02-29T12:00:00.000001Z\"}\n\
                {\"b\":null,\"d\":null,\"f\":null,\"i\":null,\"t\":null,\"u\":null}\n\
                {\"b\":false,\"d\":\"1969-12-31\",\"f\":-2.5,\"i\":0,\"t\":\"\",\"u\":\"1969-12-31T23:59:59.999999Z\"}\n";
    let mut bytes = json.as_bytes().to_vec();
    let formats = ["json", "csv", "arrow", "csv", "json", "arrow", "json"];
    for pair in formats.windows(2) {
        bytes = convert(pair[0], pair[1], bytes);
    }
    assert_eq!(String::from_utf8(bytes).unwrap(), json);
}

#[test]
fn bad_records_stop_the_pipeline_or_are_counted() {
    let description = |bad: &str| {
        format!(
            "[source.in]\nfrom = \"stdin\"\nformat = \"json\"\ncolumns = {{ n = \"int64\" }}\n{bad}\n\
             [sink.out]\nto = \"stdout\"\n"
        )
    };
    let input = || Cursor::new(b"{\"n\":1}\n{\"n\":\"x\"}\n\xff\n{\"n\":2}".to_vec());
    let ended = run(&description("bad = \"skip\""), input()).unwrap();
    assert_eq!(ended.written.text(), "1\n2\n");
    let dropped = &ended.outcome.sources[0].1;
    assert_eq!(dropped.bad, 2);
    assert_eq!(
        dropped.first_bad.as_deref(),
        Some("at byte 8: the value of column n is not an integer of its type")
    );
    let Err(error) = run(&description(""), input()) else { panic!() };
    assert!(matches!(error, Error::Record { offset: 8, .. }), "{error}");
    assert_eq!(
        error.to_string(),
        "source.in: at byte 8 of the standard input: the value of column n is not an integer of its type; \
         bad = \"skip\" counts such records and continues"
    );
}

#[test]
fn a_byte_that_is_not_utf_8_spoils_its_record_of_several_lines_and_no_other() {
    let description = "[source.in]\nfrom = \"stdin\"\nformat = \"csv\"\nfields = [\"a\", \"n\"]\nbad = \"skip\"\n\
                       [sink.out]\nto = \"stdout\"\n";
    let records: [&[u8]; 3] = [b"\"x\n\xff\",2\n", b"\"\xff\nx\",2\n", b"\"x\n\xff\ny\",2\n"];
    for record in records {
        let input = [b"a,1\n", record, b"\"b\nc\",3\nd,4\n"].concat();
        let ended = run(description, Cursor::new(input)).unwrap();
        assert_eq!(ended.written.text(), "a\t1\nb\nc\t3\nd\t4\n");
        let dropped = &ended.outcome.sources[0].1;
        assert_eq!(
            (dropped.bad, dropped.first_bad.as_deref()),
            (1, Some("at byte 4: the line is not UTF-8"))
        );
    }
}

#[test]
fn rows_that_cannot_be_computed_stop_the_pipeline_or_are_counted() {
    let description = |bad: &str| {
        format!(
            "[source.in]\nfrom = \"stdin\"\nsplit = \",\"\ncolumns = {{ a = \"int64\", b = \"int64\" }}\n\
             [[step]]\nop = \"select\"\ncolumns = \"a / b AS q\"\n{bad}\n[sink.out]\nto = \"stdout\"\n"
        )
    };
    let input = || Cursor::new(b"6,2\n1,0\n8,4\n".to_vec());
    let ended = run(&description("bad = \"skip\""), input()).unwrap();
    assert_eq!(ended.written.text(), "3\n2\n");
    assert_eq!(ended.outcome.steps, [("select".to_owned(), Unused { bad: 1, late: 0 })]);
    let Err(error) = run(&description(""), input()) else { panic!() };
    assert!(matches!(error, Error::Row { .. }), "{error}");
}

#[test]
fn an_arrow_input_with_other_columns_is_refused() {
    let arrow = convert("csv", "arrow", b"b,d,f,i,t,u\n".to_vec());
    let description = "[source.in]\nfrom = \"stdin\"\nformat = \"arrow\"\ncolumns = { i = \"text\" }\n\
                       [sink.out]\nto = \"stdout\"\n";
    let Err(error) = run(description, Cursor::new(arrow)) else { panic!() };
    assert_eq!(error.to_string(), "source.in: the standard input: column i is Int64, and Utf8 was expected");
    let Err(error) = run(description, Cursor::new(b"no arrow at all".to_vec())) else { panic!() };
    assert!(error.to_string().ends_with("it is not a stream of Arrow IPC"), "{error}");
}
