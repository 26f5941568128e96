use std::path::{Component, Path, PathBuf};

use k8s_openapi::api::core::v1::Container;
use model::Pod;

/// The folders inside a volume on which any container of the pod mounts other volumes. The runtime cannot create them, because
/// the volume is read-only in the container.
///
/// # Errors
/// When a mount path leaves the root of the container.
pub(super) fn nested(pod: &Pod, volume: &str) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for entry in pod.containers() {
        nested_in(entry.container, volume, &mut found)?;
    }
    found.sort();
    found.dedup();
    Ok(found)
}

fn nested_in(container: &Container, volume: &str, found: &mut Vec<PathBuf>) -> Result<(), String> {
    let mounts = || container.volume_mounts.iter().flatten();
    let mut all: Vec<PathBuf> = mounts().map(|mount| clean(&mount.mount_path)).collect();
    all.sort();
    for own in mounts().filter(|mount| mount.name == volume).map(|mount| clean(&mount.mount_path)) {
        if own.starts_with("..") {
            return Err(format!("invalid container mount point {}", own.display()));
        }
        let mut outer: Vec<&Path> = Vec::new();
        for path in &all {
            let Ok(relative) = path.strip_prefix(&own) else { continue };
            // Mount points inside another mount are not in this volume.
            if relative.as_os_str().is_empty() || outer.iter().any(|above| path.starts_with(above)) {
                continue;
            }
            outer.push(path);
            found.push(relative.to_path_buf());
        }
    }
    Ok(())
}

/// Removes `.` and resolves `..` lexically.
fn clean(path: &str) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in Path::new(path).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => match clean.components().next_back() {
                Some(Component::Normal(_)) => {
                    clean.pop();
                }
                Some(Component::RootDir) => {}
                _ => clean.push(".."),
            },
            Component::RootDir | Component::Prefix(_) | Component::Normal(_) => clean.push(part),
        }
    }
    clean
}
