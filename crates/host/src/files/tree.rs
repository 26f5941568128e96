//! Removes a folder with its content, by descriptor.
//!
//! A container may make subvolumes where its volume is on btrfs. They are on the same mount but have other device numbers,
//! folders cannot be moved out of them, and they may be read-only. They are moved to the top and removed from there.

mod subvolume;

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
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
/// followed; another mount below is kept and reported. Continues after a failure and returns the first
/// one. A missing entry is not an error.
pub(crate) fn remove(parent: &Folder, name: &OsStr) -> Result<(), FileError> {
    let path = parent.path().join(name);
    match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ISDIR) => {}
        Err(error) => return Err(error).on_path("remove", path),
    }
    let outside = device_of(parent.as_fd(), parent.path())?;
    let top = open_same_mount(parent, name).on_path("open folder to remove", &path)?;
    let device = device_of(top.as_fd(), &path)?;
    if device != outside {
        subvolume::make_writable(&top);
    }
    let mut removal = Removal { top: top.as_fd(), device, parent: None, moved: 0 };
    removal.empty(top.as_fd(), &path, 0)?;
    parent.remove_empty(name)
}

/// The removal of the part of a tree that has one device number.
struct Removal<'a> {
    top: BorrowedFd<'a>,
    device: u64,
    /// The top of the whole tree, if this part is a subvolume in it.
    parent: Option<BorrowedFd<'a>>,
    moved: u64,
}

fn device_of(folder: BorrowedFd<'_>, path: &Path) -> Result<u64, FileError> {
    Ok(rustix::fs::fstat(folder).on_path("stat", path)?.st_dev)
}

impl Removal<'_> {
    /// Empties a folder. Repeats until a pass removes nothing, because a listing may skip entries while others are
    /// deleted, and moved folders appear at the top.
    fn empty(&mut self, folder: BorrowedFd<'_>, path: &Path, depth: usize) -> Result<(), FileError> {
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
        let inner = open_same_mount(folder, name).on_path("open folder to remove", path)?;
        let device = device_of(inner.as_fd(), path)?;
        if device != self.device {
            return self.remove_subvolume((folder, name), (inner, device), path, depth);
        }
        if depth >= MAX_DEPTH {
            return self.move_to(self.top, (folder, name), path);
        }
        self.empty(inner.as_fd(), path, depth + 1)?;
        rustix::fs::unlinkat(folder, name, AtFlags::REMOVEDIR).on_path("remove folder", path)
    }

    /// Removes a subvolume if it is directly in the top of the whole tree, else moves it there. So the depth of the removal
    /// does not depend on how subvolumes are nested.
    fn remove_subvolume(
        &mut self,
        (folder, name): (BorrowedFd<'_>, &OsStr),
        (inner, device): (OwnedFd, u64),
        path: &Path,
        depth: usize,
    ) -> Result<(), FileError> {
        // A read-only subvolume can neither be removed nor moved.
        subvolume::make_writable(&inner);
        // Also removes the folders that a snapshot has in place of nested subvolumes, which cannot be moved.
        if rustix::fs::unlinkat(folder, name, AtFlags::REMOVEDIR).is_ok() {
            return Ok(());
        }
        if let Some(parent) = self.parent {
            return self.move_to(parent, (folder, name), path);
        }
        if depth > 0 {
            return self.move_to(self.top, (folder, name), path);
        }
        let top = inner.as_fd();
        let mut removal = Removal { top, device, parent: Some(self.top), moved: self.moved };
        let emptied = removal.empty(top, path, 0);
        self.moved = removal.moved;
        emptied?;
        rustix::fs::unlinkat(folder, name, AtFlags::REMOVEDIR).on_path("remove subvolume", path)
    }

    fn move_to(
        &mut self,
        target: BorrowedFd<'_>,
        (folder, name): (BorrowedFd<'_>, &OsStr),
        path: &Path,
    ) -> Result<(), FileError> {
        loop {
            self.moved += 1;
            let to = format!(".removing-{}", self.moved);
            match rustix::fs::renameat_with(folder, name, target, to, RenameFlags::NOREPLACE) {
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

    /// A btrfs in a file, mounted until it is dropped.
    struct Btrfs(Scratch);

    impl Btrfs {
        fn mount() -> Self {
            let scratch = Scratch::new();
            let image = scratch.path().join("image");
            std::fs::File::create(&image).unwrap().set_len(128 << 20).unwrap();
            std::fs::create_dir(scratch.path().join("mounted")).unwrap();
            run("mkfs.btrfs", &["--quiet", "--mixed", image.to_str().unwrap()]);
            let mounted = scratch.path().join("mounted");
            run("mount", &["-o", "loop", image.to_str().unwrap(), mounted.to_str().unwrap()]);
            Self(scratch)
        }

        fn path(&self, name: &str) -> std::path::PathBuf {
            self.0.path().join("mounted").join(name)
        }
    }

    impl Drop for Btrfs {
        fn drop(&mut self) {
            run("umount", &[self.0.path().join("mounted").to_str().unwrap()]);
        }
    }

    fn run(program: &str, arguments: &[&str]) {
        let ended = std::process::Command::new(program).args(arguments).output().unwrap();
        assert!(
            ended.status.success(),
            "{program} {arguments:?}: {}",
            String::from_utf8_lossy(&ended.stderr)
        );
    }

    fn make_subvolume(path: &Path) {
        run("btrfs", &["subvolume", "create", path.to_str().unwrap()]);
    }

    #[test]
    #[ignore = "needs root"]
    fn removes_subvolumes_of_btrfs() {
        require_root();
        let disk = Btrfs::mount();
        let volume = disk.path("victim/volume");
        std::fs::create_dir_all(&volume).unwrap();
        // Nested, read-only, with a snapshot of itself, and with folders deeper than the limit.
        make_subvolume(&volume.join("one"));
        make_subvolume(&volume.join("one/two"));
        let deep = volume.join("one/two/").join("down/".repeat(60));
        std::fs::create_dir_all(&deep).unwrap();
        make_subvolume(&deep.join("three"));
        std::fs::write(deep.join("three/file"), "x").unwrap();
        let (one, snapshot) = (volume.join("one"), volume.join("snapshot"));
        run("btrfs", &["subvolume", "snapshot", "-r", one.to_str().unwrap(), snapshot.to_str().unwrap()]);
        for read_only in [deep.join("three"), one.join("two"), one.clone()] {
            run("btrfs", &["property", "set", read_only.to_str().unwrap(), "ro", "true"]);
        }
        let mut nested = volume.join("nested");
        for _ in 0..100 {
            make_subvolume(&nested);
            nested = nested.join("n");
        }

        let parent = Folder::open(&disk.path("")).unwrap().unwrap();
        remove(&parent, OsStr::new("victim")).unwrap();

        assert!(!disk.path("victim").exists());
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
