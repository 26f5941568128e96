//! Any bytes: an accepted state file of the CPU manager round-trips.
#![no_main]

use decide::cpus::state_file::{decode, encode};
use libfuzzer_sys::fuzz_target;
use model::PodLevelManagement;

fuzz_target!(|content: &[u8]| {
    for management in [PodLevelManagement::Unmanaged, PodLevelManagement::PerPod] {
        if let Ok(assignments) = decode("static", management, content) {
            let written = encode("static", management, &assignments);
            assert_eq!(decode("static", management, &written).as_ref(), Ok(&assignments));
        }
    }
});
