use proptest::prelude::*;

use super::*;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

type Headers = Vec<(Vec<u8>, Vec<u8>)>;
/// Stream, flags and headers.
type Request = (u32, u8, Headers);

/// A client that encodes its requests with one compression table.
struct Client {
    encoder: Encoder<'static>,
    bytes: BytesMut,
}

impl Client {
    fn new() -> Self {
        Self { encoder: Encoder::new(), bytes: BytesMut::from(PREFACE) }
    }

    /// The header block of a request.
    fn request(&mut self, authority: &str) -> Vec<u8> {
        let headers: [(&[u8], &[u8]); 4] = [
            (b":method", b"POST"),
            (b":authority", authority.as_bytes()),
            (b":path", b"/v1.PodResourcesLister/List"),
            (b"te", b"trailers"),
        ];
        self.encoder.encode(headers)
    }

    fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        put_frame(&mut self.bytes, &Frame { kind, flags, stream, payload: payload.to_vec().into() });
    }
}

/// The header lists and other frames that a server receives.
fn receive(bytes: &[u8]) -> (Vec<Request>, Vec<(u8, Bytes)>) {
    let mut reader = AuthorityFilter::default();
    reader.input.extend_from_slice(bytes.strip_prefix(PREFACE).unwrap());
    let mut decoder = Decoder::new();
    let (mut lists, mut others, mut block) = (Vec::new(), Vec::new(), None);
    while let Some(frame) = reader.next_frame().unwrap() {
        let (stream, flags, fragments) = match frame.kind {
            TYPE_HEADERS => {
                let begun = HeaderBlock::begin(&frame).unwrap();
                (begun.stream, begun.flags, begun.fragments)
            }
            TYPE_CONTINUATION => {
                let (stream, flags, mut fragments): (u32, u8, BytesMut) = block.take().unwrap();
                fragments.extend_from_slice(&frame.payload);
                (stream, flags, fragments)
            }
            kind => {
                others.push((kind, frame.payload));
                continue;
            }
        };
        if frame.flags & END_HEADERS == 0 {
            block = Some((stream, flags, fragments));
        } else {
            lists.push((stream, flags, decoder.decode(&fragments).unwrap()));
        }
    }
    (lists, others)
}

fn authority(headers: &Headers) -> &[u8] {
    &headers.iter().find(|(name, _)| name == b":authority").unwrap().1
}

fn filtered(bytes: &[u8], piece: usize) -> Result<BytesMut, FilterError> {
    let mut filter = AuthorityFilter::default();
    let mut output = BytesMut::new();
    for chunk in bytes.chunks(piece) {
        filter.push(chunk, &mut output)?;
    }
    Ok(output)
}

#[test]
fn replaces_socket_paths_and_keeps_valid_names() {
    let mut client = Client::new();
    let names = [
        "%2Fvar%2Flib%2Fkubelet%2Fpod-resources%2Fkubelet.sock",
        "/run/x.sock",
        "localhost",
        "",
        "a.example:80",
    ];
    for (stream, name) in (1..).step_by(2).zip(names) {
        let block = client.request(name);
        client.frame(TYPE_HEADERS, END_HEADERS, stream, &block);
        client.frame(0, END_STREAM, stream, b"body");
    }
    for piece in [1, 7, usize::MAX] {
        let (lists, others) = receive(&filtered(&client.bytes, piece).unwrap());
        let found: Vec<&[u8]> = lists.iter().map(|(_, _, headers)| authority(headers)).collect();
        assert_eq!(found, [&b"localhost"[..], b"localhost", b"localhost", b"localhost", b"a.example:80"]);
        assert_eq!(others, vec![(0, Bytes::from_static(b"body")); 5]);
    }
}

#[test]
fn joins_continuations_and_keeps_priority_and_end_of_stream() {
    let mut client = Client::new();
    let block = client.request("/a.sock");
    let (first, second) = block.split_at(3);
    let padded = [&[2, 0, 0, 0, 0, 16][..], first, &[0, 0]].concat();
    client.frame(TYPE_HEADERS, PADDED | PRIORITY | END_STREAM, 1, &padded);
    client.frame(TYPE_CONTINUATION, END_HEADERS, 1, second);
    let (lists, _) = receive(&filtered(&client.bytes, 5).unwrap());
    let [(1, flags, headers)] = &lists[..] else { panic!("{lists:?}") };
    assert_eq!(*flags, END_STREAM | PRIORITY);
    assert_eq!(authority(headers), b"localhost");
    assert_eq!(headers.len(), 4);
}

#[test]
fn rejects_oversized_and_malformed_frames() {
    let check = |build: &dyn Fn(&mut Client), expected: FilterError| {
        let mut client = Client::new();
        build(&mut client);
        assert_eq!(filtered(&client.bytes, usize::MAX), Err(expected));
    };
    check(&|client| client.frame(0, 0, 1, &[0; MAX_FRAME + 1]), FilterError::FrameTooLarge(MAX_FRAME + 1));
    check(&|client| client.frame(TYPE_CONTINUATION, END_HEADERS, 1, b""), FilterError::BadContinuation);
    check(&|client| client.frame(TYPE_HEADERS, PADDED | END_HEADERS, 1, &[9, 1]), FilterError::BadPadding);
    check(&|client| client.frame(TYPE_HEADERS, END_HEADERS, 1, &[0xff, 0xff]), FilterError::BadHeaderBlock);
    check(
        &|client| {
            client.frame(TYPE_HEADERS, 0, 1, b"");
            client.frame(0, 0, 1, b"data");
        },
        FilterError::BadContinuation,
    );
    let bomb = |client: &mut Client| {
        let big = vec![b'x'; 4000];
        let block = client.encoder.encode([(&b"x"[..], &big[..])].into_iter().cycle().take(9));
        client.frame(TYPE_HEADERS, END_HEADERS, 1, &block);
    };
    check(&bomb, FilterError::HeadersTooLarge);
}

proptest! {
    #[test]
    fn never_panics_on_arbitrary_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..600), piece in 1_usize..50) {
        let _ = filtered(&[PREFACE, &bytes].concat(), piece);
    }
}
