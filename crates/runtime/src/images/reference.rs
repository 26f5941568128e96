//! The names under which an image is stored.

use values::image_name::{ImageName, InvalidImageName, parse_image_name};

use super::digest::Digest;

/// A reference with its registry, and a tag or a digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    pub(crate) repository: String,
    pub(crate) version: Version,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    Tag(String),
    Digest(Digest),
}

#[derive(Debug, thiserror::Error)]
pub enum ReferenceError {
    #[error("invalid image reference {image:?}: {problem}")]
    Name { image: String, problem: String },
    #[error("invalid image reference {image:?}")]
    Digest { image: String, source: super::digest::InvalidDigest },
}

impl Reference {
    /// Reads a reference; a digest wins over a tag, and the tag `latest` is used if there is neither.
    pub(crate) fn parse(image: &str) -> Result<Self, ReferenceError> {
        let ImageName { repository, tag, digest } = parse_image_name(image)
            .map_err(|InvalidImageName { image, problem }| ReferenceError::Name { image, problem })?;
        let version = match (digest, tag) {
            (Some(digest), _) => Version::Digest(
                digest
                    .parse()
                    .map_err(|source| ReferenceError::Digest { image: image.to_owned(), source })?,
            ),
            (None, Some(tag)) => Version::Tag(tag),
            (None, None) => Version::Tag("latest".to_owned()),
        };
        Ok(Self { repository, version })
    }

    pub(crate) fn text(&self) -> String {
        match &self.version {
            Version::Tag(tag) => format!("{}:{tag}", self.repository),
            Version::Digest(digest) => self.digest_text(digest),
        }
    }

    /// The name of the repository's content with this digest.
    pub(crate) fn digest_text(&self, digest: &Digest) -> String {
        format!("{}@{digest}", self.repository)
    }

    pub(crate) fn tag_text(&self) -> Option<String> {
        matches!(self.version, Version::Tag(_)).then(|| self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_are_completed() {
        let hex = "a".repeat(64);
        for (image, expected) in [
            ("busybox", "docker.io/library/busybox:latest".to_owned()),
            ("user/app:1", "docker.io/user/app:1".to_owned()),
            ("[::1]:5000/a", "[::1]:5000/a:latest".to_owned()),
            (&format!("app:1@sha256:{hex}"), format!("docker.io/library/app@sha256:{hex}")),
        ] {
            assert_eq!(Reference::parse(image).unwrap().text(), expected);
        }
    }

    #[test]
    fn unsafe_names_are_rejected() {
        for image in ["", "../a", "a/../b", "a:b/../c", "A", "a@sha512:00"] {
            assert!(Reference::parse(image).is_err(), "{image}");
        }
    }
}
