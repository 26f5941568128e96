//! Seccomp profiles in the JSON form of the OCI runtime specification (`linux.seccomp`).

use serde::Deserialize;
use thiserror::Error;

use super::action::{Action, ActionError};
use super::condition::{Condition, ConditionError};

/// Profiles are a few kilobytes; a larger file is a mistake or an attack.
pub const MAX_PROFILE_BYTES: usize = 1 << 20;

/// Why a profile was refused. The container fails; another try gives the same result.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ProfileError {
    #[error("the seccomp profile has {0} bytes, at most {MAX_PROFILE_BYTES} are allowed")]
    TooLarge(usize),
    #[error("the seccomp profile is not valid: {0}")]
    Json(String),
    #[error("seccomp rule {index}")]
    Action { index: usize, source: ActionError },
    #[error("default action of the seccomp profile")]
    DefaultAction { source: ActionError },
    #[error("seccomp rule {index}")]
    Condition { index: usize, source: ConditionError },
    #[error("unknown seccomp architecture {0:?}")]
    Architecture(String),
    #[error("unknown seccomp flag {0:?}")]
    Flag(String),
    #[error("seccomp listeners are not supported")]
    Listener,
}

/// A checked profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    pub default_action: Action,
    pub flags: FilterFlags,
    pub rules: Vec<Rule>,
}

/// Flags of the `seccomp` system call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilterFlags(u32);

impl FilterFlags {
    pub const LOG: Self = Self(1 << 1);
    pub const SPEC_ALLOW: Self = Self(1 << 2);
    const WAIT_KILLABLE_RECV: Self = Self(1 << 5);

    /// The value for the kernel.
    #[must_use]
    pub fn bits(self) -> u32 {
        self.0
    }

    fn parse(names: Option<&[String]>) -> Result<Self, ProfileError> {
        let Some(names) = names else { return Ok(Self::SPEC_ALLOW) };
        let mut bits = 0;
        for name in names {
            bits |= match name.as_str() {
                "SECCOMP_FILTER_FLAG_LOG" => Self::LOG.0,
                "SECCOMP_FILTER_FLAG_SPEC_ALLOW" => Self::SPEC_ALLOW.0,
                "SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV" => Self::WAIT_KILLABLE_RECV.0,
                // Only the launcher's single thread exists when the filter is installed.
                "SECCOMP_FILTER_FLAG_TSYNC" => 0,
                other => return Err(ProfileError::Flag(other.to_owned())),
            };
        }
        Ok(Self(bits))
    }
}

/// A rule: the action on some system calls if all conditions are true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    pub names: Vec<String>,
    pub action: Action,
    pub conditions: Vec<Condition>,
}

impl Profile {
    /// Reads and checks a profile.
    ///
    /// # Errors
    /// See [`ProfileError`].
    pub fn from_json(text: &[u8]) -> Result<Self, ProfileError> {
        if text.len() > MAX_PROFILE_BYTES {
            return Err(ProfileError::TooLarge(text.len()));
        }
        let file: ProfileFile =
            serde_json::from_slice(text).map_err(|error| ProfileError::Json(error.to_string()))?;
        if file.listener_path.is_some_and(|path| !path.is_empty()) {
            return Err(ProfileError::Listener);
        }
        if let Some(unknown) = file.architectures.iter().find(|name| !is_architecture(name)) {
            return Err(ProfileError::Architecture(unknown.clone()));
        }
        let default_action = Action::parse(&file.default_action, file.default_errno_ret)
            .map_err(|source| ProfileError::DefaultAction { source })?;
        let flags = FilterFlags::parse(file.flags.as_deref())?;
        let mut rules = Vec::new();
        for (index, rule) in file.syscalls.into_iter().enumerate() {
            let action = Action::parse(&rule.action, rule.errno_ret)
                .map_err(|source| ProfileError::Action { index, source })?;
            let conditions = rule.args.into_iter().map(ArgumentEntry::check);
            let conditions = conditions
                .collect::<Result<Vec<_>, _>>()
                .map_err(|source| ProfileError::Condition { index, source })?;
            rules.extend(split_repeated_indexes(rule.names, action, conditions));
        }
        Ok(Self { default_action, flags, rules })
    }
}

/// If two conditions of an entry test the same argument, each condition is a rule (one of them suffices), as in libseccomp's
/// callers; otherwise all must hold.
fn split_repeated_indexes(names: Vec<String>, action: Action, conditions: Vec<Condition>) -> Vec<Rule> {
    let repeated = conditions
        .iter()
        .enumerate()
        .any(|(at, condition)| conditions.iter().skip(at + 1).any(|other| other.index == condition.index));
    if !repeated {
        return vec![Rule { names, action, conditions }];
    }
    let rule = |condition| Rule { names: names.clone(), action, conditions: vec![condition] };
    conditions.into_iter().map(rule).collect()
}

fn is_architecture(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "X86",
        "X86_64",
        "X32",
        "ARM",
        "AARCH64",
        "MIPS",
        "MIPS64",
        "MIPS64N32",
        "MIPSEL",
        "MIPSEL64",
        "MIPSEL64N32",
        "PPC",
        "PPC64",
        "PPC64LE",
        "S390",
        "S390X",
        "PARISC",
        "PARISC64",
        "RISCV64",
        "LOONGARCH64",
        "M68K",
        "SH",
        "SHEB",
    ];
    name.strip_prefix("SCMP_ARCH_").is_some_and(|name| NAMES.contains(&name))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ProfileFile {
    default_action: String,
    default_errno_ret: Option<u32>,
    #[serde(default)]
    architectures: Vec<String>,
    flags: Option<Vec<String>>,
    listener_path: Option<String>,
    #[serde(default)]
    syscalls: Vec<RuleEntry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RuleEntry {
    names: Vec<String>,
    action: String,
    errno_ret: Option<u32>,
    #[serde(default)]
    args: Vec<ArgumentEntry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ArgumentEntry {
    index: u32,
    value: u64,
    #[serde(default)]
    value_two: u64,
    op: String,
}

impl ArgumentEntry {
    fn check(self) -> Result<Condition, ConditionError> {
        Condition::parse(self.index, &self.op, self.value, self.value_two)
    }
}

#[cfg(test)]
mod tests;
