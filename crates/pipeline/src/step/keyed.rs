//! Keyed operators, which may run as replicas.

use sakiyomi_stream::operators::{KeyBy, LateCounter, key_into};
use sakiyomi_stream::{Flow, Join, Operator, Replicas};

use super::write_key;
use crate::row::Row;

/// How the rows of a step are divided among its replicas.
pub(crate) struct Division {
    pub(crate) replicas: Replicas,
    /// Names of the operators that divide the rows of each input, and of the one that makes the results one flow.
    pub(crate) partitions: Vec<String>,
    pub(crate) merge: String,
    /// For each input the cells of the key.
    pub(crate) keys: Vec<Vec<usize>>,
}

/// Adds an operator to a flow; `make` is called once for each instance, and returns its counter as well.
pub(crate) fn then<O: Operator<In = Row, Out = Row>>(
    input: Flow<Row>,
    name: &str,
    division: Option<Division>,
    mut make: impl FnMut() -> (O, LateCounter),
) -> (Flow<Row>, Vec<LateCounter>) {
    let Some(Division { replicas, partitions, merge, keys }) = division else {
        let (operator, late) = make();
        return (input.then(name, operator), vec![late]);
    };
    let mut counters = Vec::new();
    let keyed = input.by_key(&partitions[0], replicas, key(&keys[0]));
    let results = keyed.then(name, || {
        let (operator, late) = make();
        counters.push(late);
        operator
    });
    (results.merge(&merge), counters)
}

/// Like [`then`] for a join.
pub(crate) fn join<J: Join<Left = Row, Right = Row, Out = Row>>(
    [left, right]: [Flow<Row>; 2],
    name: &str,
    division: Option<Division>,
    mut make: impl FnMut() -> (J, LateCounter),
) -> (Flow<Row>, Vec<LateCounter>) {
    let Some(Division { replicas, partitions, merge, keys }) = division else {
        let (operator, late) = make();
        return (left.join(name, right, operator), vec![late]);
    };
    let mut counters = Vec::new();
    let keyed = left.by_key(&partitions[0], replicas, key(&keys[0]));
    let results = keyed.join(name, (&partitions[1], right, key(&keys[1])), || {
        let (operator, late) = make();
        counters.push(late);
        operator
    });
    (results.merge(&merge), counters)
}

fn key(cells: &[usize]) -> impl KeyBy<Row, Key = Vec<u8>> + use<> {
    let cells = cells.to_vec();
    key_into(move |row: &Row, key: &mut Vec<u8>| write_key(row, &cells, key))
}
