//! Any bytes of a client in any pieces: rejected, or filtered with the same result as in one piece.
#![no_main]

use bytes::BytesMut;
use grpc_socket::{AuthorityFilter, FilterError};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&[u8], u8)| {
    let (bytes, piece) = input;
    let bytes = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", bytes].concat();
    let whole = filtered(&bytes, bytes.len());
    assert_eq!(filtered(&bytes, usize::from(piece) + 1), whole);
});

fn filtered(bytes: &[u8], piece: usize) -> Result<BytesMut, FilterError> {
    let mut filter = AuthorityFilter::default();
    let mut output = BytesMut::new();
    for chunk in bytes.chunks(piece) {
        filter.push(chunk, &mut output)?;
    }
    Ok(output)
}
