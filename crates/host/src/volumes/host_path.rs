//! Checks hostPath volumes.

use std::fs::{DirBuilder, FileType, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;

use ports::host::pod_volumes::{HostPathKind, VolumeError};

use crate::errors::OnPath;

/// Checks the type of the path, and creates it if `kind` requires that. Follows symlinks, because the path is
/// controlled by the pod's author and the operator, not by the container.
pub(super) fn set_up(path: &Path, kind: HostPathKind) -> Result<(), VolumeError> {
    let Some((matches, expected)) = expected_type(kind) else { return Ok(()) };
    let found = metadata(path)?.map(|metadata| metadata.file_type());
    match (found, kind) {
        (None, HostPathKind::DirectoryOrCreate) => {
            Ok(DirBuilder::new().recursive(true).mode(0o755).create(path).on_path("make folder", path)?)
        }
        (None, HostPathKind::FileOrCreate) => {
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(false).mode(0o644);
            options.open(path).on_path("make file", path)?;
            Ok(())
        }
        (Some(file_type), _) if matches(&file_type) => Ok(()),
        (Some(_) | None, _) => Err(VolumeError::WrongType { path: path.to_path_buf(), expected }),
    }
}

type Matches = fn(&FileType) -> bool;

fn expected_type(kind: HostPathKind) -> Option<(Matches, &'static str)> {
    match kind {
        HostPathKind::Any => None,
        HostPathKind::Directory | HostPathKind::DirectoryOrCreate => {
            Some((FileType::is_dir as Matches, "a directory"))
        }
        HostPathKind::File | HostPathKind::FileOrCreate => Some((FileType::is_file as Matches, "a file")),
        HostPathKind::Socket => Some((FileTypeExt::is_socket as Matches, "a socket file")),
        HostPathKind::CharDevice => Some((FileTypeExt::is_char_device as Matches, "a character device")),
        HostPathKind::BlockDevice => Some((FileTypeExt::is_block_device as Matches, "a block device")),
    }
}

fn metadata(path: &Path) -> Result<Option<Metadata>, VolumeError> {
    match std::fs::metadata(path) {
        Ok(metadata) => Ok(Some(metadata)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(error).on_path("stat", path)?,
    }
}
