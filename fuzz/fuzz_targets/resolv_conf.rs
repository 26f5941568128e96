//! Any text: the values of a resolv.conf contain no white space and round-trip.
#![no_main]

use decide::runtime_spec::dns::parse_resolv_conf;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(resolver) = parse_resolv_conf(text) else { return };
    let lists = [&resolver.servers, &resolver.searches, &resolver.options];
    assert!(lists.iter().all(|list| list.iter().all(|word| !word.contains(char::is_whitespace))));
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
