//! A reader of tar archives from outside: ustar, PAX and GNU extensions, sparse files; everything bounded.
//!
//! It yields entries and their data; it does not touch the file system.

mod extensions;
mod header;
mod sparse;

use std::io::{self, Read};

use extensions::Extensions;
use header::{Header, TypeFlag};
use sparse::SparseMap;

pub(crate) const BLOCK: usize = 512;
const BLOCK_SIZE: u64 = 512;
/// Largest extended header; names and extended attributes are in it.
const MAX_EXTENSION: u64 = 1024 * 1024;
/// The longest path that Linux accepts.
const MAX_PATH: usize = 4096;

#[derive(Debug, thiserror::Error)]
pub enum TarError {
    #[error("failed to read archive")]
    Read(#[from] io::Error),
    #[error("archive ends inside an entry")]
    Truncated,
    #[error("invalid archive header: {0}")]
    Header(&'static str),
    #[error("{what} of an archive entry is longer than the limit of {limit} bytes")]
    TooLong { what: &'static str, limit: u64 },
    #[error("unsupported archive entry type {0:?}")]
    UnsupportedType(char),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EntryKind {
    File,
    Folder,
    /// With the path of the link's target in the archive.
    HardLink(Vec<u8>),
    /// With the text of the link.
    SymbolicLink(Vec<u8>),
    CharacterDevice(u32, u32),
    BlockDevice(u32, u32),
    Fifo,
}

/// Seconds since 1970, never negative, and nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ModifiedAt {
    pub(crate) seconds: i64,
    pub(crate) nanoseconds: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) path: Vec<u8>,
    pub(crate) kind: EntryKind,
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) modified: ModifiedAt,
    /// Size of the file, with its holes.
    pub(crate) size: u64,
    /// Names and values, in the archive's order.
    pub(crate) attributes: Vec<(Vec<u8>, Vec<u8>)>,
    data: SparseMap,
}

#[derive(Debug)]
pub(crate) struct TarReader<R> {
    input: R,
    /// Bytes of the current entry that were not read, and of its padding.
    unread: u64,
    padding: u64,
}

impl<R: Read> TarReader<R> {
    pub(crate) fn new(input: R) -> Self {
        Self { input, unread: 0, padding: 0 }
    }

    /// The next entry; `None` at the end of the archive.
    pub(crate) fn next_entry(&mut self) -> Result<Option<Entry>, TarError> {
        let mut extensions = Extensions::default();
        loop {
            self.skip(self.unread + self.padding)?;
            let Some(block) = self.read_header()? else { return Ok(None) };
            let Some(header) = Header::parse(&block)? else { return Ok(None) };
            self.begin(header.size);
            match header.type_flag {
                TypeFlag::Pax => extensions.add_pax(&self.read_extension()?)?,
                TypeFlag::PaxGlobal => {}
                TypeFlag::LongName => extensions.set_path(&self.read_extension()?),
                TypeFlag::LongLink => extensions.set_link(&self.read_extension()?),
                TypeFlag::Entry(_) => return self.finish(&header, extensions, &block).map(Some),
            }
        }
    }

    /// Passes the data of the entry to `write`, with the offset in the file. Holes are skipped.
    pub(crate) fn copy_data(
        &mut self,
        entry: &Entry,
        mut write: impl FnMut(u64, &[u8]) -> io::Result<()>,
    ) -> Result<(), TarError> {
        let mut buffer = vec![0; 128 * 1024];
        for &(start, length) in entry.data.segments() {
            let mut offset = start;
            let mut left = length;
            while left > 0 {
                let wanted = usize::try_from(left.min(buffer.len() as u64)).unwrap_or(buffer.len());
                let chunk = buffer.get_mut(..wanted).unwrap_or_default();
                self.read_exact(chunk)?;
                self.unread = self.unread.saturating_sub(wanted as u64);
                write(offset, chunk)?;
                offset += wanted as u64;
                left -= wanted as u64;
            }
        }
        Ok(())
    }

    /// The rest of the input, to read what follows the end of the archive.
    pub(crate) fn into_inner(self) -> R {
        self.input
    }

    fn begin(&mut self, size: u64) {
        self.unread = size;
        self.padding = size.wrapping_neg() % BLOCK_SIZE;
    }

    fn finish(
        &mut self,
        header: &Header,
        extensions: Extensions,
        block: &[u8; BLOCK],
    ) -> Result<Entry, TarError> {
        let size = extensions.size.unwrap_or(header.size);
        let carries_data = matches!(header.type_flag, TypeFlag::Entry(b'0' | b'7' | b'S'));
        // Some writers store the size of the target in links; no data follows then.
        let stored = if carries_data || extensions.size.is_some() { size } else { 0 };
        self.begin(stored);
        let (data, size) = if header.type_flag == TypeFlag::Entry(b'S') {
            let (map, size) = sparse::read_gnu(block, || self.read_block())?;
            (map, size)
        } else if extensions.sparse.is_version_1() {
            let map = sparse::read_version_1(|| {
                self.unread = self.unread.checked_sub(BLOCK_SIZE).ok_or(TarError::Truncated)?;
                self.read_block()
            })?;
            (map, extensions.sparse.size()?)
        } else if let Some(map) = extensions.sparse.map()? {
            (map, extensions.sparse.size()?)
        } else {
            (SparseMap::whole(if carries_data { stored } else { 0 }), if carries_data { stored } else { 0 })
        };
        data.check(self.unread, size)?;
        header.entry(extensions, data, size)
    }

    fn read_header(&mut self) -> Result<Option<[u8; BLOCK]>, TarError> {
        let mut block = [0; BLOCK];
        let mut filled = 0;
        while let Some(rest) = block.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.input.read(rest) {
                Ok(0) if filled == 0 => return Ok(None),
                Ok(0) => return Err(TarError::Truncated),
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Some(block))
    }

    fn read_block(&mut self) -> Result<[u8; BLOCK], TarError> {
        let mut block = [0; BLOCK];
        self.read_exact(&mut block)?;
        Ok(block)
    }

    fn read_extension(&mut self) -> Result<Vec<u8>, TarError> {
        if self.unread > MAX_EXTENSION {
            return Err(TarError::TooLong { what: "extended header", limit: MAX_EXTENSION });
        }
        let mut content = vec![0; usize::try_from(self.unread).unwrap_or_default()];
        self.read_exact(&mut content)?;
        self.unread = 0;
        Ok(content)
    }

    fn read_exact(&mut self, buffer: &mut [u8]) -> Result<(), TarError> {
        self.input.read_exact(buffer).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => TarError::Truncated,
            _ => TarError::Read(error),
        })
    }

    fn skip(&mut self, count: u64) -> Result<(), TarError> {
        let copied = io::copy(&mut (&mut self.input).take(count), &mut io::sink())?;
        self.begin(0);
        if copied < count { Err(TarError::Truncated) } else { Ok(()) }
    }
}

/// Fails for a path that Linux cannot have.
fn checked_path(path: Vec<u8>) -> Result<Vec<u8>, TarError> {
    if path.len() >= MAX_PATH {
        return Err(TarError::TooLong { what: "path", limit: MAX_PATH as u64 });
    }
    if path.contains(&0) {
        return Err(TarError::Header("path with a NUL byte"));
    }
    Ok(path)
}

#[cfg(test)]
mod tests;
