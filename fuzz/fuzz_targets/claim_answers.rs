//! Any answers of drivers and any order of pods: a claim in use is never unprepared, nothing is left, and the file keeps all.
#![no_main]

use std::collections::BTreeSet;

use decide::resource_claims::state_file::{decode, encode};
use decide::resource_claims::{AllocatedClaim, PreparedClaims};
use libfuzzer_sys::fuzz_target;
use model::{ClaimReference, PodUid, PreparedDevice};

type Device = (String, String, Option<String>, Vec<String>, Vec<String>);

fn device((pool, device, share_id, requests, cdi_ids): Device) -> PreparedDevice {
    PreparedDevice { pool, device, share_id, requests, cdi_ids }
}

fn claim(number: u8) -> AllocatedClaim {
    let reference = ClaimReference {
        namespace: "default".to_owned(),
        name: (number % 5).to_string(),
        uid: (number % 7).to_string(),
    };
    let drivers = (0..=number % 2).map(|driver| driver.to_string()).collect();
    AllocatedClaim { reference, drivers }
}

fuzz_target!(|steps: Vec<(u8, u8, Vec<Device>)>| {
    let (mut claims, mut pods) = (PreparedClaims::default(), BTreeSet::new());
    for (pod, number, devices) in steps {
        let uid = PodUid::from((pod % 4).to_string().as_str());
        if pod >= 128 {
            for used in claims.to_unprepare(&uid).into_values().flatten() {
                let held = claims.get(&used.namespace, &used.name).expect("a known claim");
                assert_eq!(held.pods, BTreeSet::from([uid.clone()]));
            }
            claims.release(&uid);
            assert!(claims.of_pod(&uid).is_empty());
        } else if claims.reserve(&[claim(number)], &uid).is_ok() {
            pods.insert(uid);
            for (driver, wanted) in claims.to_prepare(&[claim(number)]) {
                for reference in wanted {
                    claims.record(&reference, &driver, devices.iter().cloned().map(device).collect());
                }
            }
            claims.mark_prepared(&[claim(number)]);
            assert!(claims.to_prepare(&[claim(number)]).is_empty());
        }
        let content = encode(&claims);
        assert_eq!(encode(&decode(&content).expect("a written file is valid")), content);
    }
    for uid in pods {
        claims.release(&uid);
    }
    assert_eq!(claims, PreparedClaims::default());
});
