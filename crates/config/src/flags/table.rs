//! The table of flags: all flags of the upstream kubelet v1.36, and Podward's own.

/// Builds a list of [`FlagSpec`]: `"name" | 'short': Kind = setting`, with the help text as its doc comment.
macro_rules! flags {
    ($($(#[doc = $help:literal])+ $name:literal $(| $short:literal)?: $kind:ident = $setting:expr,)*) => {
        &[$(
            $crate::flags::table::FlagSpec::new(
                $name,
                $crate::flags::FlagKind::$kind,
                $setting,
                concat!($($help),+).trim_ascii_start(),
            )
            $(.with_short($short))?
        ,)*]
    };
}

mod cadvisor;
mod flag_only;
mod logging_and_server;
mod node_and_images;
mod pods;

use super::FlagKind;
use crate::support;

#[derive(Debug)]
pub(crate) struct FlagSpec {
    /// Name without leading dashes. On the command line, underscores are accepted in place of dashes.
    pub(crate) name: &'static str,
    pub(crate) short: Option<char>,
    pub(crate) kind: FlagKind,
    pub(crate) target: Target,
    pub(crate) status: Status,
    /// Description for `--help` and for the reference in `docs/reference/flags.md`.
    pub(crate) help: &'static str,
}

impl FlagSpec {
    const fn new(
        name: &'static str,
        kind: FlagKind,
        (target, status): (Target, Status),
        help: &'static str,
    ) -> Self {
        Self { name, short: None, kind, target, status, help }
    }

    const fn with_short(self, letter: char) -> Self {
        Self { short: Some(letter), ..self }
    }

    /// Whether the flag changes anything in Podward.
    pub(crate) fn has_effect(&self) -> bool {
        match self.target {
            Target::Field(path) => support::has_effect(path),
            Target::FlagOnly(_) => true,
            Target::Ignored(_) => false,
        }
    }
}

/// The setting that a flag changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// A field of the configuration. The flag takes precedence over the configuration file.
    Field(&'static str),
    /// A value that no configuration file can set, with this default.
    FlagOnly(&'static str),
    /// Nothing. Accepted for compatibility; the text is upstream's default.
    Ignored(&'static str),
}

/// Which notice the agent logs when a flag is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    /// No notice.
    Current,
    /// Deprecated upstream in favour of the configuration file.
    PreferFile,
    /// Deprecated, with the text that explains what to do.
    Deprecated(&'static str),
    /// Not deprecated upstream, but without effect in Podward, with the reason.
    NoEffect(&'static str),
}

/// A section of `--help`.
pub(super) struct Group {
    pub(super) title: &'static str,
    pub(super) flags: &'static [FlagSpec],
}

/// All flags in the order of `--help`.
pub(super) static GROUPS: &[Group] = &[
    Group { title: "Startup and files", flags: flag_only::START },
    Group { title: "Node and API server", flags: flag_only::NODE },
    Group { title: "Podward extensions", flags: flag_only::PODWARD },
    Group { title: "Container runtime", flags: flag_only::RUNTIME },
    Group { title: "Logging", flags: logging_and_server::LOGGING },
    Group { title: "Pods and server (prefer the configuration file)", flags: logging_and_server::SERVER },
    Group {
        title: "API client and node status (prefer the configuration file)",
        flags: node_and_images::NODE,
    },
    Group { title: "Runtime and images (prefer the configuration file)", flags: node_and_images::IMAGES },
    Group { title: "Pods and resources (prefer the configuration file)", flags: pods::PODS },
    Group { title: "Container garbage collection (deprecated)", flags: flag_only::CONTAINER_GC },
    Group { title: "cAdvisor (accepted without effect)", flags: cadvisor::IGNORED },
];

pub(super) fn all() -> impl Iterator<Item = &'static FlagSpec> {
    GROUPS.iter().flat_map(|group| group.flags)
}

pub(super) fn find(name: &str) -> Option<&'static FlagSpec> {
    all().find(|flag| flag.name == name)
}

/// The names of all flags, without leading dashes.
pub fn flag_names() -> impl Iterator<Item = &'static str> {
    all().map(|flag| flag.name)
}

/// A flag whose value no configuration file can set.
const fn flag_only(default: &'static str) -> (Target, Status) {
    (Target::FlagOnly(default), Status::Current)
}

/// A flag for a configuration field that is deprecated in favour of the configuration file.
const fn prefer_file(field: &'static str) -> (Target, Status) {
    (Target::Field(field), Status::PreferFile)
}

/// A flag for a configuration field that is not deprecated.
const fn flag_or_file(field: &'static str) -> (Target, Status) {
    (Target::Field(field), Status::Current)
}
