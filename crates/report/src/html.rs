//! One self-contained page: opens from `file://`, loads nothing, prints well.
//!
//! It begins with the verdict and the first chart, followed by settings, figures and the other charts, and ends with
//! the glossary. The page is complete without a script. The script, which all pages share, adds a cursor that
//! displays the numbers of a chart, sorting and folding of tables, and the data of charts and tables as CSV.

mod page;
mod series;
mod table;

pub use page::render;
