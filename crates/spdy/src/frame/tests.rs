use proptest::prelude::*;

use super::*;

fn encode(frames: &[Frame]) -> BytesMut {
    let (mut encoder, mut out) = (Encoder::default(), BytesMut::new());
    for frame in frames {
        encoder.encode(frame, &mut out).unwrap();
    }
    out
}

fn decode(mut bytes: BytesMut) -> Result<Vec<Frame>, SpdyError> {
    let mut decoder = Decoder::default();
    let mut all = Vec::new();
    while let Some(frame) = decoder.decode(&mut bytes)? {
        all.push(frame);
    }
    Ok(all)
}

fn data(stream: StreamId, text: &str, fin: bool) -> Frame {
    Frame::Data { stream, bytes: Bytes::copy_from_slice(text.as_bytes()), fin }
}

#[test]
fn encodes_frames_as_specified() {
    let bytes = encode(&[data(5, "hi", true), Frame::Ping(7), Frame::Reset { stream: 1, status: 5 }]);
    let expected = [
        &[0, 0, 0, 5, 1, 0, 0, 2, b'h', b'i'][..],
        &[0x80, 3, 0, 6, 0, 0, 0, 4, 0, 0, 0, 7],
        &[0x80, 3, 0, 3, 0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 5],
    ];
    assert_eq!(bytes, expected.concat());
}

#[test]
fn empty_data_frame_can_end_a_stream() {
    assert_eq!(decode(encode(&[data(3, "", true)])).unwrap(), [data(3, "", true)]);
}

#[test]
fn delivers_data_in_chunks_as_it_arrives() {
    let mut decoder = Decoder::default();
    let encoded = encode(&[data(3, "abcdef", true)]);
    let mut buffer = BytesMut::from(&encoded[..11]);
    assert_eq!(decoder.decode(&mut buffer).unwrap(), Some(data(3, "abc", false)));
    assert_eq!(decoder.decode(&mut buffer).unwrap(), None);
    buffer.extend_from_slice(&encoded[11..]);
    assert_eq!(decoder.decode(&mut buffer).unwrap(), Some(data(3, "def", true)));
}

#[test]
fn splits_data_larger_than_a_frame() {
    let text = "x".repeat(MAX_DATA_LENGTH + 5);
    let frames = decode(encode(&[data(1, &text, true)])).unwrap();
    let ends: Vec<bool> = frames.iter().map(|frame| matches!(frame, Frame::Data { fin: true, .. })).collect();
    assert_eq!(ends, [false, true]);
}

#[test]
fn rejects_protocol_violations() {
    for bytes in [
        &[0x80, 2, 0, 6, 0, 0, 0, 4, 0, 0, 0, 7][..],
        &[0x80, 3, 0, 6, 0, 0, 0, 2, 0, 0],
        &[0x80, 3, 0, 1, 0, 0xff, 0xff, 0xff],
        &[0x80, 3, 0, 2, 0, 0, 0, 6, 0, 0, 0, 1, 9, 9],
    ] {
        assert!(decode(BytesMut::from(bytes)).is_err(), "{bytes:?}");
    }
    let settings = [0x80, 3, 0, 4, 0, 0, 0, 4, 0, 0, 0, 0];
    assert_eq!(decode(BytesMut::from(&settings[..])).unwrap(), [Frame::Ignored(4)]);
}

fn headers() -> impl Strategy<Value = Headers> {
    prop::collection::vec(("[a-z]{1,10}", "[ -~]{0,40}"), 0..5)
}

fn frames() -> impl Strategy<Value = Vec<Frame>> {
    let stream = 0u32..0x7fff_ffff;
    let frame = prop_oneof![
        (stream.clone(), prop::collection::vec(any::<u8>(), 0..300), any::<bool>())
            .prop_map(|(stream, bytes, fin)| Frame::Data { stream, bytes: bytes.into(), fin }),
        (stream.clone(), headers(), any::<bool>()).prop_map(|(stream, headers, fin)| Frame::SynStream {
            stream,
            headers,
            fin
        }),
        (stream.clone(), headers(), any::<bool>()).prop_map(|(stream, headers, fin)| Frame::SynReply {
            stream,
            headers,
            fin
        }),
        (stream.clone(), headers(), any::<bool>()).prop_map(|(stream, headers, fin)| Frame::Headers {
            stream,
            headers,
            fin
        }),
        (stream.clone(), any::<u32>()).prop_map(|(stream, status)| Frame::Reset { stream, status }),
        (stream, any::<u32>()).prop_map(|(last_stream, status)| Frame::GoAway { last_stream, status }),
        any::<u32>().prop_map(Frame::Ping),
    ];
    prop::collection::vec(frame, 0..12)
}

proptest! {
    #[test]
    fn encoded_frames_decode_to_the_same_frames(frames in frames()) {
        prop_assert_eq!(decode(encode(&frames)).unwrap(), frames);
    }

    #[test]
    fn chunk_boundaries_do_not_matter(frames in frames(), cuts in prop::collection::vec(1usize..40, 0..60)) {
        let encoded = encode(&frames);
        let (mut decoder, mut buffer, mut left) = (Decoder::default(), BytesMut::new(), &encoded[..]);
        let mut decoded = Vec::new();
        for cut in cuts.into_iter().chain([usize::MAX]) {
            let (chunk, after) = left.split_at(cut.min(left.len()));
            buffer.extend_from_slice(chunk);
            left = after;
            while let Some(frame) = decoder.decode(&mut buffer).unwrap() {
                decoded.push(frame);
            }
        }
        prop_assert_eq!(merge_data(decoded), merge_data(frames));
    }

    #[test]
    fn arbitrary_bytes_do_not_panic_the_frame_decoder(bytes: Vec<u8>) {
        let _ = decode(BytesMut::from(&bytes[..]));
    }
}

/// Merges consecutive data frames of the same stream.
fn merge_data(frames: Vec<Frame>) -> Vec<Frame> {
    let mut all: Vec<Frame> = Vec::new();
    for frame in frames {
        if let (Some(Frame::Data { stream, bytes, fin }), Frame::Data { stream: next, bytes: more, fin: end }) =
            (all.last_mut(), &frame)
            && stream == next
            && !*fin
        {
            *bytes = [&bytes[..], more].concat().into();
            *fin = *end;
            continue;
        }
        all.push(frame);
    }
    all
}
