//! The node's logs: files below one folder, and the systemd journal.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use async_trait::async_trait;
use futures::{StreamExt, stream};
use model::Timestamp;
use ports::host::node_logs::{NodeLog, NodeLogs, Output};
use ports::host::pod_folders::FileError;
use rustix::fs::{Dir, FileType, OFlags};
use rustix::io::Errno;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};

use crate::errors::{OnPath, blocking};
use crate::files::folder::{Folder, file_type, resolve_beneath};
use crate::logs::log_files::HostLogFile;

const CHUNK_BYTES: usize = 32 * 1024;
/// Links in the log folder may have absolute targets, like those of container logs.
const MAX_LINKS: usize = 4;

/// [`NodeLogs`] below a folder.
#[derive(Clone, Debug)]
pub struct HostNodeLogs {
    folder: PathBuf,
    journal: PathBuf,
}

impl HostNodeLogs {
    /// `folder` is usually `/var/log`, `journal` is the path of `journalctl`.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>, journal: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), journal: journal.into() }
    }
}

#[async_trait]
impl NodeLogs for HostNodeLogs {
    async fn open(&self, path: &str) -> Result<NodeLog, FileError> {
        let (folder, path) = (self.folder.clone(), PathBuf::from(path.trim_start_matches('/')));
        blocking(&self.folder, move || open(&folder, path)).await
    }

    fn journal(&self, arguments: Vec<String>) -> Output {
        let started = spawn(&self.journal, &arguments);
        stream::once(async move { started }).flat_map(output_chunks).boxed()
    }
}

fn open(root: &Path, mut path: PathBuf) -> Result<NodeLog, FileError> {
    let Some(top) = Folder::open(root)? else { return Ok(NodeLog::Missing) };
    for _ in 0..MAX_LINKS {
        if !path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
            return Ok(NodeLog::Missing);
        }
        let full_path = root.join(&path);
        let relative = if path.as_os_str().is_empty() { Path::new(".") } else { path.as_path() };
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        match resolve_beneath(&top, relative, flags) {
            Ok(found) => {
                let stat = rustix::fs::fstat(&found).on_path("stat", &full_path)?;
                return Ok(match file_type(&stat) {
                    FileType::Directory => {
                        NodeLog::Folder(names(Dir::new(found).on_path("list", &full_path)?, &full_path)?)
                    }
                    FileType::RegularFile => {
                        let changed_at = Timestamp::from_secs(stat.st_mtime);
                        NodeLog::File(Arc::new(HostLogFile::from_descriptor(found, full_path)?), changed_at)
                    }
                    _ => NodeLog::Missing,
                });
            }
            // A link with an absolute target below the folder.
            Err(Errno::XDEV) => match link_within(&top, root, &path) {
                Some(target) => path = target,
                None => return Ok(NodeLog::Missing),
            },
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NXIO) => return Ok(NodeLog::Missing),
            Err(error) => return Err(error).on_path("open", full_path),
        }
    }
    Ok(NodeLog::Missing)
}

fn link_within(top: &Folder, root: &Path, path: &Path) -> Option<PathBuf> {
    let (parent, name) = (path.parent()?, path.file_name()?);
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let parent = resolve_beneath(top, parent, flags).ok()?;
    let target = rustix::fs::readlinkat(&parent, name, Vec::new()).ok()?;
    let target = Path::new(OsStr::from_bytes(target.to_bytes())).to_path_buf();
    target.strip_prefix(root).ok().map(Path::to_path_buf)
}

fn names(mut folder: Dir, path: &Path) -> Result<Vec<String>, FileError> {
    let mut names = Vec::new();
    while let Some(entry) = folder.read() {
        let entry = entry.on_path("list", path)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name == "." || name == ".." {
            continue;
        }
        let suffix = if entry.file_type() == FileType::Directory { "/" } else { "" };
        names.push(name + suffix);
    }
    names.sort();
    Ok(names)
}

struct RunningProgram {
    child: Child,
    output: tokio::net::unix::pipe::Receiver,
}

fn spawn(program: &Path, arguments: &[String]) -> io::Result<RunningProgram> {
    // One pipe for stdout and stderr, to keep their order.
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let errors = rustix::io::dup(&writer)?;
    let child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::from(writer))
        .stderr(Stdio::from(errors))
        .kill_on_drop(true)
        .spawn()?;
    Ok(RunningProgram { child, output: tokio::net::unix::pipe::Receiver::from_owned_fd(reader)? })
}

fn output_chunks(started: io::Result<RunningProgram>) -> Output {
    let running = match started {
        Ok(running) => running,
        Err(error) => return stream::iter([Err(error)]).boxed(),
    };
    stream::unfold(Some(running), async |running| {
        let mut running = running?;
        let mut chunk = vec![0; CHUNK_BYTES];
        match running.output.read(&mut chunk).await {
            Ok(0) => {
                // The exit status is ignored; errors are part of the output.
                let _ = running.child.wait().await;
                None
            }
            Ok(count) => {
                chunk.truncate(count);
                Some((Ok(chunk), Some(running)))
            }
            Err(error) => Some((Err(error), None)),
        }
    })
    .boxed()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    async fn show(logs: &HostNodeLogs, path: &str) -> String {
        match logs.open(path).await.unwrap() {
            NodeLog::File(file, _) => String::from_utf8(file.read_at(0, 100).await.unwrap()).unwrap(),
            NodeLog::Folder(names) => names.join(" "),
            NodeLog::Missing => "missing".to_owned(),
        }
    }

    #[tokio::test]
    async fn serves_only_files_and_folders_below_the_log_folder() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().join("log");
        fs::create_dir_all(root.join("pods/a")).unwrap();
        fs::write(root.join("sys.log"), "text").unwrap();
        fs::write(root.join("pods/a/0.log"), "inner").unwrap();
        fs::write(scratch.path().join("secret"), "no").unwrap();
        symlink("../secret", root.join("out")).unwrap();
        symlink("/etc/passwd", root.join("passwd")).unwrap();
        symlink("pods/a/0.log", root.join("near")).unwrap();
        symlink(root.join("pods/a/0.log"), root.join("whole")).unwrap();
        symlink(scratch.path(), root.join("up")).unwrap();
        let logs = HostNodeLogs::new(&root, "/bin/echo");
        for (path, expected) in [
            ("", "near out passwd pods/ sys.log up whole"),
            ("pods/", "a/"),
            ("sys.log", "text"),
            ("/sys.log", "text"),
            ("near", "inner"),
            ("whole", "inner"),
            ("out", "missing"),
            ("passwd", "missing"),
            ("up/secret", "missing"),
            ("../secret", "missing"),
            ("pods/../../secret", "missing"),
            ("nothing", "missing"),
            ("sys.log/more", "missing"),
        ] {
            assert_eq!(show(&logs, path).await, expected, "{path:?}");
        }
    }

    #[tokio::test]
    async fn passes_arguments_literally_and_returns_output() {
        let logs = HostNodeLogs::new("/", "/bin/echo");
        let all: Vec<_> = logs.journal(vec!["$(id)".into(), "; x".into()]).collect().await;
        let text: Vec<u8> = all.into_iter().flat_map(Result::unwrap).collect();
        assert_eq!(text, b"$(id) ; x\n");
        let none = HostNodeLogs::new("/", "/no/such/program");
        assert!(none.journal(Vec::new()).next().await.unwrap().is_err());
    }
}
