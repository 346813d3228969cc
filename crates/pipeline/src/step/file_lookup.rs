//! Columns of a table that stays in its file, for the key of a row.

use std::sync::Arc;

use sakiyomi_io::{Error as IoError, RandomRead, RandomReader};
use sakiyomi_stream::{AsyncOperator, Emitter, Recover, SaveState, Wakeup};

use super::{LookupColumns, stateless};
use crate::Error;
use crate::lookup::{FileTable, Found, TableReader};
use crate::row::Row;

/// Like [`Lookup`](super::Lookup), where the row of the table is read by another thread.
pub(crate) struct FileLookup {
    table: TableReader,
    reader: RandomReader,
    columns: LookupColumns,
    wakeup: Wakeup,
    in_flight_max: usize,
    key: Vec<u8>,
    /// Kept for its capacity.
    results: Vec<RandomRead>,
}

impl FileLookup {
    /// # Errors
    /// If the file cannot be read by the declared method.
    pub(crate) fn open(table: &Arc<FileTable>, columns: LookupColumns) -> Result<FileLookup, Error> {
        let wakeup = Wakeup::new();
        let reader = table.open({
            let wakeup = wakeup.clone();
            move || wakeup.notify()
        })?;
        let in_flight_max = table.in_flight();
        let (table, key) = (TableReader::new(table), Vec::new());
        Ok(FileLookup { table, reader, columns, wakeup, in_flight_max, key, results: Vec::new() })
    }
}

impl Recover for FileLookup {
    fn state(&mut self) -> Option<&mut dyn SaveState> {
        Some(self)
    }
}

stateless!(FileLookup);

impl AsyncOperator for FileLookup {
    type In = Row;
    type Out = Row;
    /// The bytes of the table's row; none if the index does not have the key.
    type Reply = Option<Result<Vec<u8>, IoError>>;

    fn in_flight_max(&self) -> usize {
        self.in_flight_max
    }

    fn wakeup(&self) -> Wakeup {
        self.wakeup.clone()
    }

    fn submit(&mut self, ticket: u64, row: &Row) -> Option<Self::Reply> {
        let has_key = self.columns.write_key(row, &mut self.key);
        let place = has_key.then(|| self.table.place(&self.key)).flatten();
        match place {
            None => Some(None),
            Some(place) => {
                self.reader.request(ticket, place.offset, place.length as usize);
                None
            }
        }
    }

    fn poll(&mut self, replies: &mut Vec<(u64, Self::Reply)>) {
        self.reader.exchange(&mut self.results);
        replies.extend(self.results.drain(..).map(|read| (read.tag, Some(read.result))));
    }

    fn complete(&mut self, row: Row, reply: Self::Reply, out: &mut Emitter<Row>) {
        let bytes = match reply {
            None => return self.columns.emit(row, None, out),
            Some(Ok(bytes)) => bytes,
            Some(Err(error)) => return self.columns.errors.note(&std::io::Error::from(error)),
        };
        self.columns.write_key(&row, &mut self.key);
        match self.table.row(bytes, &self.key) {
            Found::Row(found) => self.columns.emit(row, Some(&found), out),
            Found::OtherKey => self.columns.emit(row, None, out),
            Found::Changed(reason) => self.columns.errors.note(&reason),
        }
    }
}
