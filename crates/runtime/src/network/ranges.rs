//! Which ranges pods' addresses come from.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::cidr::Cidr;
use super::errors::{During, NetworkFailure};
use super::settings::DEFAULT_POD_CIDR;

/// Longer prefixes have no usable address.
const MAX_PREFIX_V4: u8 = 30;
const MAX_PREFIX_V6: u8 = 126;

/// Recorded, because pods with addresses of former ranges still run when the process starts again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ranges {
    /// For new pods, at most one per family.
    pub(super) current: Vec<Cidr>,
    /// Pods that still run may use them.
    pub(super) former: Vec<Cidr>,
}

impl Ranges {
    /// The configured ranges, else the recorded ones, else the default.
    pub(super) fn load(file: &RangesFile, configured: &[Cidr]) -> Result<Self, NetworkFailure> {
        let mut ranges = file.read()?;
        if !configured.is_empty() {
            ranges.replace_current(configured)?;
        } else if ranges.current.is_empty() {
            ranges.current.extend(DEFAULT_POD_CIDR.parse::<Cidr>());
        }
        Ok(ranges)
    }

    pub(super) fn replace_current(&mut self, new: &[Cidr]) -> Result<(), NetworkFailure> {
        validate(new)?;
        let new: Vec<Cidr> = new.iter().map(|range| range.network()).collect();
        self.former.append(&mut self.current);
        self.former.retain(|range| !new.contains(range));
        self.former.dedup();
        self.current = new;
        Ok(())
    }

    pub(super) fn all(&self) -> impl Iterator<Item = Cidr> {
        self.current.iter().chain(&self.former).copied()
    }

    pub(super) fn has_v6(&self) -> bool {
        self.all().any(Cidr::is_v6)
    }
}

fn validate(ranges: &[Cidr]) -> Result<(), NetworkFailure> {
    let invalid = |range: &Cidr, reason| NetworkFailure::Invalid {
        field: "range of pod addresses",
        value: range.to_string(),
        reason,
    };
    for (index, range) in ranges.iter().enumerate() {
        if range.prefix() > if range.is_v6() { MAX_PREFIX_V6 } else { MAX_PREFIX_V4 } {
            return Err(invalid(range, "has no usable address"));
        }
        if ranges.iter().skip(index + 1).any(|other| other.is_v6() == range.is_v6()) {
            return Err(invalid(range, "a second range of this family follows"));
        }
        let address = range.address();
        if address.is_loopback() || address.is_multicast() || address.is_unspecified() {
            return Err(invalid(range, "not a range of unicast addresses"));
        }
    }
    Ok(())
}

/// One line per range: `current` or `former`, and the range.
#[derive(Debug)]
pub(super) struct RangesFile(PathBuf);

impl RangesFile {
    pub(super) fn in_folder(state_folder: &Path) -> Self {
        Self(state_folder.join("pod-cidrs"))
    }

    /// Lines that cannot be read are left out: the file only helps to keep old pods connected.
    fn read(&self) -> Result<Ranges, NetworkFailure> {
        let text = match fs::read_to_string(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            result => result.on_path("read", &self.0)?,
        };
        let mut ranges = Ranges::default();
        for (kind, range) in text.lines().filter_map(|line| line.split_once(' ')) {
            match kind {
                "current" => ranges.current.extend(range.parse::<Cidr>()),
                _ => ranges.former.extend(range.parse::<Cidr>()),
            }
        }
        Ok(ranges)
    }

    pub(super) fn write(&self, ranges: &Ranges) -> Result<(), NetworkFailure> {
        let lines = |kind: &str, ranges: &[Cidr]| -> String {
            ranges.iter().map(|range| format!("{kind} {range}\n")).collect()
        };
        let text = lines("current", &ranges.current) + &lines("former", &ranges.former);
        if fs::read_to_string(&self.0).is_ok_and(|current| current == text) {
            return Ok(());
        }
        replace_file(&self.0, text.as_bytes())
    }
}

/// A crash leaves the old content or the new one.
pub(super) fn replace_file(path: &Path, content: &[u8]) -> Result<(), NetworkFailure> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let new = PathBuf::from(name);
    let mut file = fs::File::create(&new).on_path("create", &new)?;
    file.write_all(content).and_then(|()| file.sync_all()).on_path("write", &new)?;
    fs::rename(&new, path).on_path("replace", path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cidrs(text: &str) -> Vec<Cidr> {
        text.split_whitespace().map(|range| range.parse().unwrap()).collect()
    }

    #[test]
    fn recorded_ranges_apply_until_others_are_configured() {
        let folder = tempfile::tempdir().unwrap();
        let file = RangesFile::in_folder(folder.path());
        let mut ranges = Ranges::load(&file, &[]).unwrap();
        assert_eq!(ranges.current, cidrs("10.85.0.0/16"));
        ranges.replace_current(&cidrs("10.1.0.0/24 fd01::/64")).unwrap();
        file.write(&ranges).unwrap();
        assert_eq!(Ranges::load(&file, &[]).unwrap(), ranges);
        let configured = Ranges::load(&file, &cidrs("10.85.0.7/16")).unwrap();
        assert_eq!(configured.current, cidrs("10.85.0.0/16"));
        assert_eq!(configured.former, cidrs("10.1.0.0/24 fd01::/64"));
    }

    #[test]
    fn refuses_ranges_that_pods_cannot_use() {
        for text in
            ["10.0.0.0/31", "fd00::/127", "10.0.0.0/16 10.1.0.0/16", "127.0.0.0/8", "ff00::/8", "0.0.0.0/0"]
        {
            assert!(Ranges::default().replace_current(&cidrs(text)).is_err(), "{text}");
        }
    }
}
