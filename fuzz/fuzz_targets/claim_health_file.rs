//! Any bytes: an accepted file with the health of claimed devices round-trips.
#![no_main]

use decide::resource_claims::health_file::{decode, encode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|content: &[u8]| {
    if let Ok(table) = decode(content) {
        let again = decode(&encode(&table)).expect("a written file is valid");
        assert_eq!(again, table);
    }
});
