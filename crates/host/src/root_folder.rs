//! The folders that a node begins with.

use std::path::Path;

use ports::pod_folders::FileError;
use rustix::fs::XattrFlags;

use crate::capabilities::selinux_enabled;
use crate::failure::OnPath;
use crate::folder::Folder;
use crate::pod_folders::PRIVATE;

/// Below the root folder, with their modes. Pods of drivers ask for some of them before the agent needs them.
const BELOW: [(&str, u32); 5] = [
    ("pods", PRIVATE),
    ("plugins", PRIVATE),
    ("plugins_registry", PRIVATE),
    ("pod-resources", PRIVATE),
    ("checkpoints", 0o700),
];
/// Those that drivers in containers write to.
const OF_PLUGINS: [&str; 2] = ["plugins", "plugins_registry"];
const LABEL: &[u8] = b"system_u:object_r:container_file_t:s0";

/// Makes the root folder, what others look for below it, and the folder of all logs. What is there keeps its mode.
///
/// # Errors
/// When one cannot be made.
pub fn make_root_folder(root: &Path, pod_logs: &Path) -> Result<(), FileError> {
    for folder in [root, pod_logs] {
        Folder::make(folder, PRIVATE)?;
    }
    for (name, mode) in BELOW {
        Folder::make(&root.join(name), mode)?;
    }
    Ok(())
}

/// Lets drivers without privileges use their folders where SELinux decides.
///
/// # Errors
/// When a label cannot be set. Such drivers may not work then; everything else does.
pub fn label_plugin_folders(root: &Path) -> Result<(), FileError> {
    if !selinux_enabled(Path::new("/proc")) {
        return Ok(());
    }
    OF_PLUGINS.iter().map(|name| root.join(name)).try_for_each(|folder| {
        let labelled = rustix::fs::setxattr(&folder, "security.selinux", LABEL, XattrFlags::empty());
        labelled.on_path("label folder", folder)
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::scratch::Scratch;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_node_begins_with_the_folders_that_drivers_look_for() {
        let scratch = Scratch::new();
        let (root, logs) = (scratch.path().join("lib/kubelet"), scratch.path().join("log/pods"));
        // The operator may keep a folder elsewhere, with a mode of its own.
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
