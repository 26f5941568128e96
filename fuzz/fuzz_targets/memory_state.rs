//! Any state file of the memory manager: it is refused, or written again without loss.
#![no_main]

use decide::memory::state_file::{decode, encode};
use libfuzzer_sys::fuzz_target;
use model::PodLevelManagement;

fuzz_target!(|content: &[u8]| {
    for policy in ["None", "Static"] {
        for management in [PodLevelManagement::Unmanaged, PodLevelManagement::PerPod] {
            if let Ok(state) = decode(policy, management, content) {
                let written = encode(policy, management, &state);
                assert_eq!(decode(policy, management, &written), Ok(state), "a written file is valid");
            }
        }
    }
});
