//! Removes a folder with its content, by descriptor.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ports::host::pod_folders::FileError;
use rustix::fs::{AtFlags, Dir, RenameFlags};
use rustix::io::Errno;

use crate::errors::OnPath;
use crate::files::folder::{Folder, open_same_mount};

/// Folders nested deeper than this are moved to the top first: a container may nest deeper than the agent has
/// stack and descriptors for.
const MAX_DEPTH: usize = 48;

/// Removes the entry `name` of `parent`, with everything below it if it is a folder. Symlinks are removed, not
/// followed; another mount or device below is kept and reported. Continues after a failure and returns the first
/// one. A missing entry is not an error.
pub(crate) fn remove(parent: &Folder, name: &OsStr) -> Result<(), FileError> {
    let path = parent.path().join(name);
    match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ISDIR) => {}
        Err(error) => return Err(error).on_path("remove", path),
    }
    let device = rustix::fs::fstat(parent).on_path("stat", parent.path())?.st_dev;
    let top = open_same_mount(parent, name).on_path("open folder to remove", &path)?;
    let mut removal = Removal { top: top.as_fd(), device, moved: 0 };
    removal.empty(top.as_fd(), &path, 0)?;
    parent.remove_empty(name)
}

struct Removal<'a> {
    top: BorrowedFd<'a>,
    device: u64,
    moved: u64,
}

impl Removal<'_> {
    /// Empties a folder. Repeats until a pass removes nothing, because a listing may skip entries while others are
    /// deleted, and moved folders appear at the top.
    fn empty(&mut self, folder: BorrowedFd<'_>, path: &Path, depth: usize) -> Result<(), FileError> {
        if rustix::fs::fstat(folder).on_path("stat", path)?.st_dev != self.device {
            return Err(Errno::XDEV).on_path("remove folder on another device", path);
        }
        loop {
            let mut progress = false;
            let mut failure = None;
            for entry in Dir::read_from(folder).on_path("list folder", path)? {
                let entry = entry.on_path("list folder", path)?;
                let name = OsStr::from_bytes(entry.file_name().to_bytes());
                if name == "." || name == ".." {
                    continue;
                }
                match self.remove_entry(folder, name, &path.join(name), depth) {
                    Ok(()) => progress = true,
                    Err(error) => failure = failure.or(Some(error)),
                }
            }
            if !progress {
                return failure.map_or(Ok(()), Err);
            }
        }
    }

    fn remove_entry(
        &mut self,
        folder: BorrowedFd<'_>,
        name: &OsStr,
        path: &Path,
        depth: usize,
    ) -> Result<(), FileError> {
        match rustix::fs::unlinkat(folder, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(Errno::ISDIR) => {}
            Err(error) => return Err(error).on_path("remove", path),
        }
        if depth >= MAX_DEPTH {
            return self.move_up(folder, name, path);
        }
        let inner = open_same_mount(folder, name).on_path("open folder to remove", path)?;
        self.empty(inner.as_fd(), path, depth + 1)?;
        rustix::fs::unlinkat(folder, name, AtFlags::REMOVEDIR).on_path("remove folder", path)
    }

    fn move_up(&mut self, folder: BorrowedFd<'_>, name: &OsStr, path: &Path) -> Result<(), FileError> {
        loop {
            self.moved += 1;
            let to = format!(".removing-{}", self.moved);
            match rustix::fs::renameat_with(folder, name, self.top, to, RenameFlags::NOREPLACE) {
                Err(Errno::EXIST) => {}
                result => return result.on_path("move up folder to remove", path),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::Mode;

    use super::*;
    use crate::test_folder::{Scratch, require_root};

    fn check_removed(scratch: &Scratch, name: &str) {
        let parent = Folder::open(scratch.path()).unwrap().unwrap();
        remove(&parent, OsStr::new(name)).unwrap();
        assert!(!scratch.path().join(name).exists());
    }

    #[test]
    fn removes_content_and_links_but_not_link_targets() {
        let scratch = Scratch::new();
        let keep = scratch.path().join("keep");
        std::fs::create_dir_all(&keep).unwrap();
        std::fs::write(keep.join("file"), "x").unwrap();
        let victim = scratch.path().join("victim/a/b");
        std::fs::create_dir_all(&victim).unwrap();
        symlink(&keep, victim.join("folder-link")).unwrap();
        symlink(keep.join("file"), victim.join("file-link")).unwrap();
        symlink("missing", victim.join("dead-link")).unwrap();
        std::fs::write(victim.join("file"), "y").unwrap();
        check_removed(&scratch, "victim");
        check_removed(&scratch, "victim");
        assert_eq!(std::fs::read_to_string(keep.join("file")).unwrap(), "x");
    }

    #[test]
    fn removes_trees_deeper_than_path_and_descriptor_limits() {
        let scratch = Scratch::new();
        std::fs::create_dir(scratch.path().join("deep")).unwrap();
        std::fs::create_dir(scratch.path().join("deep/.removing-1")).unwrap();
        let mut folder =
            open_same_mount(Folder::open(scratch.path()).unwrap().unwrap(), OsStr::new("deep")).unwrap();
        for _ in 0..3000 {
            rustix::fs::mkdirat(&folder, "down", Mode::from_raw_mode(0o755)).unwrap();
            folder = open_same_mount(&folder, OsStr::new("down")).unwrap();
        }
        check_removed(&scratch, "deep");
    }

    #[test]
    #[ignore = "needs root"]
    fn keeps_and_reports_mounts_below() {
        require_root();
        let scratch = Scratch::new();
        let precious = scratch.path().join("precious");
        std::fs::create_dir(&precious).unwrap();
        std::fs::write(precious.join("data"), "x").unwrap();
        let bound = scratch.path().join("victim/sub/bound");
        std::fs::create_dir_all(&bound).unwrap();
        std::fs::write(scratch.path().join("victim/z"), "x").unwrap();
        // A bind mount of the same file system, which has the same device number.
        rustix::mount::mount_bind(&precious, &bound).unwrap();

        let parent = Folder::open(scratch.path()).unwrap().unwrap();
        let error = remove(&parent, OsStr::new("victim")).unwrap_err();

        assert_eq!(error.path, bound);
        assert_eq!(std::fs::read_to_string(precious.join("data")).unwrap(), "x");
        assert!(!scratch.path().join("victim/z").exists());
    }
}
