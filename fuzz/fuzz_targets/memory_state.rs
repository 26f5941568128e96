//! Any state file of the memory manager: it is refused, or written again without loss.
#![no_main]

use decide::memory::state_file::{decode, encode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|content: &[u8]| {
    for policy in ["None", "Static"] {
        if let Ok(state) = decode(policy, content) {
            let again = decode(policy, &encode(policy, &state)).expect("a written file is valid");
            assert_eq!(again, state);
        }
    }
});
