//! The folders that must exist when the agent starts.

use std::path::Path;

use ports::host::pod_folders::FileError;
use rustix::fs::XattrFlags;

use crate::errors::OnPath;
use crate::files::folder::Folder;
use crate::machine::selinux_enabled;
use crate::pods::pod_folders::PRIVATE_MODE;

/// Folders below the root folder with their modes. Driver pods mount some of them before the agent needs them.
const SUBFOLDERS: [(&str, u32); 5] = [
    ("pods", PRIVATE_MODE),
    ("plugins", PRIVATE_MODE),
    ("plugins_registry", PRIVATE_MODE),
    ("pod-resources", PRIVATE_MODE),
    ("checkpoints", 0o700),
];
/// The folders that drivers in containers write to.
const PLUGIN_FOLDERS: [&str; 2] = ["plugins", "plugins_registry"];
const SELINUX_LABEL: &[u8] = b"system_u:object_r:container_file_t:s0";

/// Creates the root folder, its subfolders and the pod log folder. Existing folders keep their mode.
///
/// # Errors
/// If one cannot be created.
pub fn make_root_folder(root: &Path, pod_logs: &Path) -> Result<(), FileError> {
    for folder in [root, pod_logs] {
        Folder::make(folder, PRIVATE_MODE)?;
    }
    for (name, mode) in SUBFOLDERS {
        Folder::make(&root.join(name), mode)?;
    }
    Ok(())
}

/// Labels the plugin folders so that unprivileged drivers can use them under SELinux.
///
/// # Errors
/// If a label cannot be set. Unprivileged drivers may then fail; everything else works.
pub fn label_plugin_folders(root: &Path) -> Result<(), FileError> {
    if !selinux_enabled(Path::new("/proc")) {
        return Ok(());
    }
    PLUGIN_FOLDERS.iter().map(|name| root.join(name)).try_for_each(|folder| {
        let labelled = rustix::fs::setxattr(&folder, "security.selinux", SELINUX_LABEL, XattrFlags::empty());
        labelled.on_path("label folder", folder)
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::test_folder::Scratch;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn creates_the_folders_that_drivers_mount() {
        let scratch = Scratch::new();
        let (root, logs) = (scratch.path().join("lib/kubelet"), scratch.path().join("log/pods"));
        // The operator may link a folder to another location, with another mode.
        let elsewhere = scratch.path().join("elsewhere");
        std::fs::create_dir_all(&root).unwrap();
        std::fs::create_dir(&elsewhere).unwrap();
        std::fs::set_permissions(&elsewhere, std::fs::Permissions::from_mode(0o711)).unwrap();
        symlink(&elsewhere, root.join("plugins")).unwrap();
        for _ in 0..2 {
            make_root_folder(&root, &logs).unwrap();
            for (path, expected) in [
                (logs.clone(), 0o750),
                (root.join("pods"), 0o750),
                (root.join("plugins"), 0o711),
                (root.join("plugins_registry"), 0o750),
                (root.join("pod-resources"), 0o750),
                (root.join("checkpoints"), 0o700),
            ] {
                assert_eq!(mode(&path), expected, "{}", path.display());
            }
        }
        let fresh = scratch.path().join("fresh");
        make_root_folder(&fresh, &logs).unwrap();
        assert_eq!(mode(&fresh), 0o750);
    }
}
