//! The order of rows: columns, directions, and where nulls go. Pure.
//!
//! ```text
//! l_partkey,l_suppkey:desc,"odd, name":asc:nulls-first
//! ```

use arrow_schema::{DataType, Schema, SortOptions};

use sakiyomi_expression::columns;

use crate::Error;

#[cfg(test)]
mod tests;

/// A sort column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortKey {
    /// The index in the schema.
    pub column: usize,
    /// The direction, and whether nulls come first.
    pub options: SortOptions,
}

/// Parses `NAME[:asc|:desc][:nulls-first|:nulls-last],…` against a schema. The default is ascending with nulls last;
/// NaN is greater than all numbers. `desc` does not move nulls. A name with `,` or `:` must be in double quotes, in
/// which `""` is a quote.
///
/// # Errors
/// [`Error::Query`] if a column is not in the schema, is repeated, or has a type without an order.
pub fn parse(text: &str, schema: &Schema) -> Result<Vec<SortKey>, Error> {
    let mut keys: Vec<SortKey> = Vec::new();
    for item in split(text)? {
        let key = parse_key(&item, schema)?;
        if keys.iter().any(|known| known.column == key.column) {
            let name = schema.field(key.column).name();
            return Err(Error::Query(format!("column {name} appears twice in the order; name it once")));
        }
        keys.push(key);
    }
    Ok(keys)
}

/// Prints keys in the syntax of [`parse`].
#[must_use]
pub fn print(keys: &[SortKey], schema: &Schema) -> String {
    let print_key = |key: &SortKey| {
        let name = schema.field(key.column).name();
        let is_plain = !name.is_empty() && !name.contains([',', ':', '"']) && name.trim() == name;
        let mut text = if is_plain { name.clone() } else { format!("\"{}\"", name.replace('"', "\"\"")) };
        if key.options.descending {
            text.push_str(":desc");
        }
        if key.options.nulls_first {
            text.push_str(":nulls-first");
        }
        text
    };
    keys.iter().map(print_key).collect::<Vec<_>>().join(",")
}

/// An item of the list: a name, and modifiers after colons.
#[derive(Debug, Default)]
struct Item {
    name: String,
    quoted: bool,
    words: Vec<String>,
}

/// Splits at commas and colons outside quotes.
fn split(text: &str) -> Result<Vec<Item>, Error> {
    let mut items = Vec::new();
    let mut rest = text;
    loop {
        let (item, after) = split_item(rest, text)?;
        items.push(item);
        match after.strip_prefix(',') {
            Some(after) => rest = after,
            None => return Ok(items),
        }
    }
}

fn split_item<'a>(text: &'a str, whole: &str) -> Result<(Item, &'a str), Error> {
    let mut item = Item::default();
    let mut rest = text.trim_start();
    if rest.starts_with('"') {
        let (name, after) = split_quoted(rest)
            .ok_or_else(|| Error::Query(format!("a quote in the order {whole} has no end; add a \"")))?;
        (item.name, item.quoted, rest) = (name, true, after.trim_start());
        if !rest.is_empty() && !rest.starts_with([',', ':']) {
            return Err(Error::Query(format!(
                "a comma or colon is missing after \"{}\" in the order {whole}",
                item.name
            )));
        }
    } else {
        let end = rest.find([',', ':']).unwrap_or(rest.len());
        item.name = rest[..end].trim().to_owned();
        rest = &rest[end..];
    }
    if item.name.is_empty() && !item.quoted {
        return Err(Error::Query(format!(
            "a column is missing in the order '{whole}'; separate columns by commas"
        )));
    }
    while let Some(after) = rest.strip_prefix(':') {
        let end = after.find([',', ':']).unwrap_or(after.len());
        item.words.push(after[..end].trim().to_lowercase());
        rest = &after[end..];
    }
    Ok((item, rest))
}

/// Returns the text between quotes and the rest of the input; `None` if the closing quote is missing.
pub(crate) fn split_quoted(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut rest = text.strip_prefix('"')?;
    loop {
        let end = rest.find('"')?;
        name.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix('"') {
            Some(after) => rest = after,
            None => return Some((name, rest)),
        }
        name.push('"');
    }
}

fn parse_key(item: &Item, schema: &Schema) -> Result<SortKey, Error> {
    let column = columns::find(&item.name, item.quoted, schema)?;
    let (mut descending, mut nulls_first) = (None, None);
    for word in &item.words {
        let (place, value) = match word.as_str() {
            "asc" => (&mut descending, false),
            "desc" => (&mut descending, true),
            "nulls-first" => (&mut nulls_first, true),
            "nulls-last" => (&mut nulls_first, false),
            _ => {
                let name = &item.name;
                return Err(Error::Query(format!(
                    "{name}:{word} is not a sort order; use :asc, :desc, :nulls-first or :nulls-last"
                )));
            }
        };
        if place.replace(value).is_some() {
            return Err(Error::Query(format!("{}:{word} sets the same option twice", item.name)));
        }
    }
    let field = schema.field(column);
    if !has_order(field.data_type()) {
        return Err(Error::Query(format!(
            "rows cannot be ordered by {}, which is of type {}",
            field.name(),
            field.data_type()
        )));
    }
    let options =
        SortOptions { descending: descending.unwrap_or(false), nulls_first: nulls_first.unwrap_or(false) };
    Ok(SortKey { column, options })
}

/// Returns whether values of a type have an order, which is whether Arrow's row format supports the type.
#[must_use]
pub fn has_order(data_type: &DataType) -> bool {
    let field = arrow_row::SortField::new(data_type.clone());
    arrow_row::RowConverter::supports_fields(&[field])
}
