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
fn bytes_are_those_of_the_protocol() {
    let bytes = encode(&[data(5, "hi", true), Frame::Ping(7), Frame::Reset { stream: 1, status: 5 }]);
    let expected = [
        &[0, 0, 0, 5, 1, 0, 0, 2, b'h', b'i'][..],
        &[0x80, 3, 0, 6, 0, 0, 0, 4, 0, 0, 0, 7],
        &[0x80, 3, 0, 3, 0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 5],
    ];
    assert_eq!(bytes, expected.concat());
}

#[test]
fn a_frame_without_data_still_ends_its_stream() {
    assert_eq!(decode(encode(&[data(3, "", true)])).unwrap(), [data(3, "", true)]);
}

#[test]
fn data_is_handed_on_as_it_arrives() {
    let mut decoder = Decoder::default();
    let whole = encode(&[data(3, "abcdef", true)]);
    let mut arrived = BytesMut::from(&whole[..11]);
    assert_eq!(decoder.decode(&mut arrived).unwrap(), Some(data(3, "abc", false)));
    assert_eq!(decoder.decode(&mut arrived).unwrap(), None);
    arrived.extend_from_slice(&whole[11..]);
    assert_eq!(decoder.decode(&mut arrived).unwrap(), Some(data(3, "def", true)));
}

#[test]
fn data_larger_than_a_frame_is_cut() {
    let text = "x".repeat(LARGEST_DATA + 5);
    let frames = decode(encode(&[data(1, &text, true)])).unwrap();
    let ends: Vec<bool> = frames.iter().map(|frame| matches!(frame, Frame::Data { fin: true, .. })).collect();
    assert_eq!(ends, [false, true]);
}

#[test]
fn what_breaks_the_protocol_is_refused() {
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
    let frame =
        prop_oneof![
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
            (stream.clone(), headers(), any::<bool>())
                .prop_map(|(stream, headers, fin)| Frame::MoreHeaders { stream, headers, fin }),
            (stream.clone(), any::<u32>()).prop_map(|(stream, status)| Frame::Reset { stream, status }),
            (stream, any::<u32>()).prop_map(|(last, status)| Frame::GoAway { last, status }),
            any::<u32>().prop_map(Frame::Ping),
        ];
    prop::collection::vec(frame, 0..12)
}

proptest! {
    #[test]
    fn what_is_written_is_read(frames in frames()) {
        prop_assert_eq!(decode(encode(&frames)).unwrap(), frames);
    }

    #[test]
    fn it_does_not_matter_how_bytes_arrive(frames in frames(), cuts in prop::collection::vec(1usize..40, 0..60)) {
        let whole = encode(&frames);
        let (mut decoder, mut arrived, mut left) = (Decoder::default(), BytesMut::new(), &whole[..]);
        let mut read = Vec::new();
        for cut in cuts.into_iter().chain([usize::MAX]) {
            let (piece, after) = left.split_at(cut.min(left.len()));
            arrived.extend_from_slice(piece);
            left = after;
            while let Some(frame) = decoder.decode(&mut arrived).unwrap() {
                read.push(frame);
            }
        }
        prop_assert_eq!(joined(read), joined(frames));
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
        let _ = decode(BytesMut::from(&bytes[..]));
    }
}

/// Pieces of the same stream that follow each other as one.
fn joined(frames: Vec<Frame>) -> Vec<Frame> {
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
