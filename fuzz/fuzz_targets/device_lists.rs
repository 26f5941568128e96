//! Any device lists and preferences of a plugin: containers get as many devices as they request, and no two pods share one.
#![no_main]

use std::collections::BTreeSet;

use decide::devices::{DeviceRequest, DeviceState};
use libfuzzer_sys::fuzz_target;
use model::{AllocatedDevices, NumaMask, PluginDevice, PodUid};

const RESOURCE: &str = "vendor.com/x";

fuzz_target!(|steps: Vec<(u8, Vec<(u8, bool, Vec<i64>)>, Vec<String>)>| {
    let mut state = DeviceState::default();
    for (number, devices, preferred) in steps {
        let devices = devices.into_iter().map(|(id, is_healthy, nodes)| PluginDevice {
            id: id.to_string(),
            health: if is_healthy { "Healthy" } else { "Unhealthy" }.to_owned(),
            nodes,
        });
        state.inventory.replace(RESOURCE, devices.collect());
        let (uid, count) = (PodUid::from((number % 16).to_string().as_str()), usize::from(number / 16));
        let request = DeviceRequest { uid: &uid, container: "c", resource: RESOURCE, count };
        let mask = Some(NumaMask::of([i32::from(number % 8)]));
        if let Ok(Some(choice)) = state.choose(&request, mask) {
            let chosen = choice.complete(&preferred);
            assert_eq!(chosen.iter().collect::<BTreeSet<_>>().len(), count);
            state.record(&request, &chosen, AllocatedDevices::default());
        }
        let mut seen = BTreeSet::new();
        for (_, record) in state.records.iter() {
            assert!(record.devices().into_iter().all(|device| seen.insert(device)));
        }
        if number % 3 == 0 {
            state.retain(|other, _| *other != uid);
        }
    }
});
