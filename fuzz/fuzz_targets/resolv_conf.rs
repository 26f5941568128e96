//! Any text: what a resolv.conf yields are words, and written out they read the same.
#![no_main]

use decide::dns::parse_resolv_conf;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(resolver) = parse_resolv_conf(text) else { return };
    let words = [&resolver.servers, &resolver.searches, &resolver.options];
    assert!(words.iter().all(|words| words.iter().all(|word| !word.contains(char::is_whitespace))));
    let mut written: String =
        resolver.servers.iter().map(|server| format!("nameserver {server}\n")).collect();
    written.push_str(&format!(
        "search {}\noptions {}\n",
        resolver.searches.join(" "),
        resolver.options.join(" ")
    ));
    let again = parse_resolv_conf(&written).expect("what was read can be read again");
    assert_eq!(again.servers, resolver.servers);
    assert_eq!(again.options, resolver.options);
});
