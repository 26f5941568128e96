//! The file systems that a disk may have.

use ports::host::pod_volumes::VolumeError;

/// File systems of block devices with a driver in the kernel or a usual one outside. The name becomes a part of a
/// program's name (`mkfs.ext4`) and selects the mount helper, so that others are refused.
const KNOWN: &[&str] = &[
    "bcachefs", "btrfs", "erofs", "exfat", "ext2", "ext3", "ext4", "f2fs", "gfs2", "iso9660", "jfs", "msdos",
    "nilfs2", "ntfs", "ntfs3", "ocfs2", "reiserfs", "squashfs", "udf", "vfat", "xfs",
];

pub(super) fn check(fs_type: &str) -> Result<(), VolumeError> {
    if KNOWN.contains(&fs_type) {
        return Ok(());
    }
    let known = KNOWN.join(", ");
    Err(VolumeError::Refused(format!("file system {fs_type:?} of the disk is not known; known are {known}")))
}
