//! Names and links of container logs.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use model::PodFullName;
use ports::host::pod_folders::FileError;
use ports::served::pod_logs::LogFolder;
use rustix::fs::FileType;

use crate::errors::{OnPath, entry_name};
use crate::files::folder::{Folder, file_type};

/// Returns `<namespace>_<name>_<uid>`.
pub(super) fn folder_name(folder: &LogFolder) -> Result<String, FileError> {
    let LogFolder { uid, full_name } = folder;
    let name = format!("{}_{}_{uid}", full_name.namespace, full_name.name);
    entry_name(&name)?;
    Ok(name)
}

/// Namespaces and names contain no underscore, but UIDs of static pods may.
pub(super) fn parse_folder_name(text: &str) -> Option<LogFolder> {
    let mut parts = text.splitn(3, '_').filter(|part| !part.is_empty());
    let (namespace, name, uid) = (parts.next()?, parts.next()?, parts.next()?);
    let full_name = PodFullName { namespace: namespace.to_owned(), name: name.to_owned() };
    Some(LogFolder { uid: uid.into(), full_name })
}

/// The highest `<n>` of `<n>.log` and of rotated files, `<n>.log.<time>`.
pub(super) fn highest_number(
    pod_logs: &Path,
    folder: &LogFolder,
    container: &str,
) -> Result<Option<u32>, FileError> {
    let relative = Path::new(&folder_name(folder)?).join(entry_name(container)?);
    let Some(logs) = Folder::open(pod_logs)? else { return Ok(None) };
    let Some(logs) = logs.existing(relative)? else { return Ok(None) };
    Ok(logs.names()?.iter().filter_map(|name| log_number(name.to_str()?)).max())
}

fn log_number(name: &str) -> Option<u32> {
    let (number, rest) = name.split_once(".log")?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && (rest.is_empty() || rest.starts_with('.'))).then(|| number.parse().ok())?
}

/// Removes `<n>.log` and its rotated files, `<n>.log.<time>`.
pub(super) fn remove_log(pod_logs: &Path, log: &Path) -> Result<(), FileError> {
    let outside = || io::Error::new(io::ErrorKind::InvalidInput, "not a log of a pod");
    let relative = log.strip_prefix(pod_logs).map_err(|_| outside()).on_path("remove log", log)?;
    let (Some(parent), Some(name)) = (relative.parent(), relative.file_name()) else {
        return Err(outside()).on_path("remove log", log);
    };
    let Some(logs) = Folder::open(pod_logs)? else { return Ok(()) };
    let Some(folder) = logs.existing(parent)? else { return Ok(()) };
    let rotated: OsString = [name, OsStr::new(".")].into_iter().collect();
    for entry in folder.names()? {
        if entry == name || entry.as_bytes().starts_with(rotated.as_bytes()) {
            crate::files::tree::remove(&folder, &entry)?;
        }
    }
    Ok(())
}

/// Removes a symlink; keeps anything else.
pub(super) fn remove_link(links: &Folder, name: &OsStr) -> Result<(), FileError> {
    if links.is(name, FileType::Symlink)? { links.remove_file(name, "remove link") } else { Ok(()) }
}

/// Creates or replaces a symlink. Fails if the name is anything but a symlink.
pub(super) fn point_link(links: &Folder, name: &OsStr, target: &Path) -> Result<(), FileError> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let path = links.path().join(name);
    match links.stat(name)? {
        Some(stat) if file_type(&stat) != FileType::Symlink => {
            return Err(io::Error::from(io::ErrorKind::AlreadyExists)).on_path("replace with link", path);
        }
        Some(_) if read_link(links, name)? == target => return Ok(()),
        Some(_) | None => {}
    }
    // A link name may have the maximum length, so the temporary name cannot extend it.
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    let temporary = format!(".link-{}-{number}", std::process::id());
    crate::files::tree::remove(links, temporary.as_ref())?;
    rustix::fs::symlinkat(target, links, &temporary).on_path("make link", &path)?;
    rustix::fs::renameat(links, &temporary, links, name).on_path("make link", path)
}

/// Removes the links into `pod_logs` whose log is missing. Keeps the link of a log with rotated files, because the
/// runtime is about to create the log again.
pub(super) fn remove_dead_links(links: &Folder, pod_logs: &Path) -> Result<(), FileError> {
    for name in links.names()? {
        if !links.is(&name, FileType::Symlink)? {
            continue;
        }
        let target = read_link(links, &name)?;
        let is_own_link = target.starts_with(pod_logs)
            && !target.components().any(|part| matches!(part, Component::ParentDir));
        if is_own_link && !has_log(&target)? {
            links.remove_file(&name, "remove link")?;
        }
    }
    Ok(())
}

fn has_log(log: &Path) -> Result<bool, FileError> {
    if log.try_exists().on_path("stat", log)? {
        return Ok(true);
    }
    let (Some(parent), Some(name)) = (log.parent(), log.file_name()) else { return Ok(false) };
    let rotated: OsString = [name, OsStr::new(".")].into_iter().collect();
    let Some(folder) = Folder::open(parent)? else { return Ok(false) };
    Ok(folder.names()?.iter().any(|entry| entry.as_bytes().starts_with(rotated.as_bytes())))
}

fn read_link(links: &Folder, name: &OsStr) -> Result<PathBuf, FileError> {
    links.link_target(name).on_path("read link", links.path().join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_log_numbers_of_logs_and_rotated_logs_only() {
        for (name, number) in [
            ("0.log", Some(0)),
            ("12.log", Some(12)),
            ("3.log.20260101-000000.gz", Some(3)),
            ("x.log", None),
            (".log", None),
            ("+1.log", None),
            ("1.logs", None),
            ("99999999999.log", None),
        ] {
            assert_eq!(log_number(name), number, "{name}");
        }
    }

    #[test]
    fn folder_names_keep_underscores_in_the_uid() {
        let folder = parse_folder_name("ns_pod_a_b").unwrap();
        assert_eq!(folder.uid.as_str(), "a_b");
        assert_eq!(folder_name(&folder).unwrap(), "ns_pod_a_b");
        for bad in ["ns_pod", "ns__uid", "_pod_uid", "ns_pod_", "lost+found"] {
            assert_eq!(parse_folder_name(bad), None, "{bad}");
        }
    }
}
