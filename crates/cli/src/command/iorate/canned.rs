//! Fake mounts with predefined replies, for tests.

use sakiyomi_iorate::Control;
use sakiyomi_iorate::protocol::{
    Call, DeviceView, Message, Owner, Rate, Reply, Target, View, decode, encode,
};

pub(crate) fn mount(answer: impl Fn(Call) -> Reply + Send + Sync + 'static) -> Control {
    Control::over("/mnt/disk", move |message| {
        let asked: Message = decode(message)?;
        *message = *encode(&answer(asked.call)).expect("it fits");
        Ok(())
    })
}

/// Returns an owner with 20 %.
pub(crate) fn owner(number: u64, target: Target) -> Owner {
    Owner {
        number,
        target,
        name: "cat".to_owned(),
        rate: Some(Rate::Percent(20)),
        best_effort: false,
        ideal_ns: Some(50_000_000),
        ios: 1000,
        late: 3,
        mean_ns: 50_100_000,
        accuracy_ratio: Some(1.002),
        cov_ratio: 0.018,
        unanswered: 1,
    }
}

pub(crate) fn view(owners: Vec<Owner>) -> View {
    let device = DeviceView {
        name: "deskstar-7k250".to_owned(),
        policy: "deadline".to_owned(),
        service_ns: 10_000_000,
        allowance: 4,
        parallel_ratio: 1.0,
        in_device: 3,
        waiting: 2,
        requests: 5000,
        busy_ns: None,
        bypass: None,
    };
    View { at_ns: 60_000_000_000, device, owners, more: false }
}
