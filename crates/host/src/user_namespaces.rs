//! Ranges of user ids: what pods were given, and what the node may give.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use model::{IdPool, PodUid};
use ports::pod_folders::FileError;
use ports::user_namespaces::UserNamespaceRecords;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::atomic_file::{self, Durability};
use crate::failure::{OnPath, refused};
use crate::folder::{Folder, kind};
use crate::pod_folders::{existing_pod, make_pod};

/// Upstream's name, so that a node can be switched over with its pods running.
const RECORD: &str = "userns";
const MOST_BYTES: u64 = 64 * 1024;
/// The user whose subordinate ids are the pods'.
const USER: &str = "kubelet";
const PROGRAM: &str = "getsubids";
const DEADLINE_SECONDS: i64 = 30;

/// [`UserNamespaceRecords`] as files `pods/<uid>/userns` below a root folder.
#[derive(Clone, Debug)]
pub struct FileUserNamespaceRecords {
    root: PathBuf,
}

impl FileUserNamespaceRecords {
    /// `root` is such as `/var/lib/kubelet`.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }
}

impl UserNamespaceRecords for FileUserNamespaceRecords {
    fn all(&self) -> Result<Vec<(PodUid, String)>, FileError> {
        let Some(pods) = Folder::open(&self.root.join("pods"))? else { return Ok(Vec::new()) };
        let mut records = Vec::new();
        for name in pods.folder_names()? {
            let (Some(uid), Some(pod)) = (name.to_str(), pods.existing(&name)?) else { continue };
            if let Some(text) = read(&pod)? {
                records.push((PodUid::from(uid), text));
            }
        }
        Ok(records)
    }

    fn write(&self, uid: &PodUid, text: &str) -> Result<(), FileError> {
        let pod = make_pod(&self.root, uid)?;
        let (name, temporary) = (OsStr::new(RECORD), OsStr::new(".userns.new"));
        atomic_file::replace(&pod, name, temporary, text.as_bytes(), 0o600, Durability::Flushed)
    }

    fn remove(&self, uid: &PodUid) -> Result<(), FileError> {
        let Some(pod) = existing_pod(&self.root, uid)? else { return Ok(()) };
        match rustix::fs::unlinkat(&pod, RECORD, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error).on_path("remove file", pod.path().join(RECORD)),
        }
    }
}

fn read(pod: &Folder) -> Result<Option<String>, FileError> {
    let path = pod.path().join(RECORD);
    let Some(file) = pod.open_file(OsStr::new(RECORD))? else { return Ok(None) };
    let stat = rustix::fs::fstat(&file).on_path("look at", &path)?;
    if kind(&stat) != FileType::RegularFile {
        return Err(refused("is not a regular file")).on_path("read file", path);
    }
    let mut text = String::new();
    File::from(file).take(MOST_BYTES).read_to_string(&mut text).on_path("read file", path)?;
    Ok(Some(text))
}

/// The ids that pods may have: the subordinate ids of the user `kubelet` where there is such a user and the tool
/// that tells them, else all but the node's own.
///
/// # Errors
/// When the user exists and its ids cannot be told, or users and groups differ.
pub fn user_id_pool(passwd: &Path, per_pod: u32) -> io::Result<IdPool> {
    let users = std::fs::read_to_string(passwd).unwrap_or_default();
    if !users.lines().any(|line| line.split(':').next() == Some(USER)) {
        return Ok(IdPool::of_length(per_pod));
    }
    let (users, groups) = match (ask(&[USER]), ask(&["-g", USER])) {
        (Err(error), _) if error.kind() == io::ErrorKind::NotFound => return Ok(IdPool::of_length(per_pod)),
        (users, groups) => (users?, groups?),
    };
    if users != groups {
        return Err(io::Error::other(format!("mismatched subuids and subgids for user {USER:?}")));
    }
    let (first, total) = parse(&users)?;
    Ok(IdPool { first, total, per_pod })
}

/// `0: kubelet 65536 2147483648`, one line.
fn parse(text: &str) -> io::Result<(u32, u32)> {
    let bad = || io::Error::other(format!("{PROGRAM}: {text:?} is not one range of ids"));
    let [line] = text.trim_matches('\n').lines().collect::<Vec<_>>()[..] else { return Err(bad()) };
    let [_, _, first, total] = line.split_whitespace().collect::<Vec<_>>()[..] else { return Err(bad()) };
    match (first.parse(), total.parse()) {
        (Ok(first), Ok(total)) => Ok((first, total)),
        (Ok(_) | Err(_), _) => Err(bad()),
    }
}

fn ask(arguments: &[&str]) -> io::Result<String> {
    let mut child =
        Command::new(PROGRAM).args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let process = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
    let patience = Timespec { tv_sec: DEADLINE_SECONDS, tv_nsec: 0 };
    let ended = rustix::event::poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&patience))?;
    if ended == 0 {
        child.kill()?;
        child.wait()?;
        return Err(io::Error::new(io::ErrorKind::TimedOut, format!("{PROGRAM} does not answer")));
    }
    let status = child.wait()?;
    let mut text = String::new();
    if let Some(output) = child.stdout.take() {
        output.take(MOST_BYTES).read_to_string(&mut text)?;
    }
    if status.success() { Ok(text) } else { Err(io::Error::other(format!("{PROGRAM}: {status}"))) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn records_are_kept_listed_and_forgotten() {
        let scratch = tempfile::tempdir().unwrap();
        let records = FileUserNamespaceRecords::new(scratch.path());
        assert_eq!(records.all().unwrap(), []);
        records.write(&"u".into(), "text").unwrap();
        records.write(&"u".into(), "newer").unwrap();
        std::fs::create_dir_all(scratch.path().join("pods/without")).unwrap();
        assert_eq!(records.all().unwrap(), [("u".into(), "newer".to_owned())]);
        assert_eq!(std::fs::read_to_string(scratch.path().join("pods/u/userns")).unwrap(), "newer");
        records.remove(&"u".into()).unwrap();
        records.remove(&"u".into()).unwrap();
        records.remove(&"never".into()).unwrap();
        assert_eq!(records.all().unwrap(), []);
    }

    #[test]
    fn what_is_no_file_is_never_read_or_followed() {
        let scratch = tempfile::tempdir().unwrap();
        let records = FileUserNamespaceRecords::new(scratch.path());
        let outside = scratch.path().join("outside");
        std::fs::write(&outside, "secret").unwrap();
        let pod = scratch.path().join("pods/u");
        std::fs::create_dir_all(&pod).unwrap();
        symlink(&outside, pod.join("userns")).unwrap();
        assert!(records.all().is_err());
        records.write(&"u".into(), "mine").unwrap();
        assert_eq!(std::fs::read_to_string(&outside).unwrap(), "secret");
        assert_eq!(records.all().unwrap(), [("u".into(), "mine".to_owned())]);
        std::fs::remove_file(pod.join("userns")).unwrap();
        std::fs::create_dir(pod.join("userns")).unwrap();
        assert!(records.all().is_err());
    }

    #[test]
    fn without_the_user_all_ids_but_the_nodes_own_are_free() {
        let scratch = tempfile::tempdir().unwrap();
        let passwd = scratch.path().join("passwd");
        std::fs::write(&passwd, "root:x:0:0::/:/bin/sh\n").unwrap();
        assert_eq!(user_id_pool(&passwd, 65_536).unwrap(), IdPool::default());
        let twice = user_id_pool(&passwd, 131_072).unwrap();
        assert_eq!((twice.first, twice.total), (131_072, u32::MAX - 131_071));
    }

    #[test]
    fn subordinate_ids_are_one_line_of_four_words() {
        assert_eq!(parse("0: kubelet 65536 2147483648\n").unwrap(), (65_536, 2_147_483_648));
        for bad in ["", "0: kubelet 1 2\n1: kubelet 3 4\n", "0: kubelet 1\n", "0: kubelet x 1\n"] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }
}
