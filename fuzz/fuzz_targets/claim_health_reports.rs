//! Any reports of drivers: texts are bounded, equal reports change nothing, every report expires, and the file keeps all.
#![no_main]

use std::collections::BTreeSet;

use decide::resource_claims::device_health::{DeviceHealthTable, DeviceName};
use decide::resource_claims::health_file::{decode, encode};
use libfuzzer_sys::fuzz_target;
use model::{ClaimDeviceHealth, DeviceHealthReport, Timestamp};

type Device = (String, String, u8, i64, String);

fn report((pool, device, health, timeout_seconds, message): Device) -> DeviceHealthReport {
    let health = match health % 3 {
        0 => ClaimDeviceHealth::Healthy,
        1 => ClaimDeviceHealth::Unhealthy,
        _ => ClaimDeviceHealth::Unknown,
    };
    DeviceHealthReport { pool, device, health, timeout_seconds, message }
}

fuzz_target!(|steps: Vec<(u8, u32, Vec<Device>)>| {
    let (mut table, mut now) = (DeviceHealthTable::default(), 0);
    for (driver, seconds, devices) in steps {
        now += i64::from(seconds);
        let (driver, time) = ((driver % 4).to_string(), Timestamp::from_secs(now));
        if devices.is_empty() {
            table.erase(&driver);
            continue;
        }
        let reports: Vec<_> = devices.into_iter().map(report).collect();
        let names: Vec<_> = reports.iter().map(|own| (own.pool.clone(), own.device.clone())).collect();
        table.update(&driver, reports.clone(), time);
        let is_once = names.iter().collect::<BTreeSet<_>>().len() == names.len();
        if is_once && !names.iter().any(|(pool, device)| pool.contains('/') || device.contains('/')) {
            assert_eq!(table.update(&driver, reports, time), BTreeSet::new());
        }
        for (pool, device) in names {
            let name = DeviceName { driver: driver.clone(), pool, device };
            assert!(table.health(&name, time).1.len() <= 1024);
        }
        assert_eq!(
            decode(&encode(&table)).expect("a written file is valid").next_expiry(),
            table.next_expiry()
        );
    }
    table.expire(Timestamp::from_nanos(i64::MAX));
    if let Some(expiry) = table.next_expiry() {
        assert_eq!(expiry, Timestamp::from_nanos(i64::MAX), "a report outlives its time");
    }
});
