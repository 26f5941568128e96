//! The profile RuntimeDefault, which depends on the container's capabilities.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::action::Action;
use super::condition::{ArgumentWidth, Comparison, Condition};
use super::profile::{FilterFlags, Profile, ProfileError, Rule};
use crate::launcher::capabilities::Capability;

const EPERM: u16 = 1;
const ENOSYS: u16 = 38;
/// CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET.
const CLONE_NAMESPACES: u64 = 0x7E02_0000;
/// PER_LINUX, PER_LINUX32, each with and without UNAME26, and the query.
const PERSONALITIES: &[u64] = &[0, 8, 0x2_0000, 0x2_0008, 0xffff_ffff];
const AF_ALG: u64 = 38;
const AF_VSOCK: u64 = 40;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AllowedCalls {
    always: Vec<String>,
    by_architecture: BTreeMap<String, Vec<String>>,
    by_capability: BTreeMap<String, Vec<String>>,
}

/// The profile for a container with these capabilities in its bounding set.
///
/// # Errors
/// Only if the data inside this program is damaged.
pub fn default_profile(bounding: &BTreeSet<Capability>) -> Result<Profile, ProfileError> {
    let allowed: AllowedCalls = serde_json::from_str(include_str!("default_profile.json"))
        .map_err(|error| ProfileError::Json(error.to_string()))?;
    let mut names = allowed.always;
    names.extend(allowed.by_architecture.get(std::env::consts::ARCH).cloned().unwrap_or_default());
    for (capability, calls) in allowed.by_capability {
        if bounding.iter().any(|held| held.name() == capability) {
            names.extend(calls);
        }
    }
    let mut rules = vec![rule(names, Action::Allow, Vec::new())];
    let one = |name: &str, action, condition| rule(vec![name.to_owned()], action, Vec::from_iter(condition));
    rules.extend(
        PERSONALITIES
            .iter()
            .map(|value| one("personality", Action::Allow, Some(int_argument(Comparison::Equal(*value))))),
    );
    for comparison in [Comparison::Less(AF_ALG), Comparison::Equal(AF_ALG + 1), Comparison::Greater(AF_VSOCK)]
    {
        rules.push(one("socket", Action::Allow, Some(int_argument(comparison))));
    }
    if !bounding.contains(&Capability::SYS_ADMIN) {
        let no_namespaces = Condition {
            index: 0,
            width: ArgumentWidth::Full,
            comparison: Comparison::MaskedEqual { mask: CLONE_NAMESPACES, value: 0 },
        };
        rules.push(one("clone", Action::Allow, Some(no_namespaces)));
        // The flags of clone3 are in memory, which a filter cannot read. After ENOSYS, C libraries use clone.
        rules.push(one("clone3", Action::Errno(ENOSYS), None));
    }
    Ok(Profile { default_action: Action::Errno(EPERM), flags: FilterFlags::SPEC_ALLOW, rules })
}

fn rule(names: Vec<String>, action: Action, conditions: Vec<Condition>) -> Rule {
    Rule { names, action, conditions }
}

/// A condition on argument 0, which the kernel reads as an `int`.
fn int_argument(comparison: Comparison) -> Condition {
    Condition { index: 0, width: ArgumentWidth::LowerHalf, comparison }
}
