//! Propagation of bind sources: a container can exchange mounts with the host only through a shared mount.

use std::os::fd::BorrowedFd;
use std::path::Path;

use rustix::fs::{AtFlags, StatxFlags, statx};

use super::errors::{During, LaunchError};
use super::spec::Propagation;

/// Checks that the mount with the source permits the propagation.
pub(super) fn check_source(
    source: BorrowedFd<'_>,
    path: &Path,
    propagation: Propagation,
) -> Result<(), LaunchError> {
    let required: (&[&str], &str) = match propagation {
        Propagation::Private => return Ok(()),
        Propagation::HostToContainer => (&["shared:", "master:"], "shared or slave"),
        Propagation::Bidirectional => (&["shared:"], "shared"),
    };
    let mount =
        statx(source, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).during("read mount of", path)?.stx_mnt_id;
    let table = std::fs::read_to_string("/proc/self/mountinfo")
        .map_err(|error| LaunchError::Message(format!("read mount table: {error}")))?;
    let tags = tags_of(&table, mount).unwrap_or_default();
    if tags.iter().any(|tag| required.0.iter().any(|prefix| tag.starts_with(prefix))) {
        return Ok(());
    }
    Err(LaunchError::Propagation { path: path.display().to_string(), required: required.1 })
}

/// The optional fields of a mount in the format of `/proc/self/mountinfo`.
fn tags_of(table: &str, mount: u64) -> Option<Vec<&str>> {
    let line =
        table.lines().find(|line| line.split(' ').next().and_then(|id| id.parse().ok()) == Some(mount))?;
    Some(line.split(' ').skip(6).take_while(|field| *field != "-").collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "20 1 0:1 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
                         21 20 0:2 / /a rw - tmpfs none rw\n\
                         22 20 0:3 / /b rw shared:4 master:1 - tmpfs none rw\n";

    #[test]
    fn finds_optional_fields_of_the_mount() {
        assert_eq!(tags_of(TABLE, 20), Some(vec!["shared:1"]));
        assert_eq!(tags_of(TABLE, 21), Some(vec![]));
        assert_eq!(tags_of(TABLE, 22), Some(vec!["shared:4", "master:1"]));
        assert_eq!(tags_of(TABLE, 2), None);
    }
}
