use super::*;

fn encoded(message: &ExecSyncResponse) -> Vec<u8> {
    let mut bytes = vec![0];
    bytes.extend(u32::try_from(message.encoded_len()).unwrap().to_be_bytes());
    bytes.extend(message.encode_to_vec());
    bytes
}

/// Feeds the bytes in pieces and decodes the result.
fn cut(bytes: &[u8], piece: usize) -> ExecSyncResponse {
    let mut cutter = Cutter::default();
    for piece in bytes.chunks(piece) {
        cutter.feed(piece).unwrap();
    }
    let message = cutter.take_message().unwrap();
    assert!(cutter.take_message().is_none());
    ExecSyncResponse::decode(message.slice(usize::from(PREFIX_BYTES)..)).unwrap()
}

#[test]
fn outputs_are_cut_wherever_the_response_is_split() {
    let response = ExecSyncResponse {
        stdout: vec![b'o'; 3 * MAX_OUTPUT_BYTES],
        stderr: vec![b'e'; MAX_OUTPUT_BYTES + 1],
        exit_code: -7,
    };
    let bytes = encoded(&response);
    for piece in [1, 7, 1000, MAX_OUTPUT_BYTES, bytes.len()] {
        let found = cut(&bytes, piece);
        assert_eq!(found.exit_code, -7);
        assert_eq!(found.stdout, vec![b'o'; MAX_OUTPUT_BYTES]);
        assert_eq!(found.stderr, vec![b'e'; MAX_OUTPUT_BYTES]);
    }
}

#[test]
fn short_outputs_are_unchanged_and_unknown_fields_are_skipped() {
    for response in [
        ExecSyncResponse::default(),
        ExecSyncResponse { stdout: b"out".into(), stderr: Vec::new(), exit_code: 300 },
        ExecSyncResponse { stdout: Vec::new(), stderr: b"e".into(), exit_code: 0 },
    ] {
        let mut bytes = encoded(&response);
        assert_eq!(cut(&bytes, 2), response);
        // Fields 9 to 12: a number, eight bytes, a text and four bytes.
        bytes.extend([72, 200, 1, 81, 1, 2, 3, 4, 5, 6, 7, 8, 90, 2, 8, 8, 101, 1, 2, 3, 4]);
        assert_eq!(cut(&bytes, 3), response);
    }
}

#[test]
fn malformed_responses_are_refused() {
    let prefix = [0, 0, 0, 0, 9];
    for bytes in [&[1, 0, 0, 0, 0][..], &[&prefix[..], &[11]].concat(), &[&prefix[..], &[0xff; 11]].concat()]
    {
        assert!(Cutter::default().feed(bytes).is_err(), "{bytes:?}");
    }
    assert!(Cutter::default().take_message().is_none());
}

#[test]
fn huge_output_is_never_collected() {
    let mut cutter = Cutter::default();
    cutter.feed(&[0, 0xff, 0xff, 0xff, 0xff, 10, 0xff, 0xff, 0xff, 0xff, 0x0f]).unwrap();
    let piece = vec![b'x'; 64 * 1024];
    for _ in 0..1000 {
        cutter.feed(&piece).unwrap();
    }
    assert_eq!(cutter.message.stdout.len(), MAX_OUTPUT_BYTES);
    assert!(cutter.message.stdout.capacity() <= 2 * MAX_OUTPUT_BYTES);
}
