//! Volumes from images: read-only views that a request mounts, and folders for the volumes that an image declares.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, XattrFlags, lgetxattr, llistxattr, lsetxattr, mknodat};
use rustix::io::Errno;

use super::VIEW_PREFIX;
use super::rootfs_files::directory_in;
use crate::errors::{ServiceError, describe};
use crate::launcher::{UserNamespace, root_on_host};
use crate::records::{OnFile, RecordError};
use crate::sandboxes::Sandbox;
use crate::shared::Shared;

/// Kubelets count failures that begin with this word.
const FAILED: &str = "ImageVolumeMountFailed";
const DIGEST_LENGTH: usize = 16;
const MAX_DEPTH: usize = 100;
/// More than Linux allows for all names of a file.
const MAX_ATTRIBUTE: usize = 64 * 1024;

/// Mounts a view of an image, once per sandbox; returns the folder to mount in the container.
pub(super) fn mount(
    shared: &Shared,
    sandbox: &Sandbox,
    image: &str,
    sub_path: &str,
) -> Result<PathBuf, ServiceError> {
    let failed = |problem: String| ServiceError::State(format!("{FAILED}: {problem}"));
    let found = shared.store.resolve(image)?;
    let found = found.ok_or_else(|| failed(format!("image {image:?} not found")))?;
    let digest = found.id.hex().get(..DIGEST_LENGTH).unwrap_or_default();
    let owner = format!("{VIEW_PREFIX}{}-{digest}", sandbox.record.id);
    let user = sandbox.user_namespace();
    let view = shared.store.mount_view_for(found.id.as_str(), &owner, user.as_ref());
    let view = view.map_err(|error| failed(describe(&error)))?;
    if sub_path.is_empty() {
        return Ok(view);
    }
    let relative = Path::new(sub_path);
    let plain = relative.components().all(|part| matches!(part, std::path::Component::Normal(_)));
    if !plain {
        return Err(failed(format!("{sub_path:?} is not a relative path without ..")));
    }
    let found = directory_in(&view, relative)?;
    found.ok_or_else(|| failed(format!("the image has no folder {sub_path:?}")))
}

/// Makes the folder of a declared volume with the content that the image has at its place.
pub(super) fn copy_declared(root: &Path, destination: &str, target: &Path) -> Result<(), ServiceError> {
    fs::DirBuilder::new().recursive(true).mode(0o755).create(target).on_file("make", target)?;
    let relative = Path::new(destination.trim_start_matches('/'));
    let Some(source) = directory_in(root, relative)? else { return Ok(()) };
    copy_attributes(&source, target)?;
    copy_content(&source, target, 0)
}

/// Gives a folder that the image does not have to root of the user namespace. The others were copied with mapped owners.
pub(super) fn give_to_root(folder: &Path, user: &UserNamespace) -> Result<(), ServiceError> {
    let status = fs::metadata(folder).on_file("read", folder)?;
    if status.uid() != 0 {
        return Ok(());
    }
    let (uid, gid) = root_on_host(&user.ids)
        .map_err(|error| ServiceError::setting("userns_options", error.to_string()))?;
    Ok(lchown(folder, Some(uid), Some(gid)).on_file("set the owner of", folder)?)
}

/// Nothing runs in the image's root yet, so names do not change meanwhile; links are copied, never followed.
fn copy_content(source: &Path, target: &Path, depth: usize) -> Result<(), ServiceError> {
    if depth > MAX_DEPTH {
        let error = io::Error::other("folders are nested too deeply");
        return Err(RecordError::File { operation: "copy", path: source.to_owned(), source: error }.into());
    }
    for entry in fs::read_dir(source).on_file("list", source)? {
        let entry = entry.on_file("list", source)?;
        let (from, to) = (entry.path(), target.join(entry.file_name()));
        let kind = entry.file_type().on_file("read", &from)?;
        if kind.is_dir() {
            fs::create_dir(&to).on_file("make", &to)?;
            copy_content(&from, &to, depth + 1)?;
        } else if kind.is_symlink() {
            let link = fs::read_link(&from).on_file("read", &from)?;
            symlink(link, &to).on_file("make", &to)?;
        } else if kind.is_file() {
            fs::copy(&from, &to).on_file("copy", &from)?;
        } else {
            let status = rustix::fs::lstat(&from).on_file("read", &from)?;
            let kind = FileType::from_raw_mode(status.st_mode);
            mknodat(CWD, &to, kind, Mode::from_raw_mode(status.st_mode), status.st_rdev)
                .on_file("make", &to)?;
        }
        copy_attributes(&from, &to)?;
    }
    Ok(())
}

fn copy_attributes(from: &Path, to: &Path) -> Result<(), ServiceError> {
    let metadata = fs::symlink_metadata(from).on_file("read", from)?;
    lchown(to, Some(metadata.uid()), Some(metadata.gid())).on_file("set owner of", to)?;
    copy_extended_attributes(from, to)?;
    if !metadata.is_symlink() {
        // After the owner, whose change removes the bits for set-user-id.
        let mode = fs::Permissions::from_mode(metadata.mode() & 0o7777);
        fs::set_permissions(to, mode).on_file("set mode of", to)?;
    }
    Ok(())
}

/// Capabilities of programs, lists of access rights and attributes of users. A file system without them gets none.
fn copy_extended_attributes(from: &Path, to: &Path) -> Result<(), ServiceError> {
    let mut names = vec![0; MAX_ATTRIBUTE];
    let length = match llistxattr(from, &mut names) {
        Err(Errno::OPNOTSUPP) => return Ok(()),
        length => length.on_file("list attributes of", from)?,
    };
    names.truncate(length);
    for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        // They belong to overlayfs, and to the container that a label was made for.
        if name.starts_with(b"trusted.") || name == b"security.selinux" {
            continue;
        }
        let mut value = vec![0; MAX_ATTRIBUTE];
        let length = lgetxattr(from, name, &mut value).on_file("read attribute of", from)?;
        value.truncate(length);
        match lsetxattr(to, name, &value, XattrFlags::empty()) {
            Ok(()) | Err(Errno::OPNOTSUPP) => {}
            result => result.on_file("set attribute of", to)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declared_volume_gets_the_content_of_the_image() {
        let root = tempfile::tempdir().unwrap();
        let data = root.path().join("real/data");
        fs::create_dir_all(data.join("sub")).unwrap();
        fs::write(data.join("sub/file"), "x").unwrap();
        fs::set_permissions(data.join("sub/file"), fs::Permissions::from_mode(0o640)).unwrap();
        let attribute = |path: &Path| {
            let mut value = [0; 8];
            lgetxattr(path, "user.origin", &mut value).map(|length| value[..length].to_vec())
        };
        let has_attributes =
            lsetxattr(data.join("sub/file"), "user.origin", b"image", XattrFlags::empty()).is_ok();
        symlink("/etc/passwd", data.join("link")).unwrap();
        symlink("/real/data", root.path().join("data")).unwrap();
        let target = root.path().join("volume");
        copy_declared(root.path(), "/data", &target).unwrap();
        assert_eq!(fs::read_to_string(target.join("sub/file")).unwrap(), "x");
        assert_eq!(fs::metadata(target.join("sub/file")).unwrap().mode() & 0o777, 0o640);
        // Not every file system for temporary files has attributes.
        if has_attributes {
            assert_eq!(attribute(&target.join("sub/file")).unwrap(), b"image");
        }
        assert_eq!(fs::read_link(target.join("link")).unwrap(), Path::new("/etc/passwd"));
        let empty = root.path().join("empty");
        copy_declared(root.path(), "/missing", &empty).unwrap();
        assert_eq!(fs::read_dir(empty).unwrap().count(), 0);
    }
}
