//! `--select`: columns computed from columns.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{Schema, SchemaRef};
use sqlparser::ast::{ExcludeSelectItem, Ident, ObjectName, SelectItem, WildcardAdditionalOptions};

use crate::{Error, columns};

use crate::bound::Expression;
use crate::parse;
use crate::print::quoted;

/// A list of named expressions. `Display` prints SQL.
#[derive(Clone, Debug)]
pub struct Projection {
    items: Vec<Expression>,
    schema: SchemaRef,
}

impl Projection {
    /// Parses `a, b * 2 AS c, *`; `* EXCEPT (a, b)` means all other columns. The default name of an expression is its
    /// text.
    ///
    /// # Errors
    /// [`Error::Expression`] if `text` cannot be parsed, or two results have the same name.
    pub fn parse(text: &str, schema: &Schema) -> Result<Projection, Error> {
        let mut items = Vec::new();
        for item in parse::projection(text)? {
            match item {
                SelectItem::UnnamedExpr(expr) => {
                    let expression = Expression::bind(&expr, schema)?;
                    let column = expression.as_column().map(|place| schema.field(place).name().clone());
                    items.push((column.unwrap_or_else(|| expr.to_string()), expression));
                }
                SelectItem::ExprWithAlias { expr, alias } => {
                    items.push((alias.value, Expression::bind(&expr, schema)?));
                }
                SelectItem::Wildcard(options) => {
                    let left_out = left_out(&options, schema)?;
                    let kept = (0..schema.fields().len()).filter(|place| !left_out.contains(place));
                    items.extend(kept.map(|place| named_column(place, schema)));
                }
                _ => {
                    return Err(Error::Expression("use only *, EXPRESSION or EXPRESSION AS NAME".into()));
                }
            }
        }
        Projection::new(items, schema)
    }

    /// Makes a projection of named expressions over the columns of a schema.
    ///
    /// # Errors
    /// [`Error::Expression`] if two expressions have the same name.
    pub fn new(items: Vec<(String, Expression)>, schema: &Schema) -> Result<Projection, Error> {
        let mut names = BTreeSet::new();
        if let Some((name, _)) = items.iter().find(|(name, _)| !names.insert(name.as_str())) {
            return Err(Error::Expression(format!(
                "two columns of the result are named {name}; rename one by AS"
            )));
        }
        let fields: Vec<_> = items.iter().map(|(name, expression)| expression.field(name, schema)).collect();
        let schema = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
        Ok(Projection { items: items.into_iter().map(|(_, expression)| expression).collect(), schema })
    }

    /// Returns the schema of the results.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// Returns the expressions.
    #[must_use]
    pub fn expressions(&self) -> &[Expression] {
        &self.items
    }

    /// Returns the indices of the columns used, ascending.
    #[must_use]
    pub fn columns(&self) -> Vec<usize> {
        let columns: BTreeSet<usize> = self.items.iter().flat_map(Expression::columns).collect();
        columns.into_iter().collect()
    }

    /// Rebinds the projection to batches that have only some columns, as [`Expression::onto`].
    ///
    /// # Panics
    /// If a column that the projection uses is not in `kept`.
    #[must_use]
    pub fn onto(mut self, kept: &[usize]) -> Projection {
        self.items = self.items.into_iter().map(|item| item.onto(kept)).collect();
        self
    }

    /// Evaluates the expressions on the rows of a batch.
    ///
    /// # Errors
    /// Returns the errors of [`Expression::evaluate`].
    pub fn apply(&self, batch: &RecordBatch) -> Result<RecordBatch, Error> {
        let columns = self.items.iter().map(|item| item.evaluate(batch)).collect::<Result<Vec<_>, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?)
    }
}

impl fmt::Display for Projection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (item, field)) in self.items.iter().zip(self.schema.fields()).enumerate() {
            let between = if place > 0 { ", " } else { "" };
            let (text, name) = (item.to_string(), quoted(field.name()));
            match text == name {
                true => write!(f, "{between}{text}")?,
                false => write!(f, "{between}{text} AS {name}")?,
            }
        }
        Ok(())
    }
}

fn named_column(place: usize, schema: &Schema) -> (String, Expression) {
    (schema.field(place).name().clone(), Expression::column(place, schema))
}

/// Returns the indices of the columns that `* EXCEPT (…)` names.
fn left_out(options: &WildcardAdditionalOptions, schema: &Schema) -> Result<BTreeSet<usize>, Error> {
    if options.opt_ilike.is_some() || options.opt_replace.is_some() || options.opt_rename.is_some() {
        return Err(Error::Expression("after * only EXCEPT (…) is supported".into()));
    }
    let mut names: Vec<&Ident> = Vec::new();
    if let Some(except) = &options.opt_except {
        names.push(&except.first_element);
        names.extend(&except.additional_elements);
    }
    let only = |name: &'_ ObjectName| match name.0.as_slice() {
        [part] => part.as_ident().cloned(),
        _ => None,
    };
    let excluded: Vec<Option<Ident>> = match &options.opt_exclude {
        Some(ExcludeSelectItem::Single(name)) => vec![only(name)],
        Some(ExcludeSelectItem::Multiple(names)) => names.iter().map(only).collect(),
        None => Vec::new(),
    };
    let excluded = excluded.into_iter().collect::<Option<Vec<Ident>>>();
    let excluded = excluded
        .ok_or_else(|| Error::Expression("a column after EXCLUDE must not have a table name".into()))?;
    let all = names.into_iter().chain(&excluded);
    all.map(|name| columns::find(&name.value, name.quote_style.is_some(), schema)).collect()
}
