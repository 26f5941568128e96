//! User namespaces: their mappings, entering one, and the owners of mounted files.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::mount::open_tree;
use rustix::thread::{
    Gid, LinkNameSpaceType, Uid, move_into_link_name_space, set_thread_groups, set_thread_res_gid,
    set_thread_res_uid,
};

use super::errors::{During, LaunchError};
use super::raw::{MountAttributes, mount_setattr};
use super::spec::{IdMappings, IdRange, User, UserNamespace};
use super::{mounts, namespaces};

/// Enters a user namespace as its root. Everything that only root of the host may do must be done before.
pub(super) fn enter(namespace: BorrowedFd<'_>) -> Result<(), LaunchError> {
    move_into_link_name_space(namespace, Some(LinkNameSpaceType::User)).during("join", "user namespace")?;
    become_root()
}

/// Takes the ids of root in the user namespace of this process. Its ids on the host mean nothing there.
pub(super) fn become_root() -> Result<(), LaunchError> {
    set_thread_groups(&[]).during("clear", "groups")?;
    set_thread_res_gid(Gid::ROOT, Gid::ROOT, Gid::ROOT).during("set", "group")?;
    set_thread_res_uid(Uid::ROOT, Uid::ROOT, Uid::ROOT).during("set", "user")
}

/// Makes a detached mount show ids on disk as ids of the namespace.
pub(super) fn map_owners(
    tree: BorrowedFd<'_>,
    path: &Path,
    namespace: BorrowedFd<'_>,
) -> Result<(), LaunchError> {
    let attributes = MountAttributes {
        set: libc::MOUNT_ATTR_IDMAP,
        user_namespace: Some(namespace),
        ..MountAttributes::default()
    };
    match mount_setattr(tree, attributes, true) {
        Err(Errno::INVAL) => Err(LaunchError::NoMappedOwners(path.display().to_string())),
        result => result.during("map owners of", path),
    }
}

/// A detached copy of a mount whose ids on disk are ids of the namespace.
///
/// # Errors
/// If the namespace is not there, or if the file system cannot map owners.
pub(crate) fn clone_with_mapped_owners(path: &Path, user: &UserNamespace) -> Result<OwnedFd, LaunchError> {
    let namespace = namespaces::open(&user.path)?;
    let tree = open_tree(CWD, path, mounts::clone_flags()).during("clone", path)?;
    let private = MountAttributes { propagation: libc::MS_PRIVATE, ..MountAttributes::default() };
    mount_setattr(tree.as_fd(), private, true).during("set propagation of", path)?;
    map_owners(tree.as_fd(), path, namespace.as_fd())?;
    Ok(tree)
}

/// The ids of the namespace's root on the host.
///
/// # Errors
/// If the mappings do not contain it.
pub(crate) fn root_on_host(ids: &IdMappings) -> Result<(u32, u32), LaunchError> {
    let root = User { uid: 0, gid: 0, groups: Vec::new() };
    on_host(ids, &root).ok_or(LaunchError::UnmappedUser { uid: 0, gid: 0 })
}

/// The user as the host sees it. None if an id is not mapped.
pub(super) fn on_host(ids: &IdMappings, user: &User) -> Option<(u32, u32)> {
    Some((translate(ids.uids, user.uid)?, translate(ids.gids, user.gid)?))
}

fn translate(range: IdRange, id: u32) -> Option<u32> {
    let offset = id.checked_sub(range.container).filter(|offset| *offset < range.length)?;
    range.host.checked_add(offset)
}

/// Writes the mappings of a new user namespace, whose first process is `pid`.
pub(super) fn write_mappings(pid: i32, ids: &IdMappings) -> Result<(), LaunchError> {
    for (name, range) in [("uid_map", ids.uids), ("gid_map", ids.gids)] {
        if translate(range, 0).is_none() || range.host.checked_add(range.length).is_none() {
            return Err(LaunchError::Message(format!("{name}: the mapping must contain id 0")));
        }
        let path = format!("/proc/{pid}/{name}");
        let text = format!("{} {} {}\n", range.container, range.host, range.length);
        fs::write(&path, text).map_err(|error| LaunchError::Message(format!("write {path}: {error}")))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDS: IdMappings = IdMappings {
        uids: IdRange { container: 0, host: 100_000, length: 65_536 },
        gids: IdRange { container: 0, host: 200_000, length: 10 },
    };

    #[test]
    fn user_is_translated_to_host_ids() {
        let user = |uid, gid| User { uid, gid, groups: Vec::new() };
        assert_eq!(on_host(&IDS, &user(0, 0)), Some((100_000, 200_000)));
        assert_eq!(on_host(&IDS, &user(65_535, 9)), Some((165_535, 200_009)));
    }

    #[test]
    fn id_outside_the_mapping_has_no_host_id() {
        let user = |uid, gid| User { uid, gid, groups: Vec::new() };
        assert_eq!(on_host(&IDS, &user(65_536, 0)), None);
        assert_eq!(on_host(&IDS, &user(0, 10)), None);
        let high = IdRange { container: 1, host: u32::MAX, length: 5 };
        assert_eq!(
            (translate(high, 0), translate(high, 1), translate(high, 2)),
            (None, Some(u32::MAX), None)
        );
    }
}
