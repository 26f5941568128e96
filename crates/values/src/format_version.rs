//! Versions of files in Podward's own formats.
//!
//! A release reads every version up to the one that it writes. A file of a newer release is never guessed at: the reader
//! gets [`NewerFormat`] and decides whether the agent can do without the file.

use thiserror::Error;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormatVersion {
    newest: u32,
}

#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("format version {found} of a newer release, while this release reads versions up to {supported}")]
pub struct NewerFormat {
    pub found: u32,
    pub supported: u32,
}

impl FormatVersion {
    #[must_use]
    pub const fn new(newest: u32) -> Self {
        Self { newest }
    }

    /// The version that this release writes.
    #[must_use]
    pub const fn newest(self) -> u32 {
        self.newest
    }

    /// Returns the version of a file if this release can read it.
    ///
    /// # Errors
    /// If a newer release wrote the file.
    pub const fn check(self, found: u32) -> Result<u32, NewerFormat> {
        if found > self.newest { Err(NewerFormat { found, supported: self.newest }) } else { Ok(found) }
    }

    /// The version in a header line, which follows `prefix` and ends at a space or the end of the line. `None` if the line
    /// is none of this format.
    #[must_use]
    pub fn check_header(self, line: &str, prefix: &str) -> Option<Result<u32, NewerFormat>> {
        let number = line.strip_prefix(prefix)?.split(' ').next()?;
        Some(self.check(number.parse().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: FormatVersion = FormatVersion::new(2);

    #[test]
    fn accepts_versions_up_to_its_own() {
        for found in [0, 1, 2] {
            assert_eq!(FORMAT.check(found), Ok(found));
        }
        let error = FORMAT.check(3).unwrap_err();
        assert_eq!(error, NewerFormat { found: 3, supported: 2 });
        assert_eq!(
            error.to_string(),
            "format version 3 of a newer release, while this release reads versions up to 2"
        );
    }

    #[test]
    fn reads_version_of_a_header() {
        let check = |line| FORMAT.check_header(line, "podward-state v");
        assert_eq!(check("podward-state v1 00ff 7"), Some(Ok(1)));
        assert_eq!(check("podward-state v2"), Some(Ok(2)));
        assert_eq!(check("podward-state v10 x"), Some(Err(NewerFormat { found: 10, supported: 2 })));
        for foreign in ["", "podward-state v", "podward-state vx", "podward-state v1x", "other v1"] {
            assert_eq!(check(foreign), None, "{foreign}");
        }
    }
}
