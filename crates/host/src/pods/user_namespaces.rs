//! User namespaces: records of allocated ID ranges, and the node's ID pool.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::process::{Command, Stdio};

use model::{IdPool, PodUid};
use ports::host::pod_folders::FileError;
use ports::host::user_namespaces::UserNamespaceRecords;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::FileType;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::errors::{OnPath, invalid_input};
use crate::files::atomic_file::{self, Durability};
use crate::files::folder::{Folder, file_type};
use crate::pods::pod_folders::{HostPodFolders, existing_pod, make_pod};

/// Upstream's name, so that a node can be switched between agents with running pods.
const RECORD: &str = "userns";
const MAX_FILE_BYTES: u64 = 64 * 1024;
/// The user whose subordinate IDs are used for pods.
const USER: &str = "kubelet";
const PROGRAM: &str = "getsubids";
const TIMEOUT_SECONDS: i64 = 30;

impl UserNamespaceRecords for HostPodFolders {
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
        atomic_file::replace(&pod, OsStr::new(RECORD), text.as_bytes(), 0o600, Durability::Flushed)
    }

    fn remove(&self, uid: &PodUid) -> Result<(), FileError> {
        let Some(pod) = existing_pod(&self.root, uid)? else { return Ok(()) };
        pod.remove_file(OsStr::new(RECORD), "remove file")
    }
}

fn read(pod: &Folder) -> Result<Option<String>, FileError> {
    let path = pod.path().join(RECORD);
    let Some(file) = pod.open_file(OsStr::new(RECORD))? else { return Ok(None) };
    let stat = rustix::fs::fstat(&file).on_path("stat", &path)?;
    if file_type(&stat) != FileType::RegularFile {
        return Err(invalid_input("not a regular file")).on_path("read file", path);
    }
    let mut text = String::new();
    File::from(file).take(MAX_FILE_BYTES).read_to_string(&mut text).on_path("read file", path)?;
    Ok(Some(text))
}

/// The IDs for pods: the subordinate IDs of the user `kubelet` if that user and `getsubids` exist, otherwise all IDs
/// except the first range, which belongs to the node.
///
/// # Errors
/// If the user exists and its IDs cannot be read, or its user and group IDs differ.
pub fn user_id_pool(passwd: &Path, per_pod: u32) -> io::Result<IdPool> {
    let users = std::fs::read_to_string(passwd).unwrap_or_default();
    if !users.lines().any(|line| line.split(':').next() == Some(USER)) {
        return Ok(IdPool::of_length(per_pod));
    }
    let (users, groups) = match (run_getsubids(&[USER]), run_getsubids(&["-g", USER])) {
        (Err(error), _) if error.kind() == io::ErrorKind::NotFound => return Ok(IdPool::of_length(per_pod)),
        (users, groups) => (users?, groups?),
    };
    if users != groups {
        return Err(io::Error::other(format!("mismatched subuids and subgids for user {USER:?}")));
    }
    let (first, total) = parse(&users)?;
    Ok(IdPool { first, total, per_pod })
}

/// Parses one line such as `0: kubelet 65536 2147483648`.
fn parse(text: &str) -> io::Result<(u32, u32)> {
    let malformed = || io::Error::other(format!("{PROGRAM}: {text:?} is not one range of IDs"));
    let [line] = text.trim_matches('\n').lines().collect::<Vec<_>>()[..] else { return Err(malformed()) };
    let [_, _, first, total] = line.split_whitespace().collect::<Vec<_>>()[..] else {
        return Err(malformed());
    };
    match (first.parse(), total.parse()) {
        (Ok(first), Ok(total)) => Ok((first, total)),
        (Ok(_) | Err(_), _) => Err(malformed()),
    }
}

fn run_getsubids(arguments: &[&str]) -> io::Result<String> {
    let mut child =
        Command::new(PROGRAM).args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let process = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
    let timeout = Timespec { tv_sec: TIMEOUT_SECONDS, tv_nsec: 0 };
    let ready = rustix::event::poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&timeout))?;
    if ready == 0 {
        child.kill()?;
        child.wait()?;
        return Err(io::Error::new(io::ErrorKind::TimedOut, format!("{PROGRAM} timed out")));
    }
    let status = child.wait()?;
    let mut text = String::new();
    if let Some(output) = child.stdout.take() {
        output.take(MAX_FILE_BYTES).read_to_string(&mut text)?;
    }
    if status.success() { Ok(text) } else { Err(io::Error::other(format!("{PROGRAM}: {status}"))) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn saves_lists_and_removes_records() {
        let scratch = tempfile::tempdir().unwrap();
        let records = HostPodFolders::new(scratch.path(), "", "");
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
    fn does_not_follow_links_or_read_folders() {
        let scratch = tempfile::tempdir().unwrap();
        let records = HostPodFolders::new(scratch.path(), "", "");
        let outside = scratch.path().join("outside");
        std::fs::write(&outside, "secret").unwrap();
        let pod = scratch.path().join("pods/u");
        std::fs::create_dir_all(&pod).unwrap();
        symlink(&outside, pod.join("userns")).unwrap();
        assert!(records.all().is_err());
        records.write(&"u".into(), "content").unwrap();
        assert_eq!(std::fs::read_to_string(&outside).unwrap(), "secret");
        assert_eq!(records.all().unwrap(), [("u".into(), "content".to_owned())]);
        std::fs::remove_file(pod.join("userns")).unwrap();
        std::fs::create_dir(pod.join("userns")).unwrap();
        assert!(records.all().is_err());
    }

    #[test]
    fn without_the_user_all_ids_except_the_first_range_are_available() {
        let scratch = tempfile::tempdir().unwrap();
        let passwd = scratch.path().join("passwd");
        std::fs::write(&passwd, "root:x:0:0::/:/bin/sh\n").unwrap();
        assert_eq!(user_id_pool(&passwd, 65_536).unwrap(), IdPool::default());
        let twice = user_id_pool(&passwd, 131_072).unwrap();
        assert_eq!((twice.first, twice.total), (131_072, u32::MAX - 131_071));
    }

    #[test]
    fn parses_one_range_of_subordinate_ids() {
        assert_eq!(parse("0: kubelet 65536 2147483648\n").unwrap(), (65_536, 2_147_483_648));
        for malformed in ["", "0: kubelet 1 2\n1: kubelet 3 4\n", "0: kubelet 1\n", "0: kubelet x 1\n"] {
            assert!(parse(malformed).is_err(), "{malformed:?}");
        }
    }
}
