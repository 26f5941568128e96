//! As much of ELF as it takes to find unwind tables, names and build ids of 64-bit programs. Every size is bounded.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// No table of names or of unwinding is longer; those of a large program have some megabytes.
const LARGEST: u64 = 128 * 1024 * 1024;

/// Segments with dynamic linking of any kind have far fewer.
const MOST_ENTRIES: u64 = 1024;

/// Bytes by their place: a file, or an image in memory.
pub(super) struct Source<'a> {
    file: &'a File,
    base: u64,
}

impl<'a> Source<'a> {
    /// A file whose places are counted from `base` on.
    pub(super) fn new(file: &'a File, base: u64) -> Self {
        Self { file, base }
    }

    /// So many bytes from there on.
    pub(super) fn read(&self, at: u64, length: u64) -> io::Result<Vec<u8>> {
        if length > LARGEST {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a table longer than any program has"));
        }
        let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        self.file.read_exact_at(&mut bytes, self.base.wrapping_add(at))?;
        Ok(bytes)
    }
}

/// A part of the program as it is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// What it is for.
    pub(super) kind: u32,
    /// Where it is in the file.
    pub(super) offset: u64,
    /// Where it wants to be in memory.
    pub(super) address: u64,
    /// Its length in memory.
    pub(super) size: u64,
}

pub(super) const LOAD: u32 = 1;
pub(super) const NOTE: u32 = 4;
pub(super) const UNWIND_TABLE: u32 = 0x6474_e550;

/// A part of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Section {
    /// What it holds.
    pub(super) kind: u32,
    /// Where it is.
    pub(super) offset: u64,
    /// Its length.
    pub(super) size: u64,
    /// The section that belongs to it, by index.
    pub(super) link: u32,
}

pub(super) const SYMBOLS: u32 = 2;
pub(super) const DYNAMIC_SYMBOLS: u32 = 11;

/// The segments of a program.
pub(super) fn segments(source: &Source<'_>) -> io::Result<Vec<Segment>> {
    let table = table(source, Table { place: 32, entry_size: 54, count: 56 })?;
    let segment = |entry: &[u8]| {
        Some(Segment {
            kind: short(entry, 0)?,
            offset: long(entry, 8)?,
            address: long(entry, 16)?,
            size: long(entry, 40)?,
        })
    };
    Ok(table.entries().filter_map(segment).collect())
}

/// The sections of a file.
pub(super) fn sections(source: &Source<'_>) -> io::Result<Vec<Section>> {
    let table = table(source, Table { place: 40, entry_size: 58, count: 60 })?;
    let section = |entry: &[u8]| {
        Some(Section {
            kind: short(entry, 4)?,
            offset: long(entry, 24)?,
            size: long(entry, 32)?,
            link: short(entry, 40)?,
        })
    };
    Ok(table.entries().filter_map(section).collect())
}

/// The build id in the bytes of a segment of notes, in hexadecimal.
pub(super) fn build_id(mut notes: &[u8]) -> Option<String> {
    const BUILD_ID: u32 = 3;
    loop {
        let (name_size, size) = (short(notes, 0)? as usize, short(notes, 4)? as usize);
        let content = 12 + name_size.checked_next_multiple_of(4)?;
        let name = notes.get(12..12 + name_size)?;
        let bytes = notes.get(content..content.checked_add(size)?)?;
        if name == b"GNU\0" && short(notes, 8)? == BUILD_ID {
            return Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect());
        }
        notes = notes.get(content + size.checked_next_multiple_of(4)?..)?;
    }
}

/// A symbol of code: its address, its length, where its name begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Symbol {
    pub(super) address: u64,
    pub(super) size: u64,
    pub(super) name: u32,
}

/// The functions in a table of symbols.
pub(super) fn functions(table: &[u8]) -> impl Iterator<Item = Symbol> {
    const ENTRY: usize = 24;
    table.chunks_exact(ENTRY).filter_map(|entry| {
        let is_function = matches!(entry.get(4)? & 0xf, 2 | 10);
        let is_elsewhere = entry.get(6..8)? == [0, 0];
        let symbol = Symbol { address: long(entry, 8)?, size: long(entry, 16)?, name: short(entry, 0)? };
        (is_function && !is_elsewhere).then_some(symbol)
    })
}

/// Where the header of a file tells of a table.
#[derive(Clone, Copy)]
struct Table {
    place: usize,
    entry_size: usize,
    count: usize,
}

struct Entries {
    bytes: Vec<u8>,
    size: usize,
}

impl Entries {
    fn entries(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes.chunks_exact(self.size)
    }
}

fn table(source: &Source<'_>, table: Table) -> io::Result<Entries> {
    let header = source.read(0, 64)?;
    // 64 bits, little endian.
    let told = header.starts_with(b"\x7fELF\x02\x01").then(|| {
        Some((long(&header, table.place)?, half(&header, table.entry_size)?, half(&header, table.count)?))
    });
    let invalid = |what| io::Error::new(io::ErrorKind::InvalidData, what);
    let (place, size, count) = told.flatten().ok_or_else(|| invalid("no 64-bit ELF file"))?;
    if !(1..=256).contains(&size) || u64::from(count) > MOST_ENTRIES {
        return Err(invalid("an ELF file with tables that no linker makes"));
    }
    let bytes = source.read(place, u64::from(size) * u64::from(count))?;
    Ok(Entries { bytes, size: usize::from(size) })
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().copied().map(u16::from_le_bytes)
}

fn short(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().copied().map(u32::from_le_bytes)
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().copied().map(u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_has_segments_sections_and_functions() {
        let file = File::open("/proc/self/exe").unwrap();
        let source = Source::new(&file, 0);
        let segments = segments(&source).unwrap();
        assert!(segments.iter().any(|segment| segment.kind == LOAD && segment.offset == 0));
        assert!(segments.iter().any(|segment| segment.kind == UNWIND_TABLE));
        let sections = sections(&source).unwrap();
        let symbols = sections.iter().find(|section| section.kind == SYMBOLS).unwrap();
        let table = source.read(symbols.offset, symbols.size).unwrap();
        assert!(functions(&table).count() > 100);
    }

    #[test]
    fn what_is_no_program_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let text = folder.path().join("text");
        let huge_table = folder.path().join("huge");
        std::fs::write(&text, [b'x'; 100]).unwrap();
        let mut header = [0; 64];
        header[..6].copy_from_slice(b"\x7fELF\x02\x01");
        header[54..58].copy_from_slice(&[56, 0, 0xff, 0xff]);
        std::fs::write(&huge_table, header).unwrap();
        for path in [text, huge_table] {
            let file = File::open(path).unwrap();
            assert!(segments(&Source::new(&file, 0)).is_err());
        }
    }

    #[test]
    fn a_build_id_is_found_behind_other_notes() {
        let other = [&[4, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0][..], b"GNU\0", &[9, 9, 9, 9]].concat();
        let own = [&[4, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0][..], b"GNU\0", &[0xab, 0x01]].concat();
        assert_eq!(build_id(&[other.clone(), own].concat()).as_deref(), Some("ab01"));
        assert_eq!(build_id(&other), None);
        assert_eq!(build_id(&[0xff; 40]), None);
    }
}
