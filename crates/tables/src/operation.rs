//! Operations on tables.

use sakiyomi_query::aggregate::Function;
use sakiyomi_query::statement::{Aggregate, Input, Join, Sort, Statement};
use sakiyomi_query::table::Table;

use crate::Error;

/// A statement without its tables.
#[derive(Clone, Debug)]
pub enum Operation {
    /// A sort of some rows of a table.
    Sort(RowOptions, Sort),
    /// A join of two tables.
    Join(Join),
    /// An aggregation of some rows of a table.
    Aggregate(RowOptions, Aggregate),
    /// Query 1 of TPC-H.
    Q1,
}

/// The rows and columns that a statement uses.
#[derive(Clone, Debug, Default)]
pub struct RowOptions {
    /// SQL condition on rows.
    pub filter: Option<String>,
    /// SQL expressions that replace the columns.
    pub select: Option<String>,
}

/// An aggregation as lists of columns for each function, each list separated by commas.
#[derive(Clone, Debug, Default)]
pub struct AggregateLists {
    /// Columns that form the groups.
    pub by: Option<String>,
    /// Columns to sum.
    pub sum: Vec<String>,
    /// Columns to average.
    pub avg: Vec<String>,
    /// Columns whose minimum is computed.
    pub min: Vec<String>,
    /// Columns whose maximum is computed.
    pub max: Vec<String>,
    /// Columns whose distinct values are counted.
    pub distinct: Vec<String>,
    /// Whether rows are counted.
    pub count: bool,
}

impl Operation {
    /// Returns its name in results.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Operation::Sort(..) => "sort",
            Operation::Join(_) => "join",
            Operation::Aggregate(..) => "aggregate",
            Operation::Q1 => "q1",
        }
    }

    /// Describes its parameters.
    #[must_use]
    pub fn description(&self) -> String {
        match self {
            Operation::Sort(rows, Sort { by, limit, .. }) => {
                let limit = limit.map_or_else(String::new, |limit| format!(", the first {limit} rows"));
                let by = by.replace(',', ", ").replace(':', " ");
                format!("by {by}{limit}{}", rows.describe())
            }
            Operation::Join(Join { on, kind, filter, select, .. }) => {
                let rows = RowOptions { filter: filter.clone(), select: select.clone() };
                format!("{kind} on {}{}", on.replace(',', ", "), rows.describe())
            }
            Operation::Aggregate(rows, Aggregate { by, .. }) => {
                let by =
                    by.as_ref().map_or("all rows".to_owned(), |by| format!("by {}", by.replace(',', ", ")));
                format!("{by}{}", rows.describe())
            }
            Operation::Q1 => String::new(),
        }
    }

    /// Returns the number of its tables.
    #[must_use]
    pub fn tables(&self) -> usize {
        if matches!(self, Operation::Join(_)) { 2 } else { 1 }
    }

    /// Returns the statement on opened tables.
    ///
    /// # Panics
    /// If there are not [`Operation::tables`] of them.
    #[must_use]
    pub fn statement(self, tables: Vec<Table>) -> Statement {
        let mut tables = tables.into_iter();
        let mut table = || tables.next().expect("a table for each of the operation");
        match self {
            Operation::Sort(rows, sort) => Statement::Sort(rows.input(table()), sort),
            Operation::Join(join) => Statement::Join(table(), table(), join),
            Operation::Aggregate(rows, aggregate) => Statement::Aggregate(rows.input(table()), aggregate),
            Operation::Q1 => Statement::Q1(table()),
        }
    }
}

impl RowOptions {
    /// Returns the table with the filter and the select list.
    fn input(self, table: Table) -> Input {
        Input { table, filter: self.filter, select: self.select }
    }

    /// Returns the text to append to a description.
    fn describe(&self) -> String {
        let filter = self.filter.as_ref().map(|filter| format!(", where {filter}"));
        let select = self.select.as_ref().map(|select| format!(", select {select}"));
        [filter, select].into_iter().flatten().collect()
    }
}

impl AggregateLists {
    /// Returns the aggregation.
    ///
    /// # Errors
    /// If there is nothing to compute.
    pub fn aggregate(self) -> Result<Aggregate, Error> {
        let AggregateLists { by, sum, avg, min, max, distinct, count } = self;
        let lists = [
            (Function::Sum, sum),
            (Function::Avg, avg),
            (Function::Min, min),
            (Function::Max, max),
            (Function::CountDistinct, distinct),
        ];
        let of =
            |(function, lists): (Function, Vec<String>)| lists.into_iter().map(move |list| (function, list));
        let functions: Vec<(Function, String)> = lists.into_iter().flat_map(of).collect();
        if !count && by.is_none() && functions.is_empty() {
            let problem =
                "no aggregate to compute; give --by, --sum, --avg, --min, --max, --distinct or --count";
            return Err(Error::Option(problem.to_owned()));
        }
        Ok(Aggregate { by, functions, count })
    }
}
