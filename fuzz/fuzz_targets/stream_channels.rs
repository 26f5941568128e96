//! Any message, query and headers of a stream: accepted or rejected, and an accepted message round-trips.
#![no_main]

use decide::http::streaming::{ChannelMessage, Upgrade, forwarded_ports, requested_streams, to_client};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&[u8], Vec<(String, String)>, &str)| {
    let (message, query, header) = input;
    if let ChannelMessage::Bytes(channel, bytes) = ChannelMessage::read(message) {
        assert_eq!(to_client(channel, bytes), message);
    }
    if let Ok(streams) = requested_streams(&query) {
        assert!(streams.stdin || streams.stdout || streams.stderr);
        assert!(!(streams.tty && streams.stderr));
    }
    if let Ok(ports) = forwarded_ports(&query) {
        assert!(!ports.is_empty() && ports.iter().all(|port| *port > 0));
    }
    if let Upgrade::Tunnel(protocols) = Upgrade::read(&["Upgrade"], "websocket", &[header]) {
        assert!(protocols.iter().all(|protocol| protocol.ends_with(".k8s.io")));
    }
});
