//! Linux capabilities by name.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// Names by number (linux/capability.h).
const NAMES: &[&str] = &[
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_DAC_READ_SEARCH",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_SETGID",
    "CAP_SETUID",
    "CAP_SETPCAP",
    "CAP_LINUX_IMMUTABLE",
    "CAP_NET_BIND_SERVICE",
    "CAP_NET_BROADCAST",
    "CAP_NET_ADMIN",
    "CAP_NET_RAW",
    "CAP_IPC_LOCK",
    "CAP_IPC_OWNER",
    "CAP_SYS_MODULE",
    "CAP_SYS_RAWIO",
    "CAP_SYS_CHROOT",
    "CAP_SYS_PTRACE",
    "CAP_SYS_PACCT",
    "CAP_SYS_ADMIN",
    "CAP_SYS_BOOT",
    "CAP_SYS_NICE",
    "CAP_SYS_RESOURCE",
    "CAP_SYS_TIME",
    "CAP_SYS_TTY_CONFIG",
    "CAP_MKNOD",
    "CAP_LEASE",
    "CAP_AUDIT_WRITE",
    "CAP_AUDIT_CONTROL",
    "CAP_SETFCAP",
    "CAP_MAC_OVERRIDE",
    "CAP_MAC_ADMIN",
    "CAP_SYSLOG",
    "CAP_WAKE_ALARM",
    "CAP_BLOCK_SUSPEND",
    "CAP_AUDIT_READ",
    "CAP_PERFMON",
    "CAP_BPF",
    "CAP_CHECKPOINT_RESTORE",
];

/// The set of a container that asks for no change.
const DEFAULT: &[&str] = &[
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FSETID",
    "CAP_FOWNER",
    "CAP_MKNOD",
    "CAP_NET_RAW",
    "CAP_SETGID",
    "CAP_SETUID",
    "CAP_SETFCAP",
    "CAP_SETPCAP",
    "CAP_NET_BIND_SERVICE",
    "CAP_SYS_CHROOT",
    "CAP_KILL",
    "CAP_AUDIT_WRITE",
];

/// One capability, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Capability(u8);

impl Capability {
    pub const SYS_ADMIN: Self = Self(21);

    /// From a name with or without `CAP_`, in any case.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let name = name.to_ascii_uppercase();
        let name = name.strip_prefix("CAP_").unwrap_or(&name);
        let position = NAMES.iter().position(|known| known.strip_prefix("CAP_") == Some(name))?;
        u8::try_from(position).ok().map(Self)
    }

    #[must_use]
    pub fn name(self) -> &'static str {
        NAMES.get(usize::from(self.0)).copied().unwrap_or("CAP_UNKNOWN")
    }

    #[must_use]
    pub fn number(self) -> u8 {
        self.0
    }

    fn all() -> impl Iterator<Item = Self> {
        (0..).zip(NAMES).map(|(number, _)| Self(number))
    }
}

/// The mask of a set, as in `/proc/self/status`.
#[must_use]
pub fn mask(set: &BTreeSet<Capability>) -> u64 {
    set.iter().fold(0, |mask, capability| mask | 1 << capability.0)
}

/// The set of a mask; bits without a name are left out.
#[must_use]
pub fn set_of_mask(mask: u64) -> BTreeSet<Capability> {
    Capability::all().filter(|capability| mask >> capability.0 & 1 == 1).collect()
}

/// The capabilities of a container that asks for changes of the default set. `held` is what this process has itself.
///
/// `ALL` is taken first: adding it starts with everything that is held, dropping it starts with nothing. Then single ones are
/// added, then dropped. Unknown names grant nothing.
#[must_use]
pub fn requested_set(add: &[String], drop: &[String], held: &BTreeSet<Capability>) -> BTreeSet<Capability> {
    let names_all = |list: &[String]| list.iter().any(|name| name.eq_ignore_ascii_case("ALL"));
    let mut set: BTreeSet<Capability> = if names_all(drop) {
        BTreeSet::new()
    } else if names_all(add) {
        held.clone()
    } else {
        DEFAULT.iter().filter_map(|name| Capability::parse(name)).collect()
    };
    set.extend(add.iter().filter_map(|name| Capability::parse(name)));
    for name in drop {
        if let Some(capability) = Capability::parse(name) {
            set.remove(&capability);
        }
    }
    set.intersection(held).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL_HELD: u64 = 0x1ff_ffff_ffff;

    #[track_caller]
    fn check(add: &[&str], drop: &[&str], expected: u64) {
        let owned = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let set = requested_set(&owned(add), &owned(drop), &set_of_mask(ALL_HELD));
        assert_eq!(mask(&set), expected, "{:x}", mask(&set));
    }

    #[test]
    fn default_set_equals_that_of_other_runtimes() {
        check(&[], &[], 0xa804_25fb);
    }

    #[test]
    fn add_all_grants_everything_held_except_what_is_dropped() {
        check(&["ALL"], &[], ALL_HELD);
        check(&["all"], &["SYS_ADMIN"], ALL_HELD & !(1 << 21));
    }

    #[test]
    fn drop_all_leaves_only_single_additions() {
        check(&[], &["ALL"], 0);
        check(&["ALL", "net_raw"], &["ALL"], 1 << 13);
    }

    #[test]
    fn names_with_and_without_prefix_mean_the_same() {
        check(&["CAP_SYS_TIME"], &["all"], 1 << 25);
        check(&["sys_time"], &["cap_all", "all"], 1 << 25);
    }

    #[test]
    fn capability_that_is_not_held_is_not_granted() {
        let held = set_of_mask(0xa804_25fb);
        let set = requested_set(&["SYS_RESOURCE".to_owned()], &[], &held);
        assert_eq!(mask(&set), 0xa804_25fb);
    }

    #[test]
    fn unknown_name_grants_nothing() {
        check(&["NO_SUCH"], &[], 0xa804_25fb);
    }
}
