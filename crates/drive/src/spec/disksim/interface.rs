//! Interface fields: link, overheads, watermarks.

use sakiyomi_model::{Bytes, Nanos};

use super::fields::{DiskFields, FieldValue};
use super::syntax::Fault;
use super::system::Path;
use crate::spec::{InterfaceSpec, Overhead, OverheadSpec};

/// Translates link and overheads.
pub(super) fn interface(
    fields: &DiskFields,
    path: Option<&Path>,
    warnings: &mut Vec<String>,
) -> Result<InterfaceSpec, Fault> {
    let mut interface = InterfaceSpec {
        immediate_partial: fields.immediate_partial.value,
        read_watermark: watermark(&fields.high_watermark)?,
        overhead: overheads(fields)?,
        ..InterfaceSpec::default()
    };
    // The slowest of drive, bus and controller determines the rate.
    let bus = |time: fn(&Path) -> Nanos| path.map_or(Nanos::ZERO, time);
    let through =
        bus(|path| path.controller.as_ref().map_or(Nanos::ZERO, |controller| controller.bulk_sector.value));
    let own = fields.bulk_sector.value.max(through);
    let read = own.max(bus(|path| path.bus.read_block.value));
    let write = own.max(bus(|path| path.bus.write_block.value));
    match rate(read) {
        Some(rate) => interface.link_rate = rate,
        None => warnings.push(fields.bulk_sector.warning(format!(
            "nor does the bus take time; interface.link_rate = {} a second",
            interface.link_rate
        ))),
    }
    interface.link_rate_write = rate(write).filter(|rate| *rate != interface.link_rate);
    not_modeled(fields, path, warnings);
    Ok(interface)
}

/// Checks a share from 0 to 1.
fn watermark(share: &FieldValue<f64>) -> Result<f64, Fault> {
    if (0.0..=1.0).contains(&share.value) {
        return Ok(share.value);
    }
    Err(share.fault(format!("{}; expected a share from 0 to 1", share.value)))
}

/// Converts the transfer time of 512 bytes to bytes per second; `None` for zero.
fn rate(block: Nanos) -> Option<Bytes> {
    (!block.is_zero()).then(|| Bytes((512_000_000_000.0 / block.0 as f64).round() as u64))
}

/// Translates processing times, by kind of command and of the previous command.
fn overheads(fields: &DiskFields) -> Result<OverheadSpec, Fault> {
    let scale = fields.overhead_scale.value;
    if !(0.0..=1000.0).contains(&scale) {
        return Err(fields.overhead_scale.fault(format!("{scale}; expected 0 to 1000")));
    }
    let scaled = |time: &FieldValue<Nanos>| Nanos((time.value.0 as f64 * scale).round() as u64);
    let each = scaled(&fields.per_request_overhead);
    let preparation = scaled(&fields.data_preparation);
    let hit = |time| each + scaled(time) + preparation;
    let seek = scaled(&fields.minimum_seek_delay);
    let miss = |time, disconnect| (each + scaled(time) + scaled(disconnect)).max(seek);
    let write = |time| each + scaled(time);
    // A write's seek may begin during its command processing, and thus before its data is requested.
    let sets_out = |time| if seek.is_zero() { write(time) } else { seek };
    let asks = |time| write(time) + scaled(&fields.write_disconnect) + scaled(&fields.first_reselect);
    let (after_read, after_write) = (&fields.write_miss_after_read, &fields.write_miss_after_write);
    let mut arm = [sets_out(after_read), sets_out(after_write), sets_out(after_write)];
    let mut data = [asks(after_read), asks(after_write), asks(after_write)];
    if fields.extra_write_disconnect.value {
        let command = each + scaled(&fields.extra_command);
        arm[1] = command + scaled(&fields.extra_seek_delta);
        let away = scaled(&fields.extra_disconnect) + scaled(&fields.extra_delay);
        data[1] = command + away + scaled(&fields.first_reselect);
    }
    let completion = scaled(&fields.read_completion);
    let completion_write = scaled(&fields.write_completion) + scaled(&fields.other_reselect);
    Ok(OverheadSpec {
        read_hit: overhead([&fields.read_hit_after_read, &fields.read_hit_after_write].map(hit)),
        read_miss: overhead([
            miss(&fields.read_miss_after_read, &fields.read_disconnect_after_read),
            miss(&fields.read_miss_after_write, &fields.read_disconnect_after_write),
        ]),
        write_hit: overhead([&fields.write_hit_after_read, &fields.write_hit_after_write].map(write)),
        write_miss: in_three_cases(arm),
        write_data: (data != arm).then(|| in_three_cases(data)),
        reconnect: preparation + scaled(&fields.first_reselect),
        completion,
        completion_write: (completion_write != completion).then_some(completion_write),
        ..OverheadSpec::default()
    })
}

/// Creates an overhead from the times after a read and after a write.
fn overhead([after_read, after_write]: [Nanos; 2]) -> Overhead {
    in_three_cases([after_read, after_write, after_write])
}

/// Creates an overhead from the times after a read, after a write, and after a write that it continues.
fn in_three_cases([after_read, after_write, in_sequence]: [Nanos; 3]) -> Overhead {
    if after_read == after_write && after_write == in_sequence {
        return Overhead::Same(after_read);
    }
    let in_sequence = (in_sequence != after_write).then_some(in_sequence);
    Overhead::After { after_read, after_write, in_sequence }
}

/// Adds warnings about fields that are not modeled.
fn not_modeled(fields: &DiskFields, path: Option<&Path>, warnings: &mut Vec<String>) {
    let second = &fields.extra_second_disconnect;
    if !second.value.is_zero() {
        warnings.push(second.warning("not modeled, takes no time"));
    }
    let flags = [
        (&fields.never_disconnect, "the bus is occupied by data only"),
        (&fields.hold_bus_write, "the bus is occupied by the data of a write only"),
    ];
    let set = flags.into_iter().filter(|(flag, _)| flag.value);
    warnings.extend(set.map(|(flag, instead)| format!("{} = 1: {instead}", flag.key)));
    if !fields.hold_bus_read.value && fields.queue_length.value.0.is_none_or(|length| length > 1) {
        let instead = "a read occupies the bus from its first byte to its last";
        warnings.push(format!("{} = 0: {instead}", fields.hold_bus_read.key));
    }
    let (low, high) = (&fields.low_watermark, &fields.high_watermark);
    if low.value != 0.0 {
        warnings.push(low.warning(
            "the data of a write is transferred at once; the medium never waits for a second transfer",
        ));
    }
    if !fields.watermark_by_request.value && high.value != 0.0 {
        warnings.push(high.warning("taken as a share of the request, not of the segment"));
    }
    let Some(path) = path else { return };
    if !path.bus.arbitration.value.is_zero() {
        warnings.push(path.bus.arbitration.warning("acquiring the link takes no time"));
    }
    if path.bus.sharing.value != 1 {
        warnings.push(path.bus.sharing.warning("the link carries one transfer at a time"));
    }
    let Some(controller) = &path.controller else { return };
    if controller.scale.value != 0.0 {
        warnings.push(controller.scale.warning("the controller takes no time of its own"));
    }
    if controller.kind.value != 1 || controller.scheduler.value.is_some() || controller.cache.value.is_some()
    {
        warnings.push(controller.kind.warning("the controller passes commands on, without queue or cache"));
    }
}
