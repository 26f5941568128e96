//! Any bytes as requests to a keeper: decoded or refused, in the same way for any split; decoded requests round-trip.
#![no_main]

use libfuzzer_sys::fuzz_target;
use runtime::keeper::protocol::{FrameBuffer, ProtocolError, Request, encode};

fn decode(pieces: &[&[u8]]) -> (Vec<Request>, Option<ProtocolError>) {
    let (mut buffer, mut requests) = (FrameBuffer::default(), Vec::new());
    for piece in pieces {
        buffer.extend(piece);
        loop {
            match buffer.next_message() {
                Ok(Some(request)) => requests.push(request),
                Ok(None) => break,
                Err(error) => return (requests, Some(error)),
            }
        }
    }
    (requests, None)
}

fuzz_target!(|bytes: &[u8]| {
    let whole = decode(&[bytes]);
    let (first, second) = bytes.split_at(bytes.len() / 2);
    assert_eq!(decode(&[first, second]), whole);
    for request in whole.0 {
        let bytes = encode(&request).expect("a decoded request is short enough");
        assert_eq!(decode(&[&bytes]), (vec![request], None));
    }
});
