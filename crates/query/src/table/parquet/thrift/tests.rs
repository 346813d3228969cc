use proptest::prelude::*;

use super::*;

/// A header as `parquet` writes it: a data page of 30 bytes, 20 bytes compressed, with 7 values.
const HEADER: &[u8] = &[0x15, 0, 0x15, 60, 0x15, 40, 0x2c, 0x15, 14, 0x15, 0, 0x15, 6, 0x15, 6, 0, 0];

#[test]
fn the_sizes_of_a_page_are_found() {
    let expected = PageHeader { length: HEADER.len(), kind: 0, uncompressed: 30, compressed: 20, values: 7 };
    assert_eq!(page_header(&[HEADER, b"behind"].concat()), Ok(expected));
    for length in 0..HEADER.len() {
        assert_eq!(page_header(&HEADER[..length]), Err(Problem::End), "{length}");
    }
}

#[test]
fn lists_of_more_elements_than_bytes_are_refused() {
    // Field 1, a list of 2^31 structures.
    assert_eq!(length(&[0x19, 0xfc, 0x80, 0x80, 0x80, 0x80, 0x08, 0, 0]), Err(Problem::End));
    assert_eq!(length(&[0x19, 0x00, 0]), Ok(3), "an empty list has no type");
    assert_eq!(length(&[0x1c; 100]), Err(Problem::Invalid), "too deep");
    assert_eq!(
        length(&[0x15, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]),
        Err(Problem::Invalid)
    );
}

#[test]
fn the_row_groups_of_a_footer_are_found() {
    // A number, a list of two structures of one number each, a number.
    let footer = [0x15, 2, 0x39, 0x2c, 0x16, 4, 0, 0x16, 6, 0, 0x16, 8, 0];
    let expected = RowGroupBytes { list: 3, start: 4, ends: vec![7, 10] };
    assert_eq!(row_groups(&footer), Ok(Some(expected)));
    assert_eq!(row_groups(&[0x15, 2, 0x39, 0x0c, 0]), Ok(None), "an empty list");
    // The field 4 again, by its number.
    let twice = [0x49, 0x1c, 0x16, 4, 0, 0x09, 8, 0x1c, 0x16, 4, 0, 0];
    assert_eq!(row_groups(&twice), Err(Problem::Invalid));
    assert_eq!(row_groups(&[0x49, 0x15, 2, 0]), Err(Problem::Invalid), "numbers");
}

proptest! {
    #[test]
    fn any_bytes_are_a_structure_or_not(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(length) = length(&bytes) {
            prop_assert!(length <= bytes.len());
        }
        let _ = (page_header(&bytes), row_groups(&bytes));
    }
}
