use std::sync::Arc;

use proptest::prelude::*;
use sakiyomi_expression::row::Value;

use super::*;
use crate::row::{Handles, Row};

/// Slots of columns `name:type`, all used, in the order of the fields.
fn slots(fields: &[(&str, &str)]) -> Slots {
    Slots::new(fields.iter().enumerate().map(|(cell, (name, type_name))| {
        let kind = Kind::of(&type_of(type_name).unwrap()).unwrap();
        ((*name).to_owned(), Some((kind, cell)))
    }))
}

/// All records of a text.
fn all(parser: &mut Parser, text: &str) -> Vec<Result<Row, String>> {
    let block = Arc::new(Block::of_lines(text.as_bytes().to_vec(), 0, &Arc::default()));
    let mut handles = Handles::new(Arc::clone(&block));
    let (mut at, mut rows, mut out) = (0, Vec::new(), RowBuilder::default());
    while let Some((record, next)) = parser.record(block.text(), at) {
        at = next;
        match parser.parse(&block, record, &mut out) {
            Ok(true) => rows.push(Ok(out.finish(Some(&mut handles)))),
            Ok(false) => {}
            Err(bad) => rows.push(Err(parser.explain(bad))),
        }
    }
    rows
}

fn text(value: &str) -> Value<'_> {
    Value::Text(value)
}

#[test]
fn a_line_of_a_web_server_has_eleven_fields() {
    let line = "192.0.2.1 - frank [10/Oct/2000:13:55:36 -0700] \"GET /a b.gif HTTP/1.0\" 200 - \"-\" \"a \\\"b\\\"\"\r\n";
    let rows = all(&mut Parser::log(slots(&LOG_FIELDS)), line);
    let expected = Row::of([
        text("192.0.2.1"),
        Value::Null,
        text("frank"),
        Value::Int(971_211_336),
        text("GET"),
        text("/a b.gif"),
        text("HTTP/1.0"),
        Value::Int(200),
        Value::Null,
        Value::Null,
        text("a \\\"b\\\""),
    ]);
    assert_eq!(rows, [Ok(expected)]);
}

#[test]
fn fields_that_are_not_used_are_not_looked_at() {
    let fields = LOG_FIELDS
        .iter()
        .enumerate()
        .map(|(field, (name, _))| ((*name).to_owned(), (field == 0).then_some((Kind::Text, 0))));
    let rows = all(&mut Parser::log(Slots::new(fields)), "a b c [no time] nothing else\nshort\n");
    assert_eq!(rows, [Ok(Row::of([text("a")])), Err("the line is not in the log format".to_owned())]);
}

#[test]
fn fields_between_blanks_are_those_of_awk_and_other_separators_separate_each() {
    let fields = [("a", "text"), ("b", "int64"), ("c", "text")];
    let rows = all(&mut Parser::split(Separator::Blanks, slots(&fields)), "  x \t 1 y rest\nx 1\nx z y\n");
    assert_eq!(rows[0], Ok(Row::of([text("x"), Value::Int(1), text("y")])));
    assert_eq!(rows[1], Err("the record has only 2 fields".to_owned()));
    assert_eq!(rows[2], Err("the value of column b is not an integer of its type".to_owned()));
    let rows = all(&mut Parser::split(Separator::Byte(b';'), slots(&fields)), "x;;y\n;2;");
    assert_eq!(rows[0], Ok(Row::of([text("x"), Value::Null, text("y")])));
    assert_eq!(rows[1], Ok(Row::of([text(""), Value::Int(2), text("")])));
}

#[test]
fn named_groups_of_a_pattern_are_fields() {
    let regex = Regex::new(r"^(?P<key>\w+)=(\d)(?P<value>\d*)(?P<rest>!)?").unwrap();
    let fields = [("key", "text"), ("value", "int64"), ("rest", "text")];
    let rows = all(&mut Parser::pattern(regex, slots(&fields)), "a=12\nb=3!\nc\n");
    assert_eq!(rows[0], Ok(Row::of([text("a"), Value::Int(2), Value::Null])));
    assert_eq!(rows[1], Ok(Row::of([text("b"), Value::Null, text("!")])));
    assert_eq!(rows[2], Err("the line does not match the pattern of `parse`".to_owned()));
}

#[test]
fn values_of_csv_may_have_quotes_line_ends_and_any_order() {
    let fields = [("b", "int64"), ("a", "text")];
    let data = "\u{feff}a,x,b\r\n1,2,3\n\"q\"\"\n,\",,4\n\n\"\",,\nshort\n\"open,1,2";
    let rows = all(&mut Parser::csv(b',', true, slots(&fields)), data);
    assert_eq!(rows[0], Ok(Row::of([Value::Int(3), text("1")])));
    assert_eq!(rows[1], Ok(Row::of([Value::Int(4), text("q\"\n,")])));
    assert_eq!(rows[2], Ok(Row::of([Value::Null, text("")])));
    assert_eq!(rows[3], Err("the record has only 1 fields".to_owned()));
    assert_eq!(rows[4], Err("the record ends within quotes".to_owned()));
    let rows = all(&mut Parser::csv(b',', true, slots(&fields)), "a,c\n");
    assert!(rows[0].as_ref().unwrap_err().starts_with("the header has no column b"), "{rows:?}");
}

#[test]
fn objects_of_json_have_their_columns_in_any_order() {
    let fields = [("a", "text"), ("n", "float64"), ("t", "timestamp(ms)"), ("ok", "bool")];
    let data = "{\"n\":1,\"other\":{\"a\":[1]},\"a\":\"x\\ny\",\"t\":\"1970-01-01T00:00:01Z\"}\n\
                {\"a\":null,\"ok\":true,\"n\":-2.5,\"t\":7}\n{\"a\":1}\n[1]\n{\"a\":\"x\"} 1\n{\"n\":{}}\n";
    let rows = all(&mut Parser::json(slots(&fields)), data);
    assert_eq!(rows[0], Ok(Row::of([text("x\ny"), Value::Float(1.0), Value::Int(1000), Value::Null])));
    assert_eq!(rows[1], Ok(Row::of([Value::Null, Value::Float(-2.5), Value::Int(7), Value::Bool(true)])));
    assert_eq!(rows[2], Err("the value of column a is not a text".to_owned()));
    assert_eq!(rows[3], Err("the line is not an object of JSON".to_owned()));
    assert_eq!(rows[4], Err("the line is not an object of JSON".to_owned()));
    assert_eq!(rows[5], Err("the value of column n is not a number".to_owned()));
}

#[test]
fn lines_that_are_not_utf_8_are_bad() {
    let block = Block::of_lines(b"ok\n\xff\n".to_vec(), 0, &Arc::default());
    let mut parser = Parser::lines(slots(&[("line", "text")]));
    let mut out = RowBuilder::default();
    assert_eq!(parser.parse(&block, 0..2, &mut out), Ok(true));
    assert_eq!(parser.parse(&block, 3..4, &mut out), Err(Bad::NotUtf8));
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused_without_panic(data in "\\PC*|([a-z\",:{}\\[\\] \\-0-9\n\\\\]|\u{e9}){0,80}") {
        let fields = [("a", "text"), ("n", "float64"), ("t", "timestamp(ms)")];
        for mut parser in [
            Parser::lines(slots(&fields[..1])),
            Parser::split(Separator::Blanks, slots(&fields)),
            Parser::split(Separator::Byte(b','), slots(&fields)),
            Parser::csv(b',', false, slots(&fields)),
            Parser::csv(b',', true, slots(&fields)),
            Parser::json(slots(&fields)),
            Parser::log(slots(&LOG_FIELDS)),
        ] {
            let _ = all(&mut parser, &data);
        }
    }
}
