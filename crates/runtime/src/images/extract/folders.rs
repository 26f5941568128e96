//! Opens and creates the folders of a layer, beneath the layer's root.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::{ExtractError, OnEntry, invalid, metadata};

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// Symbolic links are followed as a process inside the root would.
const IN_ROOT: ResolveFlags = ResolveFlags::IN_ROOT.union(ResolveFlags::NO_MAGICLINKS);
const NO_LINKS: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS);
/// As many as the kernel follows in one path.
const MAX_LINKS: usize = 40;

pub(super) struct Folders {
    root: OwnedFd,
    lower: Vec<OwnedFd>,
    /// The last folder that was asked for: most entries have the folder of the entry before them.
    last: Option<(Vec<u8>, OwnedFd)>,
}

impl Folders {
    pub(super) fn open(root: &Path, lower: &[PathBuf]) -> Result<Self, ExtractError> {
        let open = |path: &Path| {
            rustix::fs::open(path, FOLDER, Mode::empty()).on("open layer", path.as_os_str().as_bytes())
        };
        let lower = lower.iter().map(|path| open(path)).collect::<Result<_, _>>()?;
        Ok(Self { root: open(root)?, lower, last: None })
    }

    /// To be called when a folder may have been removed.
    pub(super) fn forget(&mut self) {
        self.last = None;
    }

    pub(super) fn existing(&self, path: &[u8]) -> Result<OwnedFd, ExtractError> {
        open_in_root(&self.root, path).on("open folder", path)
    }

    /// Opens a folder, and creates what is missing on the path like the folder of the same path in a lower layer.
    pub(super) fn make(&mut self, path: &[u8]) -> Result<OwnedFd, ExtractError> {
        if let Some((last, folder)) = &self.last
            && last == path
        {
            return folder.as_fd().try_clone_to_owned().map_err(|error| duplicate_error(&error, path));
        }
        let folder = match open_in_root(&self.root, path) {
            // Not a folder: a link to nothing, or a whiteout of this layer.
            Err(Errno::NOENT | Errno::NOTDIR) => self.make_missing(path)?,
            result => result.on("open folder", path)?,
        };
        let kept = folder.as_fd().try_clone_to_owned().map_err(|error| duplicate_error(&error, path))?;
        self.last = Some((path.to_vec(), kept));
        Ok(folder)
    }

    /// Walks the path part by part. Links may point to folders that do not exist yet, or exist only in a lower layer.
    fn make_missing(&self, path: &[u8]) -> Result<OwnedFd, ExtractError> {
        let mut pending: VecDeque<Vec<u8>> = parts(path).collect();
        let mut names: Vec<Vec<u8>> = Vec::new();
        let mut folder = open_in_root(&self.root, b"").on("open folder", path)?;
        let mut links = 0;
        while let Some(name) = pending.pop_front() {
            if name == b".." {
                names.pop();
                folder = open_plain(&self.root, &names.join(&b'/')).on("open folder", path)?;
                continue;
            }
            let part = OsStr::from_bytes(&name);
            match open_folder(&folder, part) {
                Ok(next) => folder = next,
                Err(Errno::NOENT) => {
                    names.push(name.clone());
                    folder = self.create(&folder, part, &names.join(&b'/'))?;
                    continue;
                }
                Err(error) => {
                    if is_whiteout(&folder, part) {
                        rustix::fs::unlinkat(&folder, part, AtFlags::empty()).on("replace", path)?;
                        names.push(name.clone());
                        folder = self.create(&folder, part, &names.join(&b'/'))?;
                        metadata::set_opaque(&folder, path)?;
                        continue;
                    }
                    let Ok(target) = rustix::fs::readlinkat(&folder, part, Vec::new()) else {
                        return Err(error).on("open folder", path);
                    };
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(invalid(path));
                    }
                    if target.as_bytes().starts_with(b"/") {
                        names.clear();
                        folder = open_in_root(&self.root, b"").on("open folder", path)?;
                    }
                    let target: Vec<_> = parts(target.as_bytes()).collect();
                    target.into_iter().rev().for_each(|part| pending.push_front(part));
                    continue;
                }
            }
            names.push(name);
        }
        Ok(folder)
    }

    fn create(&self, parent: &OwnedFd, name: &OsStr, path: &[u8]) -> Result<OwnedFd, ExtractError> {
        rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o755)).on("create folder", path)?;
        let folder = open_folder(parent, name).on("open folder", path)?;
        match self.lower_folder(path) {
            Some(model) => metadata::copy_folder(&model, &folder, path)?,
            None => {
                rustix::fs::fchmod(&folder, Mode::from_raw_mode(0o755)).on("set mode of", path)?;
            }
        }
        Ok(folder)
    }

    /// The folder that a lower layer has at the path, unless a layer above that one hides it.
    fn lower_folder(&self, path: &[u8]) -> Option<OwnedFd> {
        for layer in &self.lower {
            match open_plain(layer, path) {
                Ok(folder) => return Some(folder),
                Err(Errno::NOENT) => {}
                Err(_) => return None,
            }
        }
        None
    }
}

fn duplicate_error(error: &std::io::Error, path: &[u8]) -> ExtractError {
    let source = Errno::from_io_error(error).unwrap_or(Errno::IO);
    ExtractError::File { operation: "open folder", path: super::shown(path), source }
}

fn parts(path: &[u8]) -> impl Iterator<Item = Vec<u8>> + '_ {
    path.split(|byte| *byte == b'/').filter(|part| !matches!(*part, b"" | b".")).map(<[u8]>::to_vec)
}

pub(super) fn is_whiteout(parent: &OwnedFd, name: &OsStr) -> bool {
    rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|stat| {
        FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice && stat.st_rdev == 0
    })
}

/// Opens a folder by its name, no symbolic link.
pub(super) fn open_folder(parent: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(parent, name, FOLDER | OFlags::NOFOLLOW, Mode::empty())
}

fn open_in_root(root: &OwnedFd, path: &[u8]) -> Result<OwnedFd, Errno> {
    open(root, path, IN_ROOT)
}

fn open_plain(root: &OwnedFd, path: &[u8]) -> Result<OwnedFd, Errno> {
    open(root, path, NO_LINKS)
}

fn open(root: &OwnedFd, path: &[u8], resolve: ResolveFlags) -> Result<OwnedFd, Errno> {
    let path = if path.is_empty() { b"." } else { path };
    rustix::io::retry_on_intr(|| {
        rustix::fs::openat2(root, OsStr::from_bytes(path), FOLDER, Mode::empty(), resolve)
    })
}
