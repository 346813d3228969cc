//! Saved state: encodings, and bytes that are damaged.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt::Debug;

use rand_core::Rng;
use sakiyomi_stream::operators::{
    Count, Distinct, EventTime, Keyed, KeysFull, OrderedF64, Sessions, TimeJoin, Top, WindowDistinct,
    WindowResult, Windows, distinct_count, side, top_values,
};
use sakiyomi_stream::{Decode, Decoder, Emitter, Encode, Frame, Join, Operator, SaveState, StateError};

use super::{Event, Step, call, key, steps, time};
use crate::inputs::{below, random};

/// Checks that a value is read as it was written, that each prefix of its encoding is an error, and that any other bytes
/// are a value or an error.
fn check<T: Encode + Decode + PartialEq + Debug>(value: &T) {
    let mut bytes = Vec::new();
    value.encode(&mut bytes);
    assert!(!bytes.is_empty(), "{value:?}");
    let mut from = Decoder::new(&bytes);
    assert_eq!(T::decode(&mut from).as_ref(), Ok(value));
    assert_eq!(from.finish(), Ok(()));
    for length in 0..bytes.len() {
        assert!(T::decode(&mut Decoder::new(&bytes[..length])).is_err(), "{length} bytes of {value:?}");
    }
    for index in 0..bytes.len() {
        for other in [0, 1, 2, 0x7F, 0x80, 0xFF] {
            let mut bytes = bytes.clone();
            bytes[index] = other;
            let _ = T::decode(&mut Decoder::new(&bytes));
        }
    }
}

#[test]
fn values_are_read_as_they_were_written() {
    check(&(0_u8, u16::MAX, 7_u32, u64::MAX));
    check(&(u128::MAX, -1_i8, i16::MIN, i32::MIN, i64::MIN, i128::MIN));
    check(&(1.5_f32, f64::NEG_INFINITY, OrderedF64(f64::NAN), usize::MAX, true, 'ü'));
    check(&((), Some(3_u8), None::<String>, (Some(Some(false)),)));
    check(&(
        "text".to_owned(),
        String::new(),
        vec![1_u8, 2],
        Vec::<u64>::new(),
        vec![(1_u8, "a".to_owned())],
    ));
    check(&(Box::<str>::from("x"), Box::new(5_u16), Box::<[u8]>::from([1, 2]), [1_u16, 2, 3], [0_u8; 0]));
    check(&(VecDeque::from([1_u32, 2]), BTreeMap::from([(1_u8, 'a'), (2, 'b')]), BTreeSet::from([5_i64])));
    check(&HashMap::<String, u64>::from([("a".to_owned(), 1), ("b".to_owned(), 2)]));
    check(&vec![vec![vec![()]]; 3]);
}

#[test]
fn equal_maps_have_equal_bytes_whatever_their_hashers() {
    let bytes = |seed: u64| {
        let map: HashMap<u64, ()> = (1..=100).map(|key| (key * seed % 101, ())).collect();
        let mut bytes = Vec::new();
        map.encode(&mut bytes);
        bytes
    };
    assert_eq!(bytes(7), bytes(9));
}

#[test]
fn any_bytes_are_a_value_or_an_error() {
    let mut random = random(91);
    for _ in 0..20_000 {
        let mut bytes = vec![0; below(&mut random, 40)];
        random.fill_bytes(&mut bytes);
        // Small numbers make lengths and tags that are valid.
        bytes.iter_mut().for_each(|byte| *byte %= if byte.is_multiple_of(3) { 4 } else { 255 });
        let _ = <Vec<Vec<(u64, u8)>>>::decode(&mut Decoder::new(&bytes));
        let _ = <HashMap<String, Vec<u8>>>::decode(&mut Decoder::new(&bytes));
        let _ = <BTreeMap<u8, Option<char>>>::decode(&mut Decoder::new(&bytes));
        let _ = <(bool, [u8; 4], VecDeque<i64>)>::decode(&mut Decoder::new(&bytes));
    }
}

#[test]
fn a_length_beyond_the_bytes_reserves_no_memory() {
    let mut bytes = Vec::new();
    u64::MAX.encode(&mut bytes);
    bytes.extend([0; 16]);
    let short = |needed, left| Err(StateError::Short { needed, left });
    assert_eq!(<Vec<[u64; 1000]>>::decode(&mut Decoder::new(&bytes)).map(|_| ()), short(u64::MAX, 16));
    assert_eq!(String::decode(&mut Decoder::new(&bytes)).map(|_| ()), short(u64::MAX, 16));
}

/// Damages the state of an operator in all ways of one byte or bit, and checks that it stays as it is.
fn damage(operator: &mut dyn SaveState) {
    let mut bytes = Vec::new();
    operator.save(&mut bytes);
    let check = |operator: &mut dyn SaveState, damaged: &[u8], what: &str| {
        assert!(operator.load(damaged).is_err(), "{what}");
    };
    // Only the begin and the end of a long state are damaged.
    let (begin, end) = (bytes.len().min(400), bytes.len().saturating_sub(20));
    let places = || (0..begin).chain(end.max(begin)..bytes.len());
    for length in places() {
        check(operator, &bytes[..length], "cut off");
    }
    for index in places() {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[index] ^= 1 << bit;
            check(operator, &damaged, "a bit is flipped");
        }
    }
    check(operator, &[&bytes[..], &[0]].concat(), "longer");
    let mut again = Vec::new();
    operator.save(&mut again);
    assert!(bytes == again, "the state is unchanged");
    assert_eq!(operator.load(&bytes), Ok(()));
}

fn fed<O: Operator<In = Event>>(mut operator: O, steps: &[Step]) -> O {
    let mut outputs = Vec::new();
    steps.iter().for_each(|&step| call(&mut operator, step, &mut outputs));
    operator
}

#[test]
fn damaged_state_is_an_error_and_changes_nothing() {
    let mut random = random(92);
    let steps = steps(&mut random, 60, 500);
    let amount = |event: &Event| event.amount;
    damage(&mut fed(EventTime::new(5, time), &steps));
    let text = |event: &Event| event.key.to_string();
    let aggregate = (Count, distinct_count(amount), top_values(2, amount));
    damage(&mut fed(Windows::sliding(100, 30, time, text, aggregate).allow_late(50), &steps));
    damage(&mut fed(Sessions::new(20, time, key, Count), &steps));
    damage(&mut fed(WindowDistinct::new(50, time, key), &steps));
    damage(&mut fed(Distinct::new(10, KeysFull::Forget, key), &steps));
    damage(&mut fed(Distinct::new(10, KeysFull::Drop, key), &steps));

    let input = || side(|row: &(u64, String)| row.0, |row: &(u64, String)| row.1.clone());
    let mut join = TimeJoin::window(100, input(), input(), |_: &(u64, String), _: &(u64, String)| ());
    let mut top = Top::new(3, |count: &u64| *count);
    let mut out = Emitter::new();
    for time in 0..20 {
        join.left((time, "a".to_owned()), &mut Emitter::new());
        join.right((time, "b".to_owned()), &mut Emitter::new());
        let window = sakiyomi_stream::operators::Window { start_ns: 0, end_ns: 10 };
        top.process(WindowResult { window, key: time, value: time, is_update: false }, &mut out);
    }
    damage(&mut join);
    damage(&mut top);
}

#[test]
fn the_state_of_another_operator_or_of_other_settings_is_refused_by_name() {
    let save = |operator: &dyn SaveState| {
        let mut bytes = Vec::new();
        operator.save(&mut bytes);
        bytes
    };
    let refuse = |operator: &mut dyn SaveState, bytes: &[u8]| operator.load(bytes).unwrap_err().to_string();
    let minute = save(&Windows::tumbling(60, time, key, Count));
    assert_eq!(
        refuse(&mut Windows::tumbling(30, time, key, Count), &minute),
        "the saved state has a window size in ns of 60, and the operator has 30: resume with the same settings"
    );
    assert_eq!(
        refuse(&mut Sessions::new(60, time, key, Count), &minute),
        "the saved state is that of tumbling or sliding windows, and the operator is session windows"
    );
    let distinct = save(&fed(Distinct::new(5, KeysFull::Drop, key), &steps(&mut random(93), 500, 0)));
    assert_eq!(
        refuse(&mut Distinct::new(4, KeysFull::Drop, key), &distinct),
        "the saved state has a number of keys of 5, and the operator has 4: resume with the same settings"
    );
    let mut newer = Vec::new();
    Frame { kind: "session windows", version: 2 }.save(&mut newer, |_| {});
    assert_eq!(
        refuse(&mut Sessions::new(60, time, key, Count), &newer),
        "the saved state has version 2, and this program reads version 1"
    );
}

#[test]
fn keyed_state_that_is_damaged_is_an_error() {
    use sakiyomi_stream::operators::{KeyContext, KeyedProcess};
    struct Last;
    impl KeyedProcess for Last {
        type In = Event;
        type Key = u64;
        type State = Vec<i64>;
        type Out = ();

        fn process(&mut self, event: Event, key: &mut KeyContext<'_, u64, Vec<i64>>, _: &mut Emitter<()>) {
            key.state().get_or_insert_default().push(event.amount);
            key.set_timer(event.time_ns + 1_000);
        }
    }
    damage(&mut fed(Keyed::new(key, Last), &steps(&mut random(94), 60, 500)));
}
