//! The choice of a manifest from the index of a multi-platform image.

use serde::{Deserialize, Serialize};

use super::manifest::Descriptor;

/// Operating system and architecture of an image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Platform {
    #[serde(default)]
    pub architecture: String,
    #[serde(default)]
    pub os: String,
    #[serde(default)]
    pub variant: String,
}

impl Platform {
    /// The platform of this machine.
    pub fn host() -> Self {
        let variant = if cfg!(target_arch = "x86_64") { x86_level() } else { String::new() };
        Self { architecture: std::env::consts::ARCH.to_owned(), os: "linux".to_owned(), variant }.normalized()
    }

    /// With the names of the OCI specification instead of those of other tools.
    #[must_use]
    pub fn normalized(self) -> Self {
        let architecture = self.architecture.to_ascii_lowercase();
        let variant = self.variant.to_ascii_lowercase();
        let (architecture, variant) = match (architecture.as_str(), variant.as_str()) {
            ("x86_64" | "x86-64" | "amd64", "v1") => ("amd64", ""),
            ("x86_64" | "x86-64", other) => ("amd64", other),
            ("aarch64" | "arm64", "8" | "v8") => ("arm64", ""),
            ("aarch64", other) => ("arm64", other),
            ("armhf", _) | ("arm", "" | "7") => ("arm", "v7"),
            ("armel", _) | ("arm", "6") => ("arm", "v6"),
            ("i386" | "i686", _) => ("386", ""),
            (architecture, variant) => (architecture, variant),
        };
        Self {
            architecture: architecture.to_owned(),
            variant: variant.to_owned(),
            os: self.os.to_ascii_lowercase(),
        }
    }

    /// How well an image of `offered` runs on this machine: 0 is best, `None` if it does not.
    fn rank(&self, offered: &Self) -> Option<u32> {
        if offered.os != self.os {
            return None;
        }
        let level = |platform: &Self, default: u32| match platform.variant.strip_prefix('v') {
            Some(number) => number.split('.').next().and_then(|number| number.parse().ok()),
            None => Some(default),
        };
        match (self.architecture.as_str(), offered.architecture.as_str()) {
            ("amd64", "amd64") => level(self, 1)?.checked_sub(level(offered, 1)?),
            ("amd64", "386") => Some(100),
            ("arm64", "arm64") => level(self, 8)?.checked_sub(level(offered, 8)?),
            ("arm64", "arm") => Some(100 + 8_u32.checked_sub(level(offered, 7)?)?),
            ("arm", "arm") => level(self, 7)?.checked_sub(level(offered, 7)?),
            (own, offered_architecture) => {
                (own == offered_architecture && self.variant == offered.variant).then_some(0)
            }
        }
    }

    pub(crate) fn text(&self) -> String {
        let separator = if self.variant.is_empty() { "" } else { "/" };
        format!("{}/{}{separator}{}", self.os, self.architecture, self.variant)
    }
}

/// The entries of an index that run on this machine, best first. Entries without a platform come last: their
/// configuration decides.
pub(crate) fn candidates<'a>(host: &Platform, entries: &'a [Descriptor]) -> Vec<&'a Descriptor> {
    const UNKNOWN: u32 = u32::MAX;
    let mut ranked: Vec<_> = entries
        .iter()
        .filter_map(|entry| match &entry.platform {
            None => Some((UNKNOWN, entry)),
            Some(platform) => Some((host.rank(&platform.clone().normalized())?, entry)),
        })
        .collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().map(|(_, entry)| entry).collect()
}

/// Whether an image with this configuration runs on the machine.
pub(crate) fn runs_on(host: &Platform, image: &Platform) -> bool {
    host.rank(image).is_some()
}

/// The highest microarchitecture level of x86-64 that this processor has.
fn x86_level() -> String {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::is_x86_feature_detected as has;
        let v2 = has!("sse4.2") && has!("popcnt") && has!("ssse3") && has!("cmpxchg16b");
        let v3 = v2
            && has!("avx2")
            && has!("bmi1")
            && has!("bmi2")
            && has!("fma")
            && has!("f16c")
            && has!("movbe");
        let v4 = v3
            && has!("avx512f")
            && has!("avx512bw")
            && has!("avx512cd")
            && has!("avx512dq")
            && has!("avx512vl");
        let level = if v4 {
            4
        } else if v3 {
            3
        } else if v2 {
            2
        } else {
            1
        };
        format!("v{level}")
    }
    #[cfg(not(target_arch = "x86_64"))]
    String::new()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::digest::Digest;

    fn platform(text: &str) -> Platform {
        let mut parts = text.split('/').map(str::to_owned);
        let mut next = || parts.next().unwrap_or_default();
        let (os, architecture, variant) = (next(), next(), next());
        Platform { architecture, os, variant }.normalized()
    }

    fn entry(text: &str) -> Descriptor {
        let platform = (!text.is_empty()).then(|| platform(text));
        Descriptor {
            media_type: String::new(),
            digest: Digest::of(text.as_bytes()),
            size: 1,
            platform,
            annotations: Default::default(),
        }
    }

    #[track_caller]
    fn check(host: &str, offered: &[&str], expected: &[&str]) {
        let entries: Vec<_> = offered.iter().map(|text| entry(text)).collect();
        let chosen: Vec<_> =
            candidates(&platform(host), &entries).into_iter().map(|e| e.digest.clone()).collect();
        let expected: Vec<_> = expected.iter().map(|text| Digest::of(text.as_bytes())).collect();
        assert_eq!(chosen, expected, "{host}: {offered:?}");
    }

    #[test]
    fn best_variant_of_the_architecture_comes_first() {
        check(
            "linux/amd64/v3",
            &["linux/386", "linux/amd64", "linux/amd64/v3", "linux/amd64/v4", "linux/amd64/v2"],
            &["linux/amd64/v3", "linux/amd64/v2", "linux/amd64", "linux/386"],
        );
        check(
            "linux/arm64",
            &["linux/arm/v6", "linux/arm/v7", "linux/arm64/v8"],
            &["linux/arm64/v8", "linux/arm/v7", "linux/arm/v6"],
        );
        check("linux/arm/v7", &["linux/arm64", "linux/arm/v6"], &["linux/arm/v6"]);
    }

    #[test]
    fn attestations_and_other_systems_are_never_chosen() {
        check("linux/amd64", &["unknown/unknown", "windows/amd64", "linux/s390x"], &[]);
    }

    #[test]
    fn entry_without_platform_is_the_last_choice() {
        check("linux/amd64", &["", "linux/amd64"], &["linux/amd64", ""]);
    }
}
