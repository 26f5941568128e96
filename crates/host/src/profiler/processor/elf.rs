//! A minimal ELF reader: unwind tables, symbols and build IDs of 64-bit files. All sizes are bounded.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Symbol and unwind tables of a large program have a few megabytes.
const MAX_TABLE_BYTES: u64 = 128 * 1024 * 1024;

/// Linked programs have far fewer segments and sections.
const MAX_ENTRIES: u64 = 1024;

/// Bytes by offset, of a file or of an image in memory.
pub(super) struct Source<'a> {
    file: &'a File,
    base: u64,
}

impl<'a> Source<'a> {
    /// Offsets are relative to `base`.
    pub(super) fn new(file: &'a File, base: u64) -> Self {
        Self { file, base }
    }

    pub(super) fn read(&self, offset: u64, length: u64) -> io::Result<Vec<u8>> {
        if length > MAX_TABLE_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "table is too long"));
        }
        let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        self.file.read_exact_at(&mut bytes, self.base.wrapping_add(offset))?;
        Ok(bytes)
    }
}

/// A program header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) kind: u32,
    pub(super) offset: u64,
    /// The address that the file was linked for.
    pub(super) address: u64,
    /// Size in memory.
    pub(super) size: u64,
}

pub(super) const LOAD: u32 = 1;
pub(super) const NOTE: u32 = 4;
pub(super) const UNWIND_TABLE: u32 = 0x6474_e550;

/// A section header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) kind: u32,
    pub(super) offset: u64,
    pub(super) size: u64,
    /// Index of an associated section, such as the string table of a symbol table.
    pub(super) link: u32,
}

pub(super) const SYMBOLS: u32 = 2;
pub(super) const DYNAMIC_SYMBOLS: u32 = 11;

pub(super) fn segments(source: &Source<'_>) -> io::Result<Vec<Segment>> {
    let table = table(source, TableFields { offset: 32, entry_size: 54, count: 56 })?;
    let segment = |entry: &[u8]| {
        Some(Segment {
            kind: read_u32(entry, 0)?,
            offset: read_u64(entry, 8)?,
            address: read_u64(entry, 16)?,
            size: read_u64(entry, 40)?,
        })
    };
    Ok(table.entries().filter_map(segment).collect())
}

pub(super) fn sections(source: &Source<'_>) -> io::Result<Vec<Section>> {
    let table = table(source, TableFields { offset: 40, entry_size: 58, count: 60 })?;
    let section = |entry: &[u8]| {
        Some(Section {
            kind: read_u32(entry, 4)?,
            offset: read_u64(entry, 24)?,
            size: read_u64(entry, 32)?,
            link: read_u32(entry, 40)?,
        })
    };
    Ok(table.entries().filter_map(section).collect())
}

/// The build ID in a note segment, in hexadecimal.
pub(super) fn build_id(mut notes: &[u8]) -> Option<String> {
    const BUILD_ID: u32 = 3;
    loop {
        let (name_size, size) = (read_u32(notes, 0)? as usize, read_u32(notes, 4)? as usize);
        let content = 12 + name_size.checked_next_multiple_of(4)?;
        let name = notes.get(12..12 + name_size)?;
        let bytes = notes.get(content..content.checked_add(size)?)?;
        if name == b"GNU\0" && read_u32(notes, 8)? == BUILD_ID {
            return Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect());
        }
        notes = notes.get(content + size.checked_next_multiple_of(4)?..)?;
    }
}

/// A function symbol; `name` is an offset into the string table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Symbol {
    pub(super) address: u64,
    pub(super) size: u64,
    pub(super) name: u32,
}

/// The function symbols of a symbol table.
pub(super) fn functions(table: &[u8]) -> impl Iterator<Item = Symbol> {
    const ENTRY: usize = 24;
    table.chunks_exact(ENTRY).filter_map(|entry| {
        let is_function = matches!(entry.get(4)? & 0xf, 2 | 10);
        let is_undefined = entry.get(6..8)? == [0, 0];
        let symbol =
            Symbol { address: read_u64(entry, 8)?, size: read_u64(entry, 16)?, name: read_u32(entry, 0)? };
        (is_function && !is_undefined).then_some(symbol)
    })
}

/// Offsets of the ELF header fields that describe a table.
#[derive(Clone, Copy)]
struct TableFields {
    offset: usize,
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

fn table(source: &Source<'_>, fields: TableFields) -> io::Result<Entries> {
    let header = source.read(0, 64)?;
    // 64 bits, little endian.
    let found = header.starts_with(b"\x7fELF\x02\x01").then(|| {
        Some((
            read_u64(&header, fields.offset)?,
            read_u16(&header, fields.entry_size)?,
            read_u16(&header, fields.count)?,
        ))
    });
    let invalid = |reason| io::Error::new(io::ErrorKind::InvalidData, reason);
    let (offset, size, count) = found.flatten().ok_or_else(|| invalid("not a 64-bit ELF file"))?;
    if !(1..=256).contains(&size) || u64::from(count) > MAX_ENTRIES {
        return Err(invalid("ELF table with an implausible size"));
    }
    let bytes = source.read(offset, u64::from(size) * u64::from(count))?;
    Ok(Entries { bytes, size: usize::from(size) })
}

fn read_u16(bytes: &[u8], offset: usize) -> Option<u16> {
    bytes.get(offset..)?.first_chunk().copied().map(u16::from_le_bytes)
}

fn read_u32(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes.get(offset..)?.first_chunk().copied().map(u32::from_le_bytes)
}

fn read_u64(bytes: &[u8], offset: usize) -> Option<u64> {
    bytes.get(offset..)?.first_chunk().copied().map(u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_segments_sections_and_functions_of_this_program() {
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
    fn rejects_other_files_and_huge_tables() {
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
    fn finds_build_id_after_other_notes() {
        let other = [&[4, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0][..], b"GNU\0", &[9, 9, 9, 9]].concat();
        let own = [&[4, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0][..], b"GNU\0", &[0xab, 0x01]].concat();
        assert_eq!(build_id(&[other.clone(), own].concat()).as_deref(), Some("ab01"));
        assert_eq!(build_id(&other), None);
        assert_eq!(build_id(&[0xff; 40]), None);
    }
}
