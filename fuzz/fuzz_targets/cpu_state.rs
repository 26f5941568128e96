//! Any bytes: an accepted state file of the CPU manager round-trips.
#![no_main]

use decide::cpus::state_file::{decode, encode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|content: &[u8]| {
    if let Ok(assignments) = decode("static", content) {
        assert_eq!(decode("static", &encode("static", &assignments)).as_ref(), Ok(&assignments));
    }
});
