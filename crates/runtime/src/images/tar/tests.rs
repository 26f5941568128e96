use std::io::Cursor;

use super::*;

fn header(name: &str, kind: u8, size: u64) -> Vec<u8> {
    let mut block = vec![0_u8; BLOCK];
    let mut put = |at: usize, text: &[u8]| block[at..at + text.len()].copy_from_slice(text);
    put(0, name.as_bytes());
    put(100, b"0000644\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(124, format!("{size:011o}\0").as_bytes());
    put(136, b"00000000012\0");
    put(156, &[kind]);
    put(257, b"ustar\x0000");
    seal(&mut block);
    block
}

fn seal(block: &mut [u8]) {
    block[148..156].copy_from_slice(b"        ");
    let sum: u64 = block.iter().map(|byte| u64::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

fn padded(content: &[u8]) -> Vec<u8> {
    let mut content = content.to_vec();
    content.resize(content.len().next_multiple_of(BLOCK), 0);
    content
}

fn record(key: &str, value: &str) -> String {
    let mut length = key.len() + value.len() + 3;
    while length != format!("{length} {key}={value}\n").len() {
        length = format!("{length} {key}={value}\n").len();
    }
    format!("{length} {key}={value}\n")
}

fn pax(records: &[(&str, &str)]) -> Vec<u8> {
    let text: String = records.iter().map(|(key, value)| record(key, value)).collect();
    [header("pax", b'x', text.len() as u64), padded(text.as_bytes())].concat()
}

type Read = (Entry, Vec<u8>);

fn read_all(archive: Vec<u8>) -> Result<Vec<Read>, TarError> {
    let mut reader = TarReader::new(Cursor::new(archive));
    let mut entries = Vec::new();
    while let Some(entry) = reader.next_entry()? {
        let mut content = vec![0; usize::try_from(entry.size).unwrap()];
        reader.copy_data(&entry, |offset, bytes| {
            let offset = usize::try_from(offset).unwrap();
            content[offset..offset + bytes.len()].copy_from_slice(bytes);
            Ok(())
        })?;
        entries.push((entry, content));
    }
    Ok(entries)
}

#[test]
fn pax_records_replace_the_fields_of_the_header() {
    let long = format!("{}/file", "d".repeat(200));
    let archive = [
        pax(&[
            ("path", &long),
            ("uid", "70000"),
            ("mtime", "12.5"),
            ("SCHILY.xattr.user.a", "b"),
            ("comment", "x"),
        ]),
        header("short", b'0', 3),
        padded(b"abc"),
        header("next", b'0', 0),
    ]
    .concat();
    let entries = read_all(archive).unwrap();
    let (entry, content) = &entries[0];
    assert_eq!((entry.path.as_slice(), entry.uid, content.as_slice()), (long.as_bytes(), 70000, &b"abc"[..]));
    assert_eq!(entry.modified, ModifiedAt { seconds: 12, nanoseconds: 500_000_000 });
    assert_eq!(entry.attributes, [(b"user.a".to_vec(), b"b".to_vec())]);
    assert_eq!((entries[1].0.path.as_slice(), entries[1].0.uid), (&b"next"[..], 0));
}

#[test]
fn gnu_long_names_replace_path_and_link() {
    let (path, link) = ("p".repeat(150), "l".repeat(150));
    let archive = [
        header("././@LongLink", b'L', 151),
        padded(format!("{path}\0").as_bytes()),
        header("././@LongLink", b'K', 151),
        padded(format!("{link}\0").as_bytes()),
        header("short", b'2', 0),
    ]
    .concat();
    let entries = read_all(archive).unwrap();
    assert_eq!(entries[0].0.path, path.as_bytes());
    assert_eq!(entries[0].0.kind, EntryKind::SymbolicLink(link.into_bytes()));
}

#[test]
fn sparse_files_of_all_formats_get_their_holes() {
    let expected: Vec<u8> = [&[0; 10][..], b"abc", &[0; 7], b"de", &[0; 3]].concat();
    let version_01 = [
        pax(&[("GNU.sparse.size", "25"), ("GNU.sparse.name", "s"), ("GNU.sparse.map", "10,3,20,2")]),
        header("x", b'0', 5),
        padded(b"abcde"),
    ]
    .concat();
    let version_00 = [
        pax(&[
            ("GNU.sparse.size", "25"),
            ("GNU.sparse.numblocks", "2"),
            ("GNU.sparse.offset", "10"),
            ("GNU.sparse.numbytes", "3"),
            ("GNU.sparse.offset", "20"),
            ("GNU.sparse.numbytes", "2"),
        ]),
        header("s", b'0', 5),
        padded(b"abcde"),
    ]
    .concat();
    let version_10 = [
        pax(&[
            ("GNU.sparse.major", "1"),
            ("GNU.sparse.minor", "0"),
            ("GNU.sparse.realsize", "25"),
            ("GNU.sparse.name", "s"),
        ]),
        header("x", b'0', 517),
        padded(b"2\n10\n3\n20\n2\n"),
        padded(b"abcde"),
    ]
    .concat();
    let mut gnu = header("s", b'S', 5);
    for (at, value) in [(386, 10), (398, 3), (410, 20), (422, 2), (483, 25)] {
        gnu[at..at + 12].copy_from_slice(format!("{value:011o}\0").as_bytes());
    }
    gnu[257..265].copy_from_slice(b"ustar  \0");
    seal(&mut gnu);
    let gnu = [gnu, padded(b"abcde")].concat();
    for archive in [version_00, version_01, version_10, gnu] {
        let entries = read_all([archive, header("after", b'0', 0)].concat()).unwrap();
        assert_eq!(entries[0].0.path, b"s");
        assert_eq!(entries[0].1, expected);
        assert_eq!(entries[1].0.path, b"after");
    }
}

#[test]
fn hostile_headers_are_errors() {
    let mut wrong_sum = header("a", b'0', 0);
    wrong_sum[0] = b'b';
    let mut huge_id = header("a", b'0', 0);
    huge_id[108..116].copy_from_slice(&[0x80, 0, 0, 1, 0, 0, 0, 0]);
    seal(&mut huge_id);
    let mut device = header("a", b'3', 0);
    device[329..337].copy_from_slice(b"0010000\0");
    seal(&mut device);
    let cases = [
        ("checksum", wrong_sum),
        ("user id", huge_id),
        ("device number", device),
        ("type", header("a", b'Z', 0)),
        ("truncated data", [header("a", b'0', 600), vec![0; 100]].concat()),
        ("truncated header", header("a", b'0', 0)[..100].to_vec()),
        ("huge extension", header("a", b'x', 1 << 30)),
        ("huge long name", header("a", b'L', 1 << 30)),
        ("record length", [header("a", b'x', 9), padded(b"99 a=b\n\n\n")].concat()),
        (
            "overlapping segments",
            [
                pax(&[("GNU.sparse.size", "9"), ("GNU.sparse.map", "5,2,0,2")]),
                header("s", b'0', 4),
                padded(b"abcd"),
            ]
            .concat(),
        ),
        (
            "segments longer than the data",
            [
                pax(&[("GNU.sparse.size", "9999"), ("GNU.sparse.map", "0,5000")]),
                header("s", b'0', 4),
                padded(b"abcd"),
            ]
            .concat(),
        ),
    ];
    for (name, archive) in cases {
        assert!(read_all(archive).is_err(), "{name}");
    }
}

#[test]
fn links_with_a_size_have_no_data() {
    let archive = [header("l", b'1', 700), header("next", b'0', 0)].concat();
    let entries = read_all(archive).unwrap();
    assert_eq!(entries.len(), 2);
    assert_eq!(entries[0].0.size, 0);
}

#[test]
fn negative_time_becomes_zero() {
    let mut block = header("a", b'0', 0);
    block[136..148].copy_from_slice(&[0xff; 12]);
    seal(&mut block);
    assert_eq!(read_all(block).unwrap()[0].0.modified, ModifiedAt::default());
}
