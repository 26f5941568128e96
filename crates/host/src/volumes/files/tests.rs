use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use super::*;
use crate::test_folder::{Scratch, require_root};

const NOW: Timestamp = Timestamp::from_nanos(1_767_323_045_000_000_007);

fn file(path: &str, content: &str) -> ProjectedFile {
    ProjectedFile { path: path.into(), content: content.into(), mode: 0o644, owner: None }
}

fn volume(scratch: &Scratch) -> Folder {
    Folder::open(scratch.path()).unwrap().unwrap()
}

fn put(scratch: &Scratch, files: &[ProjectedFile]) {
    write(&volume(scratch), files, NOW, || Ok(())).unwrap();
}

/// Names, with the target of links.
fn listing(scratch: &Scratch) -> Vec<(String, String)> {
    let mut entries: Vec<_> = fs::read_dir(scratch.path())
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let target = fs::read_link(entry.path()).map(|path| path.display().to_string());
            (entry.file_name().into_string().unwrap(), target.unwrap_or_default())
        })
        .collect();
    entries.sort();
    entries
}

fn pairs(entries: &[(&str, &str)]) -> Vec<(String, String)> {
    entries.iter().map(|(name, target)| ((*name).to_owned(), (*target).to_owned())).collect()
}

#[test]
fn files_are_visible_through_the_data_link() {
    let scratch = Scratch::new();
    put(&scratch, &[file("key", "v"), file("deep/er/key", "w")]);
    let folder = "..2026_01_02_03_04_05.7";
    assert_eq!(
        listing(&scratch),
        pairs(&[(folder, ""), ("..data", folder), ("deep", "..data/deep"), ("key", "..data/key")])
    );
    assert_eq!(fs::read_to_string(scratch.path().join("deep/er/key")).unwrap(), "w");
    assert_eq!(fs::metadata(scratch.path().join(folder)).unwrap().mode() & 0o7777, 0o755);
}

#[test]
fn does_not_rewrite_unchanged_files() {
    let scratch = Scratch::new();
    put(&scratch, &[file("a", "1"), file("b/c", "2")]);
    let before = (listing(&scratch), fs::metadata(scratch.path().join("b/c")).unwrap().ino());
    write(&volume(&scratch), &[file("b/c", "2"), file("a", "1")], NOW, || panic!("written again")).unwrap();
    assert_eq!((listing(&scratch), fs::metadata(scratch.path().join("b/c")).unwrap().ino()), before);
}

#[test]
fn change_replaces_all_files_and_removes_deleted_ones() {
    let scratch = Scratch::new();
    put(&scratch, &[file("a", "1"), file("b", "2"), file("dir/x", "3"), file("dir/y", "4")]);
    put(&scratch, &[file("a", "1"), file("dir/y", "4"), file("new", "5")]);
    let folder = "..2026_01_02_03_04_05.8";
    assert_eq!(
        listing(&scratch),
        pairs(&[
            (folder, ""),
            ("..data", folder),
            ("a", "..data/a"),
            ("dir", "..data/dir"),
            ("new", "..data/new")
        ])
    );
    assert!(!scratch.path().join("dir/x").exists());
    put(&scratch, &[]);
    assert_eq!(listing(&scratch).len(), 2);
}

#[test]
#[ignore = "needs root"]
fn sets_modes_and_owners_before_files_are_visible() {
    require_root();
    let scratch = Scratch::new();
    let secret = ProjectedFile { mode: 0o400, owner: Some(1234), ..file("token", "t") };
    let seen = scratch.path().join("token");
    write(&volume(&scratch), &[secret], NOW, || {
        assert!(!seen.exists());
        let stat = fs::metadata(scratch.path().join("..2026_01_02_03_04_05.7/token")).unwrap();
        assert_eq!((stat.mode() & 0o7777, stat.uid()), (0o400, 1234));
        Ok(())
    })
    .unwrap();
    assert_eq!(fs::symlink_metadata(&seen).unwrap().uid(), 1234);
}

#[test]
fn next_write_completes_an_interrupted_write() {
    // The state on disk after each step of replacing {a, b} by {a, c}.
    type Step = fn(&Scratch);
    let steps: [(&str, Step); 5] = [
        ("folder made", |scratch| fs::create_dir(scratch.path().join("..new")).unwrap()),
        ("half written", |scratch| fs::write(scratch.path().join("..new/a"), "hal").unwrap()),
        ("second link made", |scratch| {
            fs::write(scratch.path().join("..new/a"), "half").unwrap();
            fs::write(scratch.path().join("..new/c"), "3").unwrap();
            symlink("..new", scratch.path().join("..data_tmp")).unwrap();
        }),
        ("link turned", |scratch| {
            fs::rename(scratch.path().join("..data_tmp"), scratch.path().join("..data")).unwrap();
        }),
        ("new names linked", |scratch| symlink("..data/c", scratch.path().join("c")).unwrap()),
    ];
    for killed_after in 0..steps.len() {
        let scratch = Scratch::new();
        put(&scratch, &[file("a", "1"), file("b", "2")]);
        for (_, step) in &steps[..=killed_after] {
            step(&scratch);
        }
        put(&scratch, &[file("a", "half"), file("c", "3")]);
        let what = steps[killed_after].0;
        let names: Vec<_> = listing(&scratch).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), 4, "{what}: {names:?}");
        assert_eq!(fs::read_to_string(scratch.path().join("a")).unwrap(), "half", "{what}");
        assert_eq!(fs::read_to_string(scratch.path().join("c")).unwrap(), "3", "{what}");
        assert!(fs::symlink_metadata(scratch.path().join("b")).is_err(), "{what}");
    }
}

#[test]
fn readers_always_find_files_during_replacement() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let scratch = Scratch::new();
    put(&scratch, &[file("a", "0"), file("b", "0")]);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..300 {
                let text = round.to_string();
                let now = Timestamp::from_secs(round);
                write(&volume(&scratch), &[file("a", &text), file("b", &text)], now, || Ok(())).unwrap();
            }
            done.store(true, Ordering::Release);
        });
        // A reader of one folder sees one version of the files, or a removed folder, never a mixture.
        while !done.load(Ordering::Acquire) {
            let target = fs::read_link(scratch.path().join("..data")).expect("the link always exists");
            let folder = scratch.path().join(target);
            let both = (fs::read_to_string(folder.join("a")), fs::read_to_string(folder.join("b")));
            if let (Ok(a), Ok(b)) = both {
                assert_eq!(a, b);
            }
        }
    });
}

#[test]
fn rejects_paths_outside_of_the_volume_and_reserved_names() {
    let scratch = Scratch::new();
    let long = "x".repeat(256);
    for path in ["", "/etc/x", "a/../../b", "..", "..data", "./..data/x", "..x/y", ".", long.as_str()] {
        let result = write(&volume(&scratch), &[file(path, "x")], NOW, || Ok(()));
        assert!(result.is_err(), "{path:?} was accepted");
    }
    assert_eq!(listing(&scratch), []);
    put(&scratch, &[file(".hidden", "x"), file("a//b", "y"), file("a/..c", "z")]);
    assert_eq!(fs::read_to_string(scratch.path().join("a/b")).unwrap(), "y");
}

#[test]
fn keeps_mount_points_and_foreign_files() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path().join("mounted-here")).unwrap();
    symlink("/nowhere", scratch.path().join("foreign")).unwrap();
    put(&scratch, &[file("a", "1")]);
    put(&scratch, &[file("b", "1")]);
    assert!(scratch.path().join("mounted-here").is_dir());
    assert!(fs::read_link(scratch.path().join("foreign")).is_ok());
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o755)).unwrap();
}
