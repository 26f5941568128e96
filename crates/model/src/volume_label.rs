mod level;

use std::collections::BTreeSet;

/// Default SELinux labels of containers and their files, by the machine's policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerLabels {
    /// Of processes; empty if the policy has none.
    pub process: String,
    /// Of files; empty if the policy has none.
    pub file: String,
}

/// How SELinux labels apply to a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum VolumeLabel {
    /// Nothing: the machine has no SELinux.
    #[default]
    None,
    /// Containers ask for labels; what comes of it is not settled.
    Requested(Box<LabelRequest>),
    /// The files keep their own labels.
    OfFiles,
    /// The volume is mounted with one label for all files.
    OfMount(String),
}

impl VolumeLabel {
    /// The label that a volume is mounted with.
    pub fn of_mount(&self) -> Option<&str> {
        match self {
            Self::OfMount(label) => Some(label),
            Self::None | Self::Requested(_) | Self::OfFiles => None,
        }
    }
}

impl From<Option<String>> for VolumeLabel {
    fn from(label: Option<String>) -> Self {
        label.map_or(Self::OfFiles, Self::OfMount)
    }
}

/// Whether two labels are one, however their levels are written; an empty one is none. Pods write levels as they like, and
/// the kernel, which shows what is mounted, in its own way.
pub fn same_label(one: &str, other: &str) -> bool {
    let parts = |label: &str| {
        let mut parts = label.splitn(4, ':').map(str::to_owned);
        ([parts.next(), parts.next(), parts.next()], parts.next().map(|level| level::canonical(&level)))
    };
    one == other || parts(one) == parts(other)
}

/// The labels that a pod requests for one volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelRequest {
    /// Name of the PersistentVolume, or of a pod's own volume.
    pub volume: String,
    /// The file labels of the containers that mount it, an empty one for a container whose label is not known before it
    /// runs; or why there is none.
    pub labels: Result<BTreeSet<String>, String>,
    /// Whether the pod wants the files gone through instead.
    pub change: LabelChange,
    /// Whether volumes used like this are mounted with a label; if not, what stands against it is only counted.
    pub reach: LabelReach,
    /// How metrics call the access mode, such as `RWOP`.
    pub access_mode: &'static str,
}

/// How a pod wants files to get its label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelChange {
    /// All at once by the mount, where that can be.
    Mount,
    Recursive,
}

/// Whether a volume may be mounted with a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelReach {
    Mounted,
    /// It would be if the feature reached it.
    Counted,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_the_same_in_every_spelling() {
        for (one, other, expected) in [
            ("", "", true),
            ("u:r:t:s0", "", false),
            ("u:r:t", "u:r:t", true),
            ("u:r:t", "u:r:t:s0", false),
            ("u:r:t:s0:c26,c5", "u:r:t:s0:c5,c26", true),
            ("u:r:t:s0:c26,c5", "u:r:t:s0:c5,c27", false),
            ("u:r:t:s0:c26,c5", "u:r:other:s0:c5,c26", false),
            ("other:r:t:s0:c5", "u:r:t:s0:c5", false),
            ("u:r:t:s0:c1,c2,c3", "u:r:t:s0:c1.c3", true),
            // Of no known form.
            ("odd", "odd", true),
            ("odd", "even", false),
        ] {
            assert_eq!(same_label(one, other), expected, "{one} {other}");
            assert_eq!(same_label(other, one), expected, "{other} {one}");
        }
    }
}
