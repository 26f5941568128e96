//! PAX records and GNU long names: values that replace those of the header that follows.

use super::header::text;
use super::sparse::PaxSparse;
use super::{ModifiedAt, TarError};

const ATTRIBUTE_PREFIXES: [&[u8]; 1] = [b"SCHILY.xattr."];

#[derive(Debug, Default)]
pub(super) struct Extensions {
    pub(super) size: Option<u64>,
    pub(super) uid: Option<u64>,
    pub(super) gid: Option<u64>,
    pub(super) modified: Option<ModifiedAt>,
    pub(super) attributes: Vec<(Vec<u8>, Vec<u8>)>,
    pub(super) sparse: PaxSparse,
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
}

impl Extensions {
    pub(super) fn set_path(&mut self, content: &[u8]) {
        self.path = Some(text(content).to_vec());
    }

    pub(super) fn set_link(&mut self, content: &[u8]) {
        self.link = Some(text(content).to_vec());
    }

    pub(super) fn path(&self, own: &[u8]) -> Vec<u8> {
        let path = self.sparse.name().or(self.path.as_deref());
        path.unwrap_or(own).to_vec()
    }

    pub(super) fn link(&self, own: &[u8]) -> Vec<u8> {
        self.link.as_deref().unwrap_or(own).to_vec()
    }

    /// Reads records of the form `LENGTH KEY=VALUE\n`.
    pub(super) fn add_pax(&mut self, mut content: &[u8]) -> Result<(), TarError> {
        const INVALID: TarError = TarError::Header("invalid extended header");
        while !content.is_empty() {
            let space = content.iter().position(|byte| *byte == b' ').ok_or(INVALID)?;
            let (digits, _) = content.split_at_checked(space).ok_or(INVALID)?;
            let length = decimal(digits)?;
            let length = usize::try_from(length).map_err(|_| INVALID)?;
            let (record, rest) = content.split_at_checked(length).ok_or(INVALID)?;
            let record =
                record.get(space + 1..).and_then(|record| record.strip_suffix(b"\n")).ok_or(INVALID)?;
            let equals = record.iter().position(|byte| *byte == b'=').ok_or(INVALID)?;
            let (key, value) = record.split_at_checked(equals).ok_or(INVALID)?;
            self.add_record(key, value.strip_prefix(b"=").unwrap_or_default())?;
            content = rest;
        }
        Ok(())
    }

    fn add_record(&mut self, key: &[u8], value: &[u8]) -> Result<(), TarError> {
        match key {
            b"path" => self.path = Some(value.to_vec()),
            b"linkpath" => self.link = Some(value.to_vec()),
            b"size" => self.size = Some(decimal(value)?),
            b"uid" => self.uid = Some(decimal(value)?),
            b"gid" => self.gid = Some(decimal(value)?),
            b"mtime" => self.modified = Some(modified(value)?),
            _ => {
                if let Some(key) = key.strip_prefix(b"GNU.sparse.") {
                    return self.sparse.add(key, value);
                }
                let name = ATTRIBUTE_PREFIXES.iter().find_map(|prefix| key.strip_prefix(*prefix));
                if let Some(name) = name.filter(|name| !name.is_empty() && !name.contains(&0)) {
                    self.attributes.push((name.to_vec(), value.to_vec()));
                }
            }
        }
        Ok(())
    }
}

pub(super) fn decimal(text: &[u8]) -> Result<u64, TarError> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let number = std::str::from_utf8(text).ok().filter(|_| is_number).and_then(|text| text.parse().ok());
    number.ok_or(TarError::Header("invalid number in an extended header"))
}

/// Seconds with a fraction; a time before 1970 becomes 1970.
fn modified(value: &[u8]) -> Result<ModifiedAt, TarError> {
    if value.starts_with(b"-") {
        return Ok(ModifiedAt::default());
    }
    let mut parts = value.splitn(2, |byte| *byte == b'.');
    let seconds = decimal(parts.next().unwrap_or_default())?;
    let seconds = i64::try_from(seconds).map_err(|_| TarError::Header("time out of range"))?;
    let digits = parts.next().unwrap_or_default().iter().chain(b"000000000").take(9);
    let nanoseconds =
        digits.copied().filter(u8::is_ascii_digit).fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0'));
    Ok(ModifiedAt { seconds, nanoseconds })
}
