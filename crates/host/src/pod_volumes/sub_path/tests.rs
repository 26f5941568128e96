use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::mount_table;
use crate::scratch::{Scratch, require_root};

/// A pod folder, a volume, and a secret outside of it.
struct Place {
    scratch: Scratch,
    pod: Folder,
}

impl Place {
    fn new() -> Self {
        let scratch = Scratch::new();
        let pod = Folder::make(&scratch.path().join("pod"), 0o750).unwrap();
        fs::create_dir(scratch.path().join("volume")).unwrap();
        fs::create_dir(scratch.path().join("outside")).unwrap();
        fs::write(scratch.path().join("outside/secret"), "secret").unwrap();
        Self { scratch, pod }
    }

    fn volume(&self) -> PathBuf {
        self.scratch.path().join("volume")
    }

    fn bind(&self, path: &str) -> Result<PathBuf, FileError> {
        bind(&self.pod, &part(&self.volume(), path))
    }

    fn mounts(&self) -> Vec<PathBuf> {
        let table = mount_table::read(Path::new(mount_table::OWN)).unwrap();
        let found = mount_table::at_or_below(&table, self.scratch.path());
        found.into_iter().map(|mount| mount.mount_point.clone()).collect()
    }
}

fn part(volume: &Path, path: &str) -> SubPath {
    SubPath {
        volume: "v".into(),
        volume_path: volume.to_path_buf(),
        path: path.into(),
        container: "main".into(),
        index: 3,
    }
}

#[test]
fn a_folder_and_a_file_are_bound_where_upstream_binds_them() {
    require_root();
    let place = Place::new();
    fs::create_dir(place.volume().join("folder")).unwrap();
    fs::write(place.volume().join("folder/file"), "text").unwrap();
    let target = place.bind("folder").unwrap();
    assert_eq!(target, place.scratch.path().join("pod/volume-subpaths/v/main/3"));
    assert_eq!(fs::read_to_string(target.join("file")).unwrap(), "text");
    for _ in 0..2 {
        assert_eq!(place.bind("folder").unwrap(), target);
        assert_eq!(place.mounts(), std::slice::from_ref(&target), "bound once");
    }
    // The same place for another part: the old mount goes.
    assert_eq!(place.bind("folder/./file").unwrap(), target);
    assert_eq!(fs::read_to_string(&target).unwrap(), "text");
    assert_eq!(place.mounts(), [target]);
}

#[test]
fn missing_folders_are_made_with_the_mode_of_the_volume() {
    require_root();
    let place = Place::new();
    fs::set_permissions(place.volume(), fs::Permissions::from_mode(0o2777)).unwrap();
    let target = place.bind("a/b").unwrap();
    for made in ["a", "a/b"] {
        assert_eq!(fs::metadata(place.volume().join(made)).unwrap().mode() & 0o7777, 0o2777);
    }
    fs::write(target.join("x"), "").unwrap();
    assert!(place.volume().join("a/b/x").exists());
}

#[test]
fn links_inside_the_volume_are_followed() {
    require_root();
    let place = Place::new();
    fs::create_dir_all(place.volume().join("..2026")).unwrap();
    fs::write(place.volume().join("..2026/key"), "value").unwrap();
    symlink("..2026", place.volume().join("..data")).unwrap();
    symlink("..data/key", place.volume().join("key")).unwrap();
    assert_eq!(fs::read_to_string(place.bind("key").unwrap()).unwrap(), "value");
    symlink("..data", place.volume().join("dir")).unwrap();
    place.bind("dir/new").unwrap();
    assert!(place.volume().join("..2026/new").is_dir());
}

#[test]
fn nothing_leads_out_of_the_volume() {
    require_root();
    let place = Place::new();
    let outside = place.scratch.path().join("outside");
    symlink(&outside, place.volume().join("absolute")).unwrap();
    symlink("../outside", place.volume().join("relative")).unwrap();
    symlink("absolute", place.volume().join("twice")).unwrap();
    symlink("../outside/new", place.volume().join("dangling")).unwrap();
    symlink("/proc/self/root", place.volume().join("magic")).unwrap();
    symlink("loop", place.volume().join("loop")).unwrap();
    for path in [
        "absolute",
        "relative",
        "twice",
        "absolute/secret",
        "relative/secret",
        "absolute/new",
        "relative/a/b",
        "dangling",
        "dangling/x",
        "magic",
        "magic/etc",
        "loop",
        "..",
        "../outside",
        "x/../../outside",
        "/etc",
        "./../outside",
    ] {
        assert!(place.bind(path).is_err(), "{path} was bound");
    }
    assert_eq!(place.mounts(), Vec::<PathBuf>::new());
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1, "something was made outside");
}

#[test]
fn a_file_where_a_folder_is_needed_is_refused() {
    require_root();
    let place = Place::new();
    fs::write(place.volume().join("file"), "").unwrap();
    assert!(place.bind("file/below").is_err());
    fs::write(place.scratch.path().join("plain"), "").unwrap();
    assert!(bind(&place.pod, &part(&place.scratch.path().join("plain"), "x")).is_err());
    assert!(bind(&place.pod, &part(&place.scratch.path().join("missing"), "x")).is_err());
}

#[test]
fn pipes_and_devices_are_named_but_never_opened() {
    require_root();
    let place = Place::new();
    let pipe = place.volume().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
    // A reader of the pipe would wait here for ever.
    let target = place.bind("pipe").unwrap();
    assert!(fs::metadata(&target).unwrap().file_type().is_fifo());
    let device = place.volume().join("device");
    let null = rustix::fs::makedev(1, 3);
    if rustix::fs::mknodat(
        rustix::fs::CWD,
        &device,
        FileType::CharacterDevice,
        Mode::from_raw_mode(0o666),
        null,
    )
    .is_ok()
    {
        let target = place.bind("device").unwrap();
        assert!(fs::metadata(&target).unwrap().file_type().is_char_device());
        assert_eq!(fs::metadata(place.scratch.path().join("outside/secret")).unwrap().len(), 6);
    }
}

#[test]
fn swapping_a_folder_for_a_link_while_it_is_resolved_never_reaches_outside() {
    require_root();
    let place = Place::new();
    let (inside, link) = (place.volume().join("real"), place.volume().join("link"));
    fs::create_dir_all(inside.join("deep")).unwrap();
    symlink("../outside", &link).unwrap();
    fs::create_dir(place.scratch.path().join("outside/deep")).unwrap();
    let swapped = place.volume().join("swapped");
    fs::create_dir_all(swapped.join("deep")).unwrap();
    let done = AtomicBool::new(false);
    let (mut bound, mut refused, mut escaped) = (0, 0, false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // What a container does to win the race: the name is now a folder, now a link to the outside.
            while !done.load(Ordering::Acquire) {
                let _ = rustix::fs::renameat_with(
                    rustix::fs::CWD,
                    &swapped,
                    rustix::fs::CWD,
                    &link,
                    rustix::fs::RenameFlags::EXCHANGE,
                );
            }
        });
        let outside = fs::metadata(place.scratch.path().join("outside/deep")).unwrap().ino();
        // Until the race went both ways often enough to show something.
        for round in 0..200_000 {
            if bound > 20 && refused > 20 {
                break;
            }
            let path = if round % 2 == 0 { "swapped/deep" } else { "swapped/made" };
            match place.bind(path) {
                Ok(target) => {
                    bound += 1;
                    escaped |= fs::metadata(&target).is_ok_and(|found| found.ino() == outside);
                }
                Err(_) => refused += 1,
            }
            std::thread::yield_now();
        }
        done.store(true, Ordering::Release);
    });
    assert!(!escaped, "a folder outside was bound");
    assert!(bound > 20 && refused > 20, "{bound} bound, {refused} refused: no race was run");
    assert!(!place.scratch.path().join("outside/made").exists(), "a folder was made outside");
    assert_eq!(fs::read_to_string(place.scratch.path().join("outside/secret")).unwrap(), "secret");
}

#[test]
fn what_a_killed_agent_left_is_used_or_replaced() {
    require_root();
    let place = Place::new();
    fs::create_dir(place.volume().join("folder")).unwrap();
    fs::write(place.volume().join("file"), "x").unwrap();
    let parent = place.scratch.path().join("pod/volume-subpaths/v/main");
    // Killed after the mount point was made, for a part that is of another kind now.
    fs::create_dir_all(&parent).unwrap();
    fs::write(parent.join("3"), "").unwrap();
    assert!(place.bind("folder").unwrap().is_dir());
    rustix::mount::unmount(parent.join("3"), rustix::mount::UnmountFlags::empty()).unwrap();
    assert!(place.bind("file").unwrap().is_file());
}
