//! Maps of sparse files: where in the file the stored bytes belong.

use super::extensions::decimal;
use super::header::{field, number};
use super::{BLOCK, TarError};

/// More than file systems usually have extents per file.
const MAX_SEGMENTS: u64 = 100_000;
const INVALID: TarError = TarError::Header("invalid map of a sparse file");

/// Offsets and lengths of the data in a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SparseMap(Vec<(u64, u64)>);

impl SparseMap {
    pub(super) fn whole(size: u64) -> Self {
        Self(vec![(0, size)])
    }

    pub(super) fn segments(&self) -> &[(u64, u64)] {
        &self.0
    }

    /// Fails unless the segments are in order, within the file, and as long as the stored data.
    pub(super) fn check(&self, stored: u64, size: u64) -> Result<(), TarError> {
        let mut end = 0;
        let mut sum = 0_u64;
        for &(offset, length) in &self.0 {
            if offset < end {
                return Err(INVALID);
            }
            end = offset.checked_add(length).ok_or(INVALID)?;
            sum = sum.checked_add(length).ok_or(INVALID)?;
        }
        // Offsets of files are signed.
        if end > size || sum > stored || i64::try_from(size).is_err() { Err(INVALID) } else { Ok(()) }
    }

    fn push(&mut self, offset: u64, length: u64) -> Result<(), TarError> {
        if self.0.len() as u64 >= MAX_SEGMENTS {
            return Err(TarError::TooLong { what: "map of a sparse file", limit: MAX_SEGMENTS });
        }
        self.0.push((offset, length));
        Ok(())
    }
}

/// The map of GNU's own format: in the header and in blocks that follow it. Returns it with the size of the file.
pub(super) fn read_gnu(
    header: &[u8; BLOCK],
    mut next_block: impl FnMut() -> Result<[u8; BLOCK], TarError>,
) -> Result<(SparseMap, u64), TarError> {
    let mut map = SparseMap::default();
    add_slots(&mut map, header, 386, 4)?;
    let mut is_extended = field(header, 482, 1) != [0];
    while is_extended {
        let block = next_block()?;
        add_slots(&mut map, &block, 0, 21)?;
        is_extended = field(&block, 504, 1) != [0];
    }
    Ok((map, number(header, 483, 12)?))
}

fn add_slots(map: &mut SparseMap, block: &[u8; BLOCK], start: usize, count: usize) -> Result<(), TarError> {
    for slot in 0..count {
        let at = start + slot * 24;
        if field(block, at, 1) == [0] {
            return Ok(());
        }
        map.push(number(block, at, 12)?, number(block, at + 12, 12)?)?;
    }
    Ok(())
}

/// The map of PAX format 1.0: lines of decimal numbers in whole blocks before the data.
pub(super) fn read_version_1(
    mut next_block: impl FnMut() -> Result<[u8; BLOCK], TarError>,
) -> Result<SparseMap, TarError> {
    let mut block = next_block()?;
    let mut at = 0;
    let mut next_number = || {
        let mut digits = Vec::new();
        loop {
            if at == BLOCK {
                block = next_block()?;
                at = 0;
            }
            let byte = block.get(at).copied().unwrap_or_default();
            at += 1;
            match byte {
                b'\n' => return decimal(&digits),
                _ if digits.len() > 20 => return Err(INVALID),
                _ => digits.push(byte),
            }
        }
    };
    let mut map = SparseMap::default();
    for _ in 0..next_number()? {
        let (offset, length) = (next_number()?, next_number()?);
        map.push(offset, length)?;
    }
    Ok(map)
}

/// The records of the PAX formats.
#[derive(Debug, Default)]
pub(super) struct PaxSparse {
    major: Option<u64>,
    size: Option<u64>,
    name: Option<Vec<u8>>,
    map: Option<SparseMap>,
    /// The offset whose length follows in the next record (format 0.0).
    offset: Option<u64>,
}

impl PaxSparse {
    pub(super) fn add(&mut self, key: &[u8], value: &[u8]) -> Result<(), TarError> {
        match key {
            b"major" => self.major = Some(decimal(value)?),
            b"name" => self.name = Some(value.to_vec()),
            b"size" | b"realsize" => self.size = Some(decimal(value)?),
            b"offset" => self.offset = Some(decimal(value)?),
            b"numbytes" => {
                let offset = self.offset.take().ok_or(INVALID)?;
                self.map.get_or_insert_default().push(offset, decimal(value)?)?;
            }
            b"map" => {
                let numbers =
                    value.split(|byte| *byte == b',').map(decimal).collect::<Result<Vec<_>, _>>()?;
                let mut map = SparseMap::default();
                for pair in numbers.chunks(2) {
                    let &[offset, length] = pair else { return Err(INVALID) };
                    map.push(offset, length)?;
                }
                self.map = Some(map);
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn is_version_1(&self) -> bool {
        self.major == Some(1)
    }

    pub(super) fn name(&self) -> Option<&[u8]> {
        self.name.as_deref()
    }

    pub(super) fn size(&self) -> Result<u64, TarError> {
        self.size.ok_or(INVALID)
    }

    pub(super) fn map(&self) -> Result<Option<SparseMap>, TarError> {
        if self.offset.is_some() { Err(INVALID) } else { Ok(self.map.clone()) }
    }
}
