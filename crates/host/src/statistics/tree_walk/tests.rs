use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use super::*;
use crate::test_folder::Scratch;

fn measure(path: &Path) -> TreeUse {
    tree_use(path, Instant::now() + Duration::from_secs(60)).unwrap()
}

fn blocks(path: &Path) -> u64 {
    fs::symlink_metadata(path).unwrap().blocks() * BLOCK_BYTES
}

/// Creates folders inside each other, each with a file of one byte, and returns the innermost one.
fn nest(scratch: &Scratch, depth: usize, name: &str) -> OwnedFd {
    let mut folder = rustix::fs::open(scratch.path(), FOLDER, Mode::empty()).unwrap();
    for _ in 0..depth {
        rustix::fs::mkdirat(&folder, name, Mode::from_raw_mode(0o755)).unwrap();
        let file = OFlags::CREATE | OFlags::WRONLY;
        let file = rustix::fs::openat(&folder, "zz-file", file, Mode::from_raw_mode(0o600)).unwrap();
        rustix::io::write(&file, b"x").unwrap();
        folder = rustix::fs::openat(&folder, name, FOLDER, Mode::empty()).unwrap();
    }
    folder
}

#[test]
fn tree_use_counts_hard_links_once_and_does_not_follow_symlinks() {
    let scratch = Scratch::new();
    let top = scratch.path();
    scratch.write("in/a", &"1".repeat(8192));
    fs::hard_link(top.join("in/a"), top.join("b")).unwrap();
    std::os::unix::fs::symlink("/", top.join("away")).unwrap();
    let expected =
        ["in", "in/a", "away"].iter().map(|path| blocks(&top.join(path))).sum::<u64>() + blocks(top);
    let used = DiskUse { bytes: expected, inodes: 4 };
    assert_eq!(measure(top), TreeUse { used, is_complete: true });
    let used = DiskUse { bytes: blocks(&top.join("b")), inodes: 1 };
    assert_eq!(measure(&top.join("b")), TreeUse { used, is_complete: true });
    assert_eq!(tree_use(&top.join("missing"), Instant::now()), None);
}

#[test]
fn tree_deeper_than_paths_and_descriptors_reach_is_counted_completely() {
    let scratch = Scratch::new();
    nest(&scratch, 3000, "a-folder-with-a-rather-long-name");
    let found = measure(scratch.path());
    assert_eq!((found.used.inodes, found.is_complete), (1 + 2 * 3000, true));
    assert!(found.used.bytes >= 3000 * 4096, "{found:?}");
}

#[test]
fn siblings_of_deep_folders_are_counted_once() {
    let scratch = Scratch::new();
    for number in 0..3 {
        for depth in 0..40 {
            scratch.write(&format!("{number}/{}file", "down/".repeat(depth)), "x");
        }
    }
    assert_eq!(measure(scratch.path()).used.inodes, 1 + 3 * (40 + 40));
}

#[test]
fn walk_past_its_deadline_returns_what_it_counted() {
    let scratch = Scratch::new();
    scratch.write("a", "x");
    let found = tree_use(scratch.path(), Instant::now()).unwrap();
    assert_eq!((found.used.inodes, found.is_complete), (1, false));
}

#[test]
fn names_that_are_no_utf8_are_counted() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path().join(OsStr::from_bytes(b"\xff\xfe"))).unwrap();
    fs::write(scratch.path().join(OsStr::from_bytes(b"\xff\xfe/\xff")), "x").unwrap();
    assert_eq!(measure(scratch.path()).used.inodes, 3);
}

#[test]
fn folder_that_was_moved_during_the_walk_makes_it_incomplete() {
    let scratch = Scratch::new();
    scratch.write("parent/child/file", "x");
    let open = |path: &str| {
        let folder = rustix::fs::open(scratch.path().join(path), FOLDER, Mode::empty()).unwrap();
        open_folder(&folder).unwrap()
    };
    let (mut parent, child) = (open("parent"), open("parent/child"));
    parent.entries = None;
    fs::rename(scratch.path().join("parent/child"), scratch.path().join("child")).unwrap();
    assert!(reopen(&mut parent, &child).is_none());
}
