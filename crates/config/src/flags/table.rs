//! Every flag the upstream kubelet v1.36 accepts, and our own, as data.

mod cadvisor;
mod logging_and_server;
mod node_and_images;
mod own;
mod pods;

use super::FlagKind;

/// One flag.
#[derive(Debug)]
pub(crate) struct FlagSpec {
    /// Name without dashes; underscores on the command line count as dashes.
    pub(crate) name: &'static str,
    /// One-letter form.
    pub(crate) short: Option<char>,
    /// What its value looks like.
    pub(crate) kind: FlagKind,
    /// What it sets.
    pub(crate) target: Target,
    /// Whether using it leaves a notice.
    pub(crate) status: Status,
    /// One sentence for `--help`.
    pub(crate) help: &'static str,
}

/// What a flag sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// A field of the configuration; flags win over files.
    Field(&'static str),
    /// A value of its own, with this default.
    Own(&'static str),
    /// Nothing: accepted for old command lines, with this default upstream.
    Nothing(&'static str),
}

/// Whether using a flag leaves a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    /// Here to stay.
    Current,
    /// The configuration file is the place for it.
    PreferFile,
    /// On its way out, for this reason.
    Deprecated(&'static str),
    /// Of no effect here, for this reason.
    Idle(&'static str),
}

/// Flags that belong together in `--help`.
pub(super) struct Group {
    pub(super) title: &'static str,
    pub(super) flags: &'static [FlagSpec],
}

/// All flags, in the order of `--help`.
pub(super) static GROUPS: &[Group] = &[
    Group { title: "Start", flags: own::START },
    Group { title: "Node and API server", flags: own::NODE },
    Group { title: "Beyond upstream", flags: own::PODWARD },
    Group { title: "Container runtime", flags: own::RUNTIME },
    Group { title: "Logging", flags: logging_and_server::LOGGING },
    Group { title: "Pods and server (better set in the file)", flags: logging_and_server::SERVER },
    Group { title: "API client and node status (better set in the file)", flags: node_and_images::NODE },
    Group { title: "Runtime and images (better set in the file)", flags: node_and_images::IMAGES },
    Group { title: "Pods and resources (better set in the file)", flags: pods::PODS },
    Group { title: "Old container clean-up", flags: own::OLD },
    Group { title: "Accepted and ignored", flags: cadvisor::IGNORED },
];

/// Every flag, group by group.
pub(super) fn all() -> impl Iterator<Item = &'static FlagSpec> {
    GROUPS.iter().flat_map(|group| group.flags)
}

/// The flag of this name.
pub(super) fn find(name: &str) -> Option<&'static FlagSpec> {
    all().find(|flag| flag.name == name)
}

/// The names of all flags, without dashes.
pub fn flag_names() -> impl Iterator<Item = &'static str> {
    all().map(|flag| flag.name)
}

/// A flag with a value of its own.
const fn own(name: &'static str, kind: FlagKind, default: &'static str, help: &'static str) -> FlagSpec {
    FlagSpec { name, short: None, kind, target: Target::Own(default), status: Status::Current, help }
}

/// A flag for a field that is better set in the file.
const fn field(name: &'static str, kind: FlagKind, field: &'static str, help: &'static str) -> FlagSpec {
    FlagSpec { name, short: None, kind, target: Target::Field(field), status: Status::PreferFile, help }
}

/// A flag for a field that may as well stay on the command line.
const fn kept(name: &'static str, kind: FlagKind, field: &'static str, help: &'static str) -> FlagSpec {
    FlagSpec { name, short: None, kind, target: Target::Field(field), status: Status::Current, help }
}
