//! Versions of the CNI specification.

use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::network) struct Version {
    major: u8,
    minor: u8,
    patch: u8,
}

/// Those that a configuration or a result may have.
const KNOWN: [Version; 7] = [
    Version::new(0, 1, 0),
    Version::new(0, 2, 0),
    Version::new(0, 3, 0),
    Version::new(0, 3, 1),
    Version::new(0, 4, 0),
    Version::new(1, 0, 0),
    Version::new(1, 1, 0),
];

impl Version {
    /// Of a configuration that does not name one.
    pub(super) const DEFAULT: Self = Self::new(0, 1, 0);

    pub(super) const LATEST: Self = Self::new(1, 1, 0);

    pub(super) const fn new(major: u8, minor: u8, patch: u8) -> Self {
        Self { major, minor, patch }
    }

    /// `None` for a version that podward does not know.
    pub(super) fn parse(text: &str) -> Option<Self> {
        KNOWN.into_iter().find(|known| known.to_string() == text)
    }

    /// Results of these versions list interfaces and addresses.
    pub(super) fn has_lists(self) -> bool {
        self >= Self::new(0, 3, 0)
    }

    /// Addresses of these versions name their family.
    pub(super) fn names_families(self) -> bool {
        self.has_lists() && self < Self::new(1, 0, 0)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}
