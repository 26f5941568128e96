use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::mount_table;
use crate::test_folder::{Scratch, require_root};

/// A pod folder, a volume, and a secret outside of the volume.
struct Fixture {
    scratch: Scratch,
    pod: Folder,
}

impl Fixture {
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
        bind(&self.pod, &sub_path(&self.volume(), path))
    }

    fn mounts(&self) -> Vec<PathBuf> {
        let table = mount_table::read(Path::new(mount_table::OWN)).unwrap();
        let found = mount_table::at_or_below(&table, self.scratch.path());
        found.into_iter().map(|mount| mount.mount_point.clone()).collect()
    }
}

fn sub_path(volume: &Path, path: &str) -> SubPath {
    SubPath {
        volume: "v".into(),
        volume_path: volume.to_path_buf(),
        path: path.into(),
        container: "main".into(),
        index: 3,
    }
}

#[test]
#[ignore = "needs root"]
fn binds_folders_and_files_in_upstream_location() {
    require_root();
    let fixture = Fixture::new();
    fs::create_dir(fixture.volume().join("folder")).unwrap();
    fs::write(fixture.volume().join("folder/file"), "text").unwrap();
    let target = fixture.bind("folder").unwrap();
    assert_eq!(target, fixture.scratch.path().join("pod/volume-subpaths/v/main/3"));
    assert_eq!(fs::read_to_string(target.join("file")).unwrap(), "text");
    for _ in 0..2 {
        assert_eq!(fixture.bind("folder").unwrap(), target);
        assert_eq!(fixture.mounts(), std::slice::from_ref(&target), "bound once");
    }
    // Another subpath with the same mount point replaces the mount.
    assert_eq!(fixture.bind("folder/./file").unwrap(), target);
    assert_eq!(fs::read_to_string(&target).unwrap(), "text");
    assert_eq!(fixture.mounts(), [target]);
}

#[test]
#[ignore = "needs root"]
fn creates_missing_folders_with_the_mode_of_the_volume() {
    require_root();
    let fixture = Fixture::new();
    fs::set_permissions(fixture.volume(), fs::Permissions::from_mode(0o2777)).unwrap();
    let target = fixture.bind("a/b").unwrap();
    for made in ["a", "a/b"] {
        assert_eq!(fs::metadata(fixture.volume().join(made)).unwrap().mode() & 0o7777, 0o2777);
    }
    fs::write(target.join("x"), "").unwrap();
    assert!(fixture.volume().join("a/b/x").exists());
}

#[test]
#[ignore = "needs root"]
fn follows_links_inside_the_volume() {
    require_root();
    let fixture = Fixture::new();
    fs::create_dir_all(fixture.volume().join("..2026")).unwrap();
    fs::write(fixture.volume().join("..2026/key"), "value").unwrap();
    symlink("..2026", fixture.volume().join("..data")).unwrap();
    symlink("..data/key", fixture.volume().join("key")).unwrap();
    assert_eq!(fs::read_to_string(fixture.bind("key").unwrap()).unwrap(), "value");
    symlink("..data", fixture.volume().join("dir")).unwrap();
    fixture.bind("dir/new").unwrap();
    assert!(fixture.volume().join("..2026/new").is_dir());
}

#[test]
#[ignore = "needs root"]
fn rejects_paths_that_leave_the_volume() {
    require_root();
    let fixture = Fixture::new();
    let outside = fixture.scratch.path().join("outside");
    symlink(&outside, fixture.volume().join("absolute")).unwrap();
    symlink("../outside", fixture.volume().join("relative")).unwrap();
    symlink("absolute", fixture.volume().join("twice")).unwrap();
    symlink("../outside/new", fixture.volume().join("dangling")).unwrap();
    symlink("/proc/self/root", fixture.volume().join("magic")).unwrap();
    symlink("loop", fixture.volume().join("loop")).unwrap();
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
        assert!(fixture.bind(path).is_err(), "{path} was bound");
    }
    assert_eq!(fixture.mounts(), Vec::<PathBuf>::new());
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1, "something was created outside");
}

#[test]
#[ignore = "needs root"]
fn rejects_a_file_as_parent_folder() {
    require_root();
    let fixture = Fixture::new();
    fs::write(fixture.volume().join("file"), "").unwrap();
    assert!(fixture.bind("file/below").is_err());
    fs::write(fixture.scratch.path().join("plain"), "").unwrap();
    assert!(bind(&fixture.pod, &sub_path(&fixture.scratch.path().join("plain"), "x")).is_err());
    assert!(bind(&fixture.pod, &sub_path(&fixture.scratch.path().join("missing"), "x")).is_err());
}

#[test]
#[ignore = "needs root"]
fn binds_fifos_and_devices_without_opening_them() {
    require_root();
    let fixture = Fixture::new();
    let pipe = fixture.volume().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
    // Opening the FIFO would block forever.
    let target = fixture.bind("pipe").unwrap();
    assert!(fs::metadata(&target).unwrap().file_type().is_fifo());
    let device = fixture.volume().join("device");
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
        let target = fixture.bind("device").unwrap();
        assert!(fs::metadata(&target).unwrap().file_type().is_char_device());
        assert_eq!(fs::metadata(fixture.scratch.path().join("outside/secret")).unwrap().len(), 6);
    }
}

#[test]
#[ignore = "needs root"]
fn swapping_a_folder_for_a_link_during_resolution_never_escapes() {
    require_root();
    let fixture = Fixture::new();
    let (inside, link) = (fixture.volume().join("real"), fixture.volume().join("link"));
    fs::create_dir_all(inside.join("deep")).unwrap();
    symlink("../outside", &link).unwrap();
    fs::create_dir(fixture.scratch.path().join("outside/deep")).unwrap();
    let swapped = fixture.volume().join("swapped");
    fs::create_dir_all(swapped.join("deep")).unwrap();
    let done = AtomicBool::new(false);
    let (mut bound, mut refused, mut escaped) = (0, 0, false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // A container tries to win the race by swapping a folder with a link to the outside.
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
        let outside = fs::metadata(fixture.scratch.path().join("outside/deep")).unwrap().ino();
        // Until both outcomes occurred often enough.
        for round in 0..200_000 {
            if bound > 20 && refused > 20 {
                break;
            }
            let path = if round % 2 == 0 { "swapped/deep" } else { "swapped/made" };
            match fixture.bind(path) {
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
    assert!(bound > 20 && refused > 20, "{bound} bound, {refused} refused: there was no race");
    assert!(!fixture.scratch.path().join("outside/made").exists(), "a folder was created outside");
    assert_eq!(fs::read_to_string(fixture.scratch.path().join("outside/secret")).unwrap(), "secret");
}

#[test]
#[ignore = "needs root"]
fn reuses_or_replaces_leftovers_of_a_killed_agent() {
    require_root();
    let fixture = Fixture::new();
    fs::create_dir(fixture.volume().join("folder")).unwrap();
    fs::write(fixture.volume().join("file"), "x").unwrap();
    let parent = fixture.scratch.path().join("pod/volume-subpaths/v/main");
    // The agent was killed after it created the mount point of a subpath that now has another type.
    fs::create_dir_all(&parent).unwrap();
    fs::write(parent.join("3"), "").unwrap();
    assert!(fixture.bind("folder").unwrap().is_dir());
    rustix::mount::unmount(parent.join("3"), rustix::mount::UnmountFlags::empty()).unwrap();
    assert!(fixture.bind("file").unwrap().is_file());
}
