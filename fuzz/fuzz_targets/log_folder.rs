//! Any text: an accepted log folder name round-trips through its parts.
#![no_main]

use libfuzzer_sys::fuzz_target;
use model::LogFolder;

fuzz_target!(|name: &str| {
    if let Some(folder) = LogFolder::parse(name) {
        assert_eq!(folder.file_name(), name);
        assert_eq!(LogFolder::parse(&folder.file_name()), Some(folder));
    }
});
