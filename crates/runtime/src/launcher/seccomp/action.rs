//! Actions of a filter on a system call.

use thiserror::Error;

const RET_KILL_PROCESS: u32 = 0x8000_0000;
const RET_KILL_THREAD: u32 = 0;
const RET_TRAP: u32 = 0x0003_0000;
const RET_ERRNO: u32 = 0x0005_0000;
const RET_TRACE: u32 = 0x7ff0_0000;
const RET_LOG: u32 = 0x7ffc_0000;
const RET_ALLOW: u32 = 0x7fff_0000;
const EPERM: u32 = 1;
/// The kernel's MAX_ERRNO: it replaces larger values by this one.
const MAX_ERRNO: u32 = 4095;

/// Ordered by how much the action restricts; the most restrictive one is first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    KillProcess,
    KillThread,
    Trap,
    Errno(u16),
    Trace(u16),
    Log,
    Allow,
}

#[derive(Debug, Error, PartialEq, Eq)]
pub enum ActionError {
    #[error("unknown seccomp action {0:?}")]
    Unknown(String),
    #[error("seccomp action {0} is not supported")]
    Unsupported(String),
    #[error("errno {0} is not between 0 and {MAX_ERRNO}")]
    Errno(u32),
    #[error("seccomp action {0} takes no errno")]
    UnexpectedErrno(String),
}

impl Action {
    pub(super) fn parse(name: &str, errno: Option<u32>) -> Result<Self, ActionError> {
        let data = |allowed: Option<u32>| {
            let value = allowed.unwrap_or(EPERM);
            u16::try_from(value).ok().filter(|_| value <= MAX_ERRNO).ok_or(ActionError::Errno(value))
        };
        let action = match name {
            "SCMP_ACT_KILL" | "SCMP_ACT_KILL_THREAD" => Self::KillThread,
            "SCMP_ACT_KILL_PROCESS" => Self::KillProcess,
            "SCMP_ACT_TRAP" => Self::Trap,
            "SCMP_ACT_ERRNO" => return data(errno).map(Self::Errno),
            "SCMP_ACT_TRACE" => return data(errno).map(Self::Trace),
            "SCMP_ACT_ALLOW" => Self::Allow,
            "SCMP_ACT_LOG" => Self::Log,
            "SCMP_ACT_NOTIFY" => return Err(ActionError::Unsupported(name.to_owned())),
            other => return Err(ActionError::Unknown(other.to_owned())),
        };
        if errno.is_some() {
            return Err(ActionError::UnexpectedErrno(name.to_owned()));
        }
        Ok(action)
    }

    /// The return value of a filter program.
    pub(super) fn return_value(self) -> u32 {
        match self {
            Self::KillProcess => RET_KILL_PROCESS,
            Self::KillThread => RET_KILL_THREAD,
            Self::Trap => RET_TRAP,
            Self::Errno(errno) => RET_ERRNO | u32::from(errno),
            Self::Trace(data) => RET_TRACE | u32::from(data),
            Self::Log => RET_LOG,
            Self::Allow => RET_ALLOW,
        }
    }

    /// Whether system calls without a rule succeed.
    pub(super) fn lets_pass(self) -> bool {
        match self {
            Self::Allow | Self::Log | Self::Trace(_) => true,
            Self::KillProcess | Self::KillThread | Self::Trap | Self::Errno(_) => false,
        }
    }
}
