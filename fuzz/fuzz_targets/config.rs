//! Any bytes: a configuration loads or is rejected with a message; a loaded one is accepted again as JSON.
#![no_main]

use config::parse_config;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| match parse_config(text) {
    Ok(config) => {
        let mut json = serde_json::to_value(&config).expect("a configuration is JSON");
        json["apiVersion"] = "kubelet.config.k8s.io/v1beta1".into();
        json["kind"] = "KubeletConfiguration".into();
        match parse_config(json.to_string().as_bytes()) {
            Ok(again) => assert_eq!(again, config),
            Err(error) => panic!("loaded, but its JSON form is refused: {error}\n{json}"),
        }
    }
    Err(error) => assert!(!error.to_string().is_empty()),
});
