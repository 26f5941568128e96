//! Any output of a CNI plugin: refused, or a result that reads the same when it is written out.
#![no_main]

use libfuzzer_sys::fuzz_target;
use runtime::network::AddResult;

fuzz_target!(|output: &[u8]| {
    let Ok(result) = AddResult::from_bytes(output) else { return };
    let written = result.clone().into_value().to_string();
    let again = AddResult::from_bytes(written.as_bytes()).expect("a written result is valid");
    assert_eq!(again.addresses_of("eth0"), result.addresses_of("eth0"), "{written}");
});
