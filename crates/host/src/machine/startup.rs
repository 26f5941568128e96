//! Checks and process settings at startup.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::mount::MountPropagationFlags;
use rustix::process::{Resource, Rlimit};

use crate::errors::IfExists;
use crate::machine::meminfo_bytes;
use crate::mount_table;

/// The host name as a node name: lower case, without surrounding spaces.
///
/// # Errors
/// If the machine has no host name.
pub fn hostname() -> io::Result<String> {
    let uname = rustix::system::uname();
    let name = uname.nodename().to_string_lossy().trim().to_lowercase();
    if name.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the machine has no host name"));
    }
    Ok(name)
}

/// Whether swap is enabled.
///
/// # Errors
/// If `/proc/swaps` exists and cannot be read.
pub fn swap_enabled() -> io::Result<bool> {
    Ok(std::fs::read_to_string("/proc/swaps").if_exists()?.is_some_and(|text| lists_swaps(&text)))
}

/// Whether the kernel supports the tmpfs option `noswap` (Linux 6.4). Does not mount anything.
#[must_use]
pub fn tmpfs_supports_noswap() -> bool {
    let result = rustix::mount::fsopen("tmpfs", rustix::mount::FsOpenFlags::FSOPEN_CLOEXEC)
        .and_then(|tmpfs| rustix::mount::fsconfig_set_flag(tmpfs.as_fd(), "noswap"));
    result.is_ok()
}

/// The total swap in bytes; 0 if unknown.
#[must_use]
pub fn swap_capacity() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    meminfo_bytes(&text, "SwapTotal:").unwrap_or_default()
}

/// The file has a heading, then one line per swap area.
fn lists_swaps(text: &str) -> bool {
    text.lines().skip(1).any(|line| !line.trim().is_empty())
}

/// Raises the limit of open files to `limit`, or as far as permitted. Never lowers it. Returns the limit in force,
/// `u64::MAX` for none.
pub fn raise_open_file_limit(limit: u64) -> u64 {
    let now = rustix::process::getrlimit(Resource::Nofile);
    if now.current.is_none_or(|current| current >= limit) {
        return now.current.unwrap_or(u64::MAX);
    }
    // Only a privileged process may raise the hard limit.
    let raised_hard_limit =
        Rlimit { current: Some(limit), maximum: now.maximum.map(|maximum| maximum.max(limit)) };
    let within_hard_limit =
        Rlimit { current: Some(now.maximum.map_or(limit, |maximum| maximum.min(limit))), ..now };
    for limits in [raised_hard_limit, within_hard_limit] {
        if rustix::process::setrlimit(Resource::Nofile, limits).is_ok() {
            break;
        }
    }
    rustix::process::getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Whether this process runs in a user namespace, where root lacks privileges on the machine. `uid_map` is usually
/// `/proc/self/uid_map`.
#[must_use]
pub fn in_user_namespace(uid_map: &Path) -> bool {
    // The initial namespace maps all users to themselves. Without a file the kernel has no namespaces.
    let Ok(map) = std::fs::read_to_string(uid_map) else { return false };
    let words: Vec<&str> = map.split_whitespace().collect();
    words != ["0", "0", "4294967295"]
}

/// Sets the OOM score adjustment of this process, from -1000 (never killed) to 1000 (killed first).
///
/// # Errors
/// If the value is out of range, or lowering it is not permitted.
pub fn set_oom_score_adj(value: i32) -> io::Result<()> {
    std::fs::write("/proc/self/oom_score_adj", value.to_string())
}

/// Makes mounts below a folder propagate to containers: unless the folder is on a shared mount, bind-mounts it onto
/// itself and shares that mount.
///
/// # Errors
/// If the folder is missing or mounting is not permitted. Then volumes with mount propagation do not work; everything
/// else does.
pub fn make_rshared(path: &Path) -> io::Result<()> {
    let path = path.canonicalize()?;
    let mounts = mount_table::table().map_err(|error| error.source)?;
    if mount_table::containing(&mounts, &path).is_some_and(|mount| mount.shared) {
        return Ok(());
    }
    let is_mount_point = mounts.iter().any(|mount| mount.mount_point == path);
    if !is_mount_point {
        // Recursive, so that volumes mounted below stay visible.
        rustix::mount::mount_bind_recursive(&path, &path)?;
    }
    rustix::mount::mount_change(&path, MountPropagationFlags::SHARED | MountPropagationFlags::REC)?;
    Ok(())
}

/// Allocations of at least this size are mapped and unmapped separately.
const MMAP_THRESHOLD_BYTES: libc::c_int = 64 * 1024;

/// Limits glibc's allocator to two arenas instead of eight per core, so that threads reuse each other's memory. Keeps
/// large allocations out of the arenas: a long-lived allocation behind them would keep the arena from shrinking. Call
/// this before threads are started.
#[expect(unsafe_code, reason = "a glibc function without a safe wrapper")]
pub fn limit_malloc_arenas() {
    // SAFETY: mallopt takes two numbers and locks the allocator.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 2);
        // Otherwise the allocator raises the threshold to the size of freed allocations, up to 32 MiB.
        libc::mallopt(libc::M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES);
    }
}

/// Returns unused memory of the allocator to the kernel.
#[expect(unsafe_code, reason = "a glibc function without a safe wrapper")]
pub fn release_free_memory() {
    // SAFETY: malloc_trim takes no pointers, locks the arenas and may be called from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Unmaps pages of the program's code and of the loader's data after startup. The pages stay in the page cache and are
/// mapped again on access; most are only needed during startup.
#[expect(unsafe_code, reason = "no safe function changes mappings")]
pub fn release_startup_pages() {
    let (Ok(maps), Ok(program)) =
        (std::fs::read_to_string("/proc/self/maps"), std::fs::read_link("/proc/self/exe"))
    else {
        return;
    };
    for code in code_mappings(&maps, &program.to_string_lossy()) {
        let start = std::ptr::with_exposed_provenance_mut(code.start);
        // SAFETY: the range is mapped from the program file and never written: a thread that runs or reads there faults the
        // same bytes in again. If the kernel ignores the advice, nothing changes.
        unsafe {
            libc::madvise(start, code.len(), libc::MADV_DONTNEED);
        }
    }
}

/// The mappings of a program's code and of the beginning of its file, which contains 30,000 relocations for the loader,
/// from the text of `/proc/self/maps`. The loader has written to the other read-only mappings.
fn code_mappings(maps: &str, program: &str) -> Vec<std::ops::Range<usize>> {
    let code = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let (range, access) = (fields.next()?, fields.next()?);
        let (offset, path) = (fields.next()?, fields.nth(2)?);
        let (start, end) = range.split_once('-')?;
        let range = usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?;
        let is_beginning = access == "r--p" && offset.bytes().all(|digit| digit == b'0');
        ((access == "r-xp" || is_beginning) && path == program).then_some(range)
    };
    maps.lines().filter_map(code).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_folder::{Scratch, require_root};

    #[test]
    fn user_namespace_has_other_ids_than_the_machine() {
        let scratch = Scratch::new();
        let map = scratch.path().join("uid_map");
        for (text, expected) in [
            ("         0          0 4294967295\n", false),
            ("         0       1000          1\n", true),
            ("         0          0      65536\n", true),
            ("0 1000 1\n1 100000 65536\n", true),
        ] {
            std::fs::write(&map, text).unwrap();
            assert_eq!(in_user_namespace(&map), expected, "{text}");
        }
        assert!(!in_user_namespace(&scratch.path().join("missing")));
    }

    #[test]
    fn finds_mappings_of_the_program_that_are_never_written() {
        let maps = "1000-2000 r--p 00000000 fe:00 7 /bin/agent\n2000-5000 r-xp 00001000 fe:00 7 /bin/agent\n\
                    4000-5000 r--p 00003000 fe:00 7 /bin/agent\n5000-6000 rw-p 00004000 fe:00 7 /bin/agent\n7000-8000 rwxp 00000000 00:00 0\n\
                    9000-a000 r-xp 00000000 fe:00 8 /lib/libc.so.6\n";
        let found = code_mappings(maps, "/bin/agent");
        assert_eq!(found, [0x1000..0x2000, 0x2000..0x5000]);
        assert_eq!(code_mappings(maps, "/bin/other"), []);
    }

    #[test]
    fn program_continues_after_its_pages_were_released() {
        let program = std::fs::read_link("/proc/self/exe").unwrap();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        assert_eq!(code_mappings(&maps, &program.to_string_lossy()).len(), 2);
        release_startup_pages();
        assert_eq!(meminfo_bytes("SwapTotal: 1 kB\n", "SwapTotal:"), Some(1024));
    }

    #[test]
    fn parses_total_swap() {
        let text = "MemTotal: 8 kB\nSwapTotal:       2048 kB\nSwapFree: 1 kB\n";
        assert_eq!(meminfo_bytes(text, "SwapTotal:"), Some(2 << 20));
        assert_eq!(meminfo_bytes("MemTotal: 8 kB\n", "SwapTotal:"), None);
    }

    #[test]
    fn reads_hostname_and_swap_state() {
        let name = hostname().unwrap();
        assert_eq!(name, name.trim().to_lowercase());
        swap_enabled().unwrap();
    }

    /// Does not compare with the kernel version: vendors backport the option, and it needs the permission to mount.
    #[test]
    fn noswap_support_matches_an_actual_mount() {
        let scratch = Scratch::new();
        let flags = rustix::mount::MountFlags::empty();
        let mounted = rustix::mount::mount("tmpfs", scratch.path(), "tmpfs", flags, c"noswap");
        let table = mount_table::table().unwrap();
        if mounted.is_ok() {
            rustix::mount::unmount(scratch.path(), rustix::mount::UnmountFlags::DETACH).unwrap();
            let mount = mount_table::mounted_at(&table, &scratch.path().canonicalize().unwrap()).unwrap();
            assert!(mount.super_options.split(',').any(|option| option == "noswap"), "{mount:?}");
        }
        assert_eq!(tmpfs_supports_noswap(), mounted.is_ok(), "{mounted:?}");
    }

    #[test]
    fn distinguishes_swaps_from_the_heading() {
        let heading = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n";
        assert!(!lists_swaps(heading));
        assert!(!lists_swaps(""));
        assert!(lists_swaps(&format!("{heading}/dev/zram0 partition 1 0 100\n")));
    }

    #[test]
    fn raises_and_never_lowers_the_open_file_limit() {
        let before = raise_open_file_limit(0);
        assert_eq!(raise_open_file_limit(1), before);
        let hard = rustix::process::getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
        let raised = before.saturating_add(1).min(hard);
        assert_eq!(raise_open_file_limit(raised), raised);
        assert!(raise_open_file_limit(u64::MAX - 1) >= raised, "a limit that is too high must not fail");
    }

    #[test]
    fn oom_score_must_be_in_range() {
        let now: i32 = std::fs::read_to_string("/proc/self/oom_score_adj").unwrap().trim().parse().unwrap();
        set_oom_score_adj(now).unwrap();
        assert!(set_oom_score_adj(1001).is_err());
    }

    #[test]
    #[ignore = "needs root"]
    fn sharing_twice_mounts_once_and_keeps_mounts_below() {
        require_root();
        let scratch = Scratch::new();
        let root = scratch.path().join("kubelet");
        let below = root.join("below");
        std::fs::create_dir_all(&below).unwrap();
        rustix::mount::mount("tmpfs", &below, "tmpfs", rustix::mount::MountFlags::empty(), None).unwrap();
        std::fs::write(below.join("file"), "x").unwrap();
        for _ in 0..2 {
            make_rshared(&root).unwrap();
            let mounts = mount_table::table().unwrap();
            assert!(mount_table::containing(&mounts, &root.join("x")).unwrap().shared);
            assert!(mounts.iter().filter(|mount| mount.mount_point == root).count() <= 1);
            assert!(below.join("file").exists());
        }
        assert!(make_rshared(&scratch.path().join("missing")).is_err());
    }
}
