//! Any bytes: an accepted state file of dynamic resource allocation round-trips.
#![no_main]

use decide::resource_claims::state_file::{decode, encode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|content: &[u8]| {
    if let Ok(claims) = decode(content) {
        assert_eq!(decode(&encode(&claims)).as_ref(), Ok(&claims));
    }
});
