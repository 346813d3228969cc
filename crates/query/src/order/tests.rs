use arrow_schema::{Field, Fields};
use proptest::prelude::*;

use super::*;

fn schema(names: &[&str]) -> Schema {
    Schema::new(names.iter().map(|name| Field::new(*name, DataType::Int64, true)).collect::<Vec<_>>())
}

fn key(column: usize, descending: bool, nulls_first: bool) -> SortKey {
    SortKey { column, options: SortOptions { descending, nulls_first } }
}

#[test]
fn directions_nulls_and_quotes_are_read() {
    let schema = schema(&["a", "B", "x:y", "p,q", "say \"it\""]);
    let read = |text| parse(text, &schema).unwrap();
    assert_eq!(read("a"), [key(0, false, false)]);
    assert_eq!(read(" b:desc , a:nulls-first:asc"), [key(1, true, false), key(0, false, true)]);
    assert_eq!(read("\"x:y\":desc:nulls-first,\"p,q\""), [key(2, true, true), key(3, false, false)]);
    assert_eq!(read("\"say \"\"it\"\"\":nulls-last"), [key(4, false, false)]);
}

#[test]
fn bad_orders_are_refused_with_a_sentence() {
    let nested = DataType::Map(
        Field::new(
            "entries",
            DataType::Struct(Fields::from(vec![
                Field::new("k", DataType::Utf8, false),
                Field::new("v", DataType::Utf8, true),
            ])),
            false,
        )
        .into(),
        false,
    );
    let schema =
        Schema::new(vec![Field::new("price", DataType::Int64, true), Field::new("map", nested, true)]);
    let refused = |text| parse(text, &schema).unwrap_err().to_string();
    assert_eq!(refused("prize"), "no column is named prize; did you mean price?");
    assert_eq!(refused("zzz"), "no column is named zzz; the columns are price, map");
    assert!(refused("price:down").contains("price:down is not a sort order"));
    assert!(refused("price:asc:desc").contains("twice"));
    assert!(refused("price,PRICE").contains("twice"));
    assert!(refused("").contains("missing"));
    assert!(refused("price,,price").contains("missing"));
    assert!(refused("\"price").contains("no end"));
    assert!(refused("\"price\"x").contains("missing"));
    assert!(refused("\"PRICE\"").contains("no column"));
    if !has_order(schema.field(1).data_type()) {
        assert!(refused("map").contains("cannot be ordered"));
    }
}

proptest! {
    #[test]
    fn printed_keys_parse_to_the_same_keys(
        names in prop::collection::btree_set("[a-c:,\" ]{1,4}", 1..6),
        flags in prop::collection::vec(any::<(bool, bool)>(), 6),
    ) {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let schema = schema(&names);
        let keys: Vec<SortKey> = (0..names.len()).map(|i| key(i, flags[i].0, flags[i].1)).collect();
        prop_assert_eq!(parse(&print(&keys, &schema), &schema).unwrap(), keys);
    }

    #[test]
    fn any_text_is_read_or_refused_without_panic(text in "[aB:,\" \\PC]{0,20}") {
        let _ = parse(&text, &schema(&["a", "B"]));
    }
}
