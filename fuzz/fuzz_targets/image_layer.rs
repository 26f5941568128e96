//! Any bytes as a layer: refused or unpacked, and nothing outside of its folder changes.
#![no_main]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use runtime::images::{Limits, extract};

const TEXT: &str = "text";

fuzz_target!(|archive: &[u8]| {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (root, lower, outside) =
        (folder.path().join("root"), folder.path().join("lower"), folder.path().join("outside"));
    for path in [&root, &lower, &outside] {
        fs::create_dir(path).expect("a new folder");
    }
    fs::write(outside.join("file"), TEXT).expect("a new file");
    // A lower layer that leads out.
    symlink("../outside", lower.join("link")).expect("a new link");
    symlink(&outside, lower.join("absolute")).expect("a new link");
    let limits = Limits { entries: 64, bytes: 1 << 20 };
    if let Ok((extracted, _)) = extract(archive, &root, &[lower], limits) {
        assert!(extracted.entries <= limits.entries && extracted.bytes <= limits.bytes);
    }
    assert_eq!(names(folder.path()), ["lower", "outside", "root"]);
    assert_eq!(names(&outside), ["file"]);
    assert_eq!(fs::read_to_string(outside.join("file")).expect("the file outside"), TEXT);
});

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
