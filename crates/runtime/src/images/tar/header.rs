//! The header block of an entry.

use super::extensions::Extensions;
use super::sparse::SparseMap;
use super::{BLOCK, Entry, EntryKind, ModifiedAt, TarError, checked_path};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TypeFlag {
    Pax,
    PaxGlobal,
    LongName,
    LongLink,
    /// An entry of the file system.
    Entry(u8),
}

#[derive(Debug)]
pub(super) struct Header {
    pub(super) type_flag: TypeFlag,
    pub(super) size: u64,
    path: Vec<u8>,
    link: Vec<u8>,
    mode: u64,
    uid: u64,
    gid: u64,
    seconds: i64,
    device: (u64, u64),
}

impl Header {
    /// `None` for a block of zeros, which ends the archive.
    pub(super) fn parse(block: &[u8; BLOCK]) -> Result<Option<Self>, TarError> {
        if block.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        check_sum(block)?;
        let type_flag = match field(block, 156, 1).first().copied().unwrap_or_default() {
            b'x' => TypeFlag::Pax,
            b'g' => TypeFlag::PaxGlobal,
            b'L' => TypeFlag::LongName,
            b'K' => TypeFlag::LongLink,
            0 => TypeFlag::Entry(b'0'),
            other => TypeFlag::Entry(other),
        };
        let is_device = matches!(type_flag, TypeFlag::Entry(b'3' | b'4'));
        let device =
            if is_device { (number(block, 329, 8)?, number(block, 337, 8)?) } else { Default::default() };
        Ok(Some(Self {
            type_flag,
            size: number(block, 124, 12)?,
            path: path(block),
            link: text(field(block, 157, 100)).to_vec(),
            mode: number(block, 100, 8)?,
            uid: number(block, 108, 8)?,
            gid: number(block, 116, 8)?,
            seconds: signed_number(block, 136, 12)?.max(0),
            device,
        }))
    }

    pub(super) fn entry(
        &self,
        extensions: Extensions,
        data: SparseMap,
        size: u64,
    ) -> Result<Entry, TarError> {
        let path = checked_path(extensions.path(&self.path))?;
        let link = checked_path(extensions.link(&self.link))?;
        let id = |extended: Option<u64>, own: u64| {
            u32::try_from(extended.unwrap_or(own))
                .map_err(|_| TarError::Header("user or group id out of range"))
        };
        Ok(Entry {
            kind: self.kind(&path, link)?,
            mode: u32::try_from(self.mode & 0o7777).unwrap_or_default(),
            uid: id(extensions.uid, self.uid)?,
            gid: id(extensions.gid, self.gid)?,
            modified: extensions.modified.unwrap_or(ModifiedAt { seconds: self.seconds, nanoseconds: 0 }),
            size,
            attributes: extensions.attributes,
            data,
            path,
        })
    }

    fn kind(&self, path: &[u8], link: Vec<u8>) -> Result<EntryKind, TarError> {
        let TypeFlag::Entry(flag) = self.type_flag else { return Err(TarError::Header("not an entry")) };
        Ok(match flag {
            // The format before ustar marks folders by their name.
            b'0' if path.ends_with(b"/") => EntryKind::Folder,
            b'0' | b'7' | b'S' => EntryKind::File,
            b'1' => EntryKind::HardLink(link),
            b'2' => EntryKind::SymbolicLink(link),
            b'3' => device(self.device, EntryKind::CharacterDevice)?,
            b'4' => device(self.device, EntryKind::BlockDevice)?,
            b'5' => EntryKind::Folder,
            b'6' => EntryKind::Fifo,
            other => return Err(TarError::UnsupportedType(char::from(other))),
        })
    }
}

/// Linux has 12 bits for the major and 20 bits for the minor number; larger ones would name another device.
fn device((major, minor): (u64, u64), kind: fn(u32, u32) -> EntryKind) -> Result<EntryKind, TarError> {
    match (u32::try_from(major), u32::try_from(minor)) {
        (Ok(major), Ok(minor)) if major < 1 << 12 && minor < 1 << 20 => Ok(kind(major, minor)),
        _ => Err(TarError::Header("device number out of range")),
    }
}

fn path(block: &[u8; BLOCK]) -> Vec<u8> {
    let name = text(field(block, 0, 100));
    let prefix = text(field(block, 345, 155));
    // GNU archives have other fields at the place of the prefix.
    let has_prefix = field(block, 257, 6) == b"ustar\0" && !prefix.is_empty();
    if has_prefix { [prefix, b"/", name].concat() } else { name.to_vec() }
}

fn check_sum(block: &[u8; BLOCK]) -> Result<(), TarError> {
    let stated = number(block, 148, 8)?;
    let bytes =
        || block.iter().enumerate().map(|(at, byte)| if (148..156).contains(&at) { b' ' } else { *byte });
    let unsigned: u64 = bytes().map(u64::from).sum();
    // Some old writers add signed bytes.
    let signed: i64 = bytes().map(|byte| i64::from(byte.cast_signed())).sum();
    if stated == unsigned || i64::try_from(stated) == Ok(signed) {
        Ok(())
    } else {
        Err(TarError::Header("wrong checksum"))
    }
}

pub(super) fn field(block: &[u8; BLOCK], start: usize, length: usize) -> &[u8] {
    block.get(start..start + length).unwrap_or_default()
}

/// Text up to the first NUL byte.
pub(super) fn text(field: &[u8]) -> &[u8] {
    field.split(|byte| *byte == 0).next().unwrap_or_default()
}

pub(super) fn number(block: &[u8; BLOCK], start: usize, length: usize) -> Result<u64, TarError> {
    u64::try_from(signed_number(block, start, length)?).map_err(|_| TarError::Header("negative number"))
}

/// Octal text, or a binary number if the highest bit is set.
fn signed_number(block: &[u8; BLOCK], start: usize, length: usize) -> Result<i64, TarError> {
    let field = field(block, start, length);
    match field.split_first() {
        Some((first, rest)) if first & 0x80 != 0 => binary(*first, rest),
        _ => octal(field),
    }
}

fn octal(field: &[u8]) -> Result<i64, TarError> {
    let digits = text(field).trim_ascii();
    digits.iter().try_fold(0_i64, |value, digit| match digit {
        b'0'..=b'7' => value
            .checked_mul(8)
            .and_then(|value| value.checked_add(i64::from(digit - b'0')))
            .ok_or(TarError::Header("number out of range")),
        _ => Err(TarError::Header("invalid octal number")),
    })
}

fn binary(first: u8, rest: &[u8]) -> Result<i64, TarError> {
    // Bit 6 is the sign of a two's complement number.
    let negative = first & 0x40 != 0;
    let start = if negative { i128::from(first | 0x80) - 256 } else { i128::from(first & 0x3f) };
    let value =
        rest.iter().try_fold(start, |value, byte| value.checked_mul(256)?.checked_add(i128::from(*byte)));
    value.and_then(|value| i64::try_from(value).ok()).ok_or(TarError::Header("number out of range"))
}
