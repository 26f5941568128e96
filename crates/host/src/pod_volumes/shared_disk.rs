//! Disks that pods of a node share: one mount for all of them, or one folder of links that says who has the device.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::{PodUid, VolumeLabel, same_label};
use ports::pod_folders::FileError;
use ports::pod_volumes::{VolumeError, VolumeStep};
use rustix::mount::MountFlags;

use super::Volume;
use super::local::link_to;
use crate::failure::OnPath;
use crate::folder::Folder;
use crate::mount_table::{self, label_in, mounted_at, table};
use crate::pod_folders::PRIVATE;
use crate::tree;

/// Disks or targets that something is being done with.
#[derive(Clone, Debug, Default)]
pub(super) struct Busy(Arc<Mutex<BTreeSet<String>>>);

/// The right to work with one of them, until it is dropped.
pub(super) struct Turn<'a> {
    busy: &'a Busy,
    name: String,
}

impl Busy {
    /// The right to work with this one, unless somebody has it.
    pub(super) fn turn(&self, name: &str) -> Option<Turn<'_>> {
        self.names().insert(name.to_owned()).then(|| Turn { busy: self, name: name.to_owned() })
    }

    /// All that somebody works with.
    pub(super) fn names(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.busy.names().remove(&self.name);
    }
}

/// Where a volume is mounted in its pod.
pub(super) fn mount_point(volume: &Volume) -> Result<PathBuf, FileError> {
    Ok(volume.parent.real_path()?.join(&volume.name))
}

/// Whether the pod has the volume.
pub(super) fn is_bound(volume: &Volume) -> Result<bool, FileError> {
    Ok(mounted_at(&table()?, &mount_point(volume)?).is_some())
}

/// Gives a pod what is mounted for the node.
pub(super) fn bind(volume: &Volume, place: &Path) -> Result<(), VolumeError> {
    let Some(source) = Folder::open(place)? else {
        return Err(VolumeError::Refused(format!("{} is gone", place.display())));
    };
    let target = mount_point(volume)?;
    volume.parent.make_below(&volume.name, PRIVATE)?;
    volume.note_mount("bind")?;
    let at = volume.parent.magic_path().join(&volume.name);
    Ok(rustix::mount::mount_bind(source.magic_path(), at).on_path("bind to", target)?)
}

/// Keeps a pod from writing; done again if it is mounted already, as an agent may have been killed in between.
pub(super) fn restrict(volume: &Volume) -> Result<(), VolumeError> {
    let at = volume.parent.magic_path().join(&volume.name);
    let restricted = rustix::mount::mount_remount(at, MountFlags::BIND | MountFlags::RDONLY, c"");
    Ok(restricted.on_path("mount read-only", mount_point(volume)?)?)
}

/// How a disk is mounted for the node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    /// What its volume asks for.
    pub(super) options: &'a [String],
    /// What the pod's containers ask for.
    pub(super) label: &'a VolumeLabel,
}

impl Wanted<'_> {
    /// The label that its options name: it goes before the pod's, as there can be only one.
    fn explicit_label(&self) -> Option<&str> {
        self.options.iter().find_map(|option| label_in(option))
    }

    /// Whether a mount with this label will do.
    fn is_met_by(&self, mounted: Option<&str>) -> bool {
        match self.label {
            VolumeLabel::None | VolumeLabel::Wanted(_) => true,
            VolumeLabel::OfFiles | VolumeLabel::OfMount(_) => {
                let wanted = self.explicit_label().or(self.label.of_mount());
                same_label(wanted.unwrap_or_default(), mounted.unwrap_or_default())
            }
        }
    }

    /// All options, with the label for the files.
    pub(super) fn mount_options(&self) -> Vec<String> {
        let label = self.label.of_mount().filter(|_| self.explicit_label().is_none());
        let context = label.map(|label| format!("context=\"{label}\""));
        context.into_iter().chain(self.options.iter().cloned()).collect()
    }
}

/// Whether a disk is mounted for the node as a pod wants it; `place` is below `root`, and nobody holds it open. A mount
/// with another label is undone, unless a pod has it.
pub(super) fn is_mounted(
    root: &Path,
    place: &Path,
    wanted: Wanted<'_>,
    name: &str,
) -> Result<bool, VolumeError> {
    let place = root.join(place);
    let (Some(parent), Some(file)) = (place.parent(), place.file_name()) else { return Ok(false) };
    let Some(disks) = Folder::open(parent)? else { return Ok(false) };
    let table = table()?;
    let Some(mount) = mounted_at(&table, &disks.real_path()?.join(file)) else { return Ok(false) };
    if wanted.is_met_by(mount.label()) {
        return Ok(true);
    }
    match unmount_unused(root, &disks, file)? {
        Use::InUse => Err(VolumeError::OtherLabel(name.to_owned())),
        Use::Unused => Ok(false),
    }
}

/// Unmounts what is mounted for the node, unless a pod has it.
pub(super) fn unmount_unused(root: &Path, disks: &Folder, name: &OsStr) -> Result<Use, VolumeError> {
    let place = disks.real_path()?.join(name);
    let pods = root.canonicalize().on_path("resolve folder", root)?.join("pods");
    let table = table()?;
    if let Some(mount) = mounted_at(&table, &place) {
        let of_pods = mount_table::at_or_below(&table, &pods);
        if of_pods.iter().any(|other| other.device == mount.device) {
            return Ok(Use::InUse);
        }
        super::tear_down::unmount(disks, Path::new(name))?;
    }
    Ok(Use::Unused)
}

/// Whether some pod has a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    InUse,
    Unused,
}

/// Links a device for a pod: in the folder that says who has it, then where the runtime finds it.
pub(super) fn link(
    map: &Folder,
    uid: &PodUid,
    pod: &Folder,
    link: &Path,
    device: &Path,
) -> Result<(), FileError> {
    let name = OsStr::new(uid.as_str());
    if linked(map, name).as_deref() != Some(device) {
        tree::remove(map, name)?;
        rustix::fs::symlinkat(device, map, name).on_path("link device", map.path().join(name))?;
    }
    link_to(pod, link, device)
}

/// Forgets the pods that have the device no more; `plugin` is such as `kubernetes.io~iscsi`.
pub(super) fn unlink_unused(root: &Path, map: &Folder, plugin: &str) -> Result<Use, FileError> {
    let mut found = Use::Unused;
    for name in map.names()? {
        let Some(device) = linked(map, &name) else { continue };
        let devices = root.join("pods").join(&name).join("volumeDevices").join(plugin);
        let is_in_use = match Folder::open(&devices)? {
            Some(links) => links.names()?.iter().any(|name| linked(&links, name).as_deref() == Some(&device)),
            None => false,
        };
        if is_in_use {
            found = Use::InUse;
        } else {
            tree::remove(map, &name)?;
        }
    }
    Ok(found)
}

/// What a link leads to; `None` for anything else.
fn linked(folder: &Folder, name: &OsStr) -> Option<PathBuf> {
    match rustix::fs::readlinkat(folder, name, Vec::new()) {
        Ok(target) => Some(PathBuf::from(OsString::from(target.to_string_lossy().into_owned()))),
        Err(_) => None,
    }
}

/// A failure of a step before the last one.
pub(super) fn failed(step: VolumeStep, reason: String) -> VolumeError {
    VolumeError::Step { step, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_among_the_options_goes_before_the_pods() {
        let of_pod = VolumeLabel::OfMount("u:r:t:s0:c26,c5".to_owned());
        let (none, of_files) = (VolumeLabel::None, VolumeLabel::OfFiles);
        let (own, explicit) = ("context=\"u:r:t:s0:c26,c5\"", "context=\"u:r:x:s0:c1,c2\"");
        let together = format!("noexec,{explicit}");
        // What a mount must have for each; `None` if nobody asks.
        for (options, label, expected, mounted) in [
            (vec!["noatime"], &of_pod, vec![own, "noatime"], Some("u:r:t:s0:c5,c26")),
            (vec!["noatime"], &of_files, vec!["noatime"], Some("")),
            (vec!["noatime"], &none, vec!["noatime"], None),
            (vec![explicit], &of_pod, vec![explicit], Some("u:r:x:s0:c1,c2")),
            (vec![explicit], &of_files, vec![explicit], Some("u:r:x:s0:c1,c2")),
            (vec![explicit], &none, vec![explicit], None),
            (vec![together.as_str()], &of_pod, vec![together.as_str()], Some("u:r:x:s0:c1,c2")),
            // Other options of that kind say nothing of the files.
            (vec!["rootcontext=u:r:x:s0"], &of_files, vec!["rootcontext=u:r:x:s0"], Some("")),
        ] {
            let options: Vec<String> = options.into_iter().map(str::to_owned).collect();
            let wanted = Wanted { options: &options, label };
            assert_eq!(wanted.mount_options(), expected, "{wanted:?}");
            for found in ["", "u:r:t:s0:c5,c26", "u:r:x:s0:c1,c2"] {
                let is_met = wanted.is_met_by(Some(found).filter(|label| !label.is_empty()));
                assert_eq!(is_met, mounted.is_none_or(|mounted| mounted == found), "{wanted:?} {found:?}");
            }
        }
    }
}
