//! User, groups, capabilities and filters of a process: the last steps before it executes its program.

use std::ffi::CString;
use std::os::fd::BorrowedFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, chdir, getcwd, getrlimit, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, Gid, Uid, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_keep_capabilities, set_no_new_privs,
    set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};

use super::capabilities::{mask, set_of_mask};
use super::errors::{During, LaunchError};
use super::raw;
use super::spec::{LimitKind, NewPrivileges, ProcessSpec, ResourceLimit, SecurityLabel};

/// Gives up everything that the process must not have.
pub(super) fn assume(process: &ProcessSpec) -> Result<(), LaunchError> {
    for limit in &process.resource_limits {
        set_limit(limit)?;
    }
    if process.new_privileges == NewPrivileges::Forbidden {
        set_no_new_privs(true).during("set", "no_new_privs")?;
    }
    // Without no_new_privs a filter needs CAP_SYS_ADMIN, so it is installed before the capabilities are dropped; with it, as late
    // as possible, so that the filter need not allow these steps.
    if process.new_privileges == NewPrivileges::Allowed {
        install_filter(process)?;
    }
    // A directory that only the user may enter is tried again as that user.
    let entered = chdir(&process.directory);
    drop_bounding_set(process)?;
    set_keep_capabilities(true).during("set", "keep capabilities")?;
    set_user(process)?;
    match entered {
        Err(Errno::ACCESS | Errno::PERM) => chdir(&process.directory),
        entered => entered,
    }
    .during("enter working directory", &process.directory)?;
    check_directory_is_inside(&process.directory)?;
    set_capability_sets(process)?;
    if process.new_privileges == NewPrivileges::Forbidden {
        install_filter(process)?;
    }
    Ok(())
}

fn install_filter(process: &ProcessSpec) -> Result<(), LaunchError> {
    match &process.seccomp {
        Some(filter) => {
            raw::install_filter(&filter.instructions(), filter.flags).during("install", "seccomp filter")
        }
        None => Ok(()),
    }
}

/// A hard limit that may not be raised stays as it is, as a lower limit would break programs without need.
fn set_limit(limit: &ResourceLimit) -> Result<(), LaunchError> {
    let (resource, name) = match limit.kind {
        LimitKind::OpenFiles => (Resource::Nofile, "open files"),
        LimitKind::Processes => (Resource::Nproc, "processes"),
        LimitKind::CoreSize => (Resource::Core, "core size"),
        LimitKind::LockedMemory => (Resource::Memlock, "locked memory"),
    };
    let current = getrlimit(resource).maximum;
    let hard = current.map_or(limit.hard, |current| limit.hard.min(current));
    let wanted = Rlimit { current: Some(limit.soft.min(hard)), maximum: Some(hard) };
    setrlimit(resource, wanted).during("set limit of", name)
}

/// Sets the label that `execve` switches to. `proc` is a proc file system that no container can mount over.
pub(super) fn set_security_label(proc: BorrowedFd<'_>, label: &SecurityLabel) -> Result<(), LaunchError> {
    let (path, text) = match label {
        SecurityLabel::None => return Ok(()),
        SecurityLabel::AppArmor(profile) => ("thread-self/attr/apparmor/exec", format!("exec {profile}")),
        SecurityLabel::SeLinux(label) => ("thread-self/attr/exec", label.clone()),
    };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
    let file = openat2(proc, path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty(), resolve)
        .during("open security label", path)?;
    let written = rustix::io::write(&file, text.as_bytes()).during("set security label", path)?;
    if written == text.len() { Ok(()) } else { Err(Errno::IO).during("set security label", path) }
}

fn drop_bounding_set(process: &ProcessSpec) -> Result<(), LaunchError> {
    for capability in set_of_mask(u64::MAX) {
        if process.capabilities.contains(&capability) {
            continue;
        }
        let bit = CapabilitySet::from_bits_retain(1 << capability.number());
        match remove_capability_from_bounding_set(bit) {
            // The kernel does not know this capability.
            Err(Errno::INVAL) => {}
            result => result.during("drop capability", capability.name())?,
        }
    }
    Ok(())
}

fn set_user(process: &ProcessSpec) -> Result<(), LaunchError> {
    let user = &process.user;
    let groups: Vec<Gid> = user.groups.iter().map(|group| Gid::from_raw(*group)).collect();
    set_thread_groups(&groups).during("set", "groups")?;
    let gid = Gid::from_raw(user.gid);
    set_thread_res_gid(gid, gid, gid).during("set", "group")?;
    let uid = Uid::from_raw(user.uid);
    set_thread_res_uid(uid, uid, uid).during("set", "user")
}

fn set_capability_sets(process: &ProcessSpec) -> Result<(), LaunchError> {
    let granted = CapabilitySet::from_bits_retain(mask(&process.capabilities));
    let sets = CapabilitySets { effective: granted, permitted: granted, inheritable: CapabilitySet::empty() };
    set_capabilities(None, sets).during("set", "capabilities")?;
    clear_ambient_capability_set().during("clear", "ambient capabilities")
}

/// A leaked descriptor of a host directory could be the working directory (`/proc/self/fd/N`). The kernel then reports a path
/// that does not start at the root.
fn check_directory_is_inside(path: &Path) -> Result<(), LaunchError> {
    match getcwd(Vec::new()) {
        Ok(current) if current.as_bytes().starts_with(b"/") => Ok(()),
        Ok(_) | Err(_) => Err(LaunchError::DirectoryOutside(path.display().to_string())),
    }
}

/// The strings of a process in the form of `execve`.
pub(super) struct Program {
    candidates: Vec<CString>,
    arguments: Vec<CString>,
    environment: Vec<CString>,
    name: String,
}

impl Program {
    pub(super) fn new(process: &ProcessSpec) -> Result<Self, LaunchError> {
        let strings = |list: &[String], name| -> Result<Vec<CString>, LaunchError> {
            let string = |text: &String| CString::new(text.as_str()).map_err(|_| LaunchError::ZeroByte(name));
            list.iter().map(string).collect()
        };
        let name = process.arguments.first().cloned().unwrap_or_default();
        Ok(Self {
            candidates: strings(&candidates(&name, &process.environment), "the path of the program")?,
            arguments: strings(&process.arguments, "an argument")?,
            environment: strings(&process.environment, "an environment variable")?,
            name,
        })
    }

    /// Executes the first candidate that works; returns the reason if none does.
    pub(super) fn execute(&self) -> LaunchError {
        let mut reason = Errno::NOENT;
        for candidate in &self.candidates {
            match raw::execute(candidate, &self.arguments, &self.environment) {
                Errno::NOENT | Errno::NOTDIR => {}
                Errno::ACCESS => reason = Errno::ACCESS,
                other => {
                    reason = other;
                    break;
                }
            }
        }
        let name = &self.name;
        LaunchError::Executable(match reason {
            Errno::NOENT if name.contains('/') => format!("exec {name:?}: no such file or directory"),
            Errno::NOENT => format!("exec {name:?}: executable file not found in $PATH"),
            Errno::ACCESS => format!("exec {name:?}: permission denied"),
            other => format!("exec {name:?}: {other}"),
        })
    }
}

/// Paths to try for a program, in the container's PATH unless the name has a slash.
fn candidates(name: &str, environment: &[String]) -> Vec<String> {
    if name.contains('/') || name.is_empty() {
        return vec![name.to_owned()];
    }
    let path = environment.iter().rev().find_map(|entry| entry.strip_prefix("PATH=")).unwrap_or_default();
    let in_folder =
        |folder: &str| if folder.is_empty() { format!("./{name}") } else { format!("{folder}/{name}") };
    path.split(':').map(in_folder).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_without_slash_is_looked_up_in_path() {
        let environment = ["PATH=/bin:/usr/bin".to_owned()];
        assert_eq!(candidates("sh", &environment), ["/bin/sh", "/usr/bin/sh"]);
        assert_eq!(candidates("/bin/sh", &environment), ["/bin/sh"]);
        assert_eq!(candidates("./sh", &environment), ["./sh"]);
    }
}
