//! Any bytes: an accepted checkpoint of device plugins round-trips.
#![no_main]

use decide::devices::checkpoint::StoredDevices;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|content: &[u8]| {
    if let Ok(stored) = StoredDevices::decode(content) {
        assert_eq!(StoredDevices::decode(&stored.encode()).as_ref(), Ok(&stored));
    }
});
