//! One-time settings and questions at start-up.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::mount::MountPropagationFlags;
use rustix::process::{Resource, Rlimit};

use crate::mount_table;

/// The name of this machine as nodes are called: lower case, without surrounding space.
///
/// # Errors
/// When the machine has no name.
pub fn hostname() -> io::Result<String> {
    let uname = rustix::system::uname();
    let name = uname.nodename().to_string_lossy().trim().to_lowercase();
    if name.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the machine has no host name"));
    }
    Ok(name)
}

/// Whether any swap is in use.
///
/// # Errors
/// When the kernel's list of swaps cannot be read; a kernel without swap has none.
pub fn swap_enabled() -> io::Result<bool> {
    match std::fs::read_to_string("/proc/swaps") {
        Ok(text) => Ok(lists_swaps(&text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether the kernel can keep a tmpfs out of swap, which Linux does since 6.4. Nothing is mounted to find out.
#[must_use]
pub fn tmpfs_stays_out_of_swap() -> bool {
    let asked = rustix::mount::fsopen("tmpfs", rustix::mount::FsOpenFlags::FSOPEN_CLOEXEC)
        .and_then(|tmpfs| rustix::mount::fsconfig_set_flag(tmpfs.as_fd(), "noswap"));
    asked.is_ok()
}

/// The size of all swap in bytes; none where the kernel does not tell.
#[must_use]
pub fn swap_capacity() -> u64 {
    swap_total(&std::fs::read_to_string("/proc/meminfo").unwrap_or_default())
}

/// `SwapTotal:      8388604 kB`
fn swap_total(meminfo: &str) -> u64 {
    let value = meminfo.lines().find_map(|line| line.strip_prefix("SwapTotal:")?.trim().strip_suffix("kB"));
    let kilobytes: Option<u64> = value.and_then(|value| value.trim().parse().ok());
    kilobytes.unwrap_or_default().saturating_mul(1024)
}

/// A heading, then one line for each swap.
fn lists_swaps(text: &str) -> bool {
    text.lines().skip(1).any(|line| !line.trim().is_empty())
}

/// Lets this process open up to `limit` files, or as many as it may. Never lowers the limit. Returns the
/// limit that holds now, `u64::MAX` for none.
pub fn raise_open_files(limit: u64) -> u64 {
    let now = rustix::process::getrlimit(Resource::Nofile);
    if now.current.is_none_or(|current| current >= limit) {
        return now.current.unwrap_or(u64::MAX);
    }
    // Only a privileged process may raise the upper bound; others make do with it.
    let wide = Rlimit { current: Some(limit), maximum: now.maximum.map(|maximum| maximum.max(limit)) };
    let narrow = Rlimit { current: Some(now.maximum.map_or(limit, |maximum| maximum.min(limit))), ..now };
    for wanted in [wide, narrow] {
        if rustix::process::setrlimit(Resource::Nofile, wanted).is_ok() {
            break;
        }
    }
    rustix::process::getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Sets how eagerly the kernel kills this process when memory runs out, -1000 (never) to 1000 (first).
///
/// # Errors
/// When the value is out of range or lowering it is not permitted.
pub fn set_oom_score_adj(value: i32) -> io::Result<()> {
    std::fs::write("/proc/self/oom_score_adj", value.to_string())
}

/// Makes mounts below a folder show up in the containers that see it: unless it lies on a shared mount
/// already, the folder is bind-mounted onto itself and that mount is shared.
///
/// # Errors
/// When the folder is missing or mounting is not permitted. Volumes with mount propagation will not work
/// then; everything else does.
pub fn make_rshared(path: &Path) -> io::Result<()> {
    let path = path.canonicalize()?;
    let mounts = mount_table::read(Path::new(mount_table::OWN)).map_err(|error| error.source)?;
    if mount_table::holding(&mounts, &path).is_some_and(|mount| mount.shared) {
        return Ok(());
    }
    let is_mount_point = mounts.iter().any(|mount| mount.mount_point == path);
    if !is_mount_point {
        // Recursive, so that volumes mounted below stay in sight.
        rustix::mount::mount_bind_recursive(&path, &path)?;
    }
    rustix::mount::mount_change(&path, MountPropagationFlags::SHARED | MountPropagationFlags::REC)?;
    Ok(())
}

/// The size from which a piece of memory is taken from the machine, and given back, on its own.
const LARGE: libc::c_int = 64 * 1024;

/// Lets the allocator keep two pools of memory instead of eight per core: what one thread frees, another uses again.
/// Large pieces stay out of the pools: what is long-lived would come to lie behind them, and then nothing of the pool
/// can be given back. To be called before threads are started.
#[expect(unsafe_code, reason = "glibc's own call; the standard library has none")]
pub fn share_memory_pools() {
    // SAFETY: mallopt takes two numbers and locks the allocator itself.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 2);
        // Without it the allocator raises the limit to the size of what it sees freed, up to 32 MiB.
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
    }
}

/// Hands memory that the allocator holds but nobody uses back to the machine.
#[expect(unsafe_code, reason = "glibc's own call; the standard library has none")]
pub fn give_memory_back() {
    // SAFETY: malloc_trim takes no pointers, locks the arenas itself and may be called from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Takes pages of the program's code, and of what the loader alone reads, out of this process, once its start is over.
/// They stay in the page cache, and what is needed comes back by itself; what only a start needs, most of it, does not.
#[expect(unsafe_code, reason = "no safe call can change mappings")]
pub fn drop_start_code() {
    let (Ok(maps), Ok(program)) =
        (std::fs::read_to_string("/proc/self/maps"), std::fs::read_link("/proc/self/exe"))
    else {
        return;
    };
    for code in code_mappings(&maps, &program.to_string_lossy()) {
        let start = std::ptr::with_exposed_provenance_mut(code.start);
        // SAFETY: the kernel says that this range is of our own program, mapped from its file and never written: a thread
        // that runs or reads there faults the same bytes in again. Advice that is not taken changes nothing.
        unsafe {
            libc::madvise(start, code.len(), libc::MADV_DONTNEED);
        }
    }
}

/// Where a program's code is mapped, and the beginning of its file, which holds a list of 30,000 addresses for the loader,
/// by the text of `/proc/self/maps`. Other parts that may only be read were written before, by the loader.
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
    use crate::scratch::{Scratch, require_root};

    #[test]
    fn code_is_what_is_mapped_from_the_program_and_never_written() {
        let maps = "1000-2000 r--p 00000000 fe:00 7 /bin/agent\n2000-5000 r-xp 00001000 fe:00 7 /bin/agent\n\
                    4000-5000 r--p 00003000 fe:00 7 /bin/agent\n5000-6000 rw-p 00004000 fe:00 7 /bin/agent\n7000-8000 rwxp 00000000 00:00 0\n\
                    9000-a000 r-xp 00000000 fe:00 8 /lib/libc.so.6\n";
        let found = code_mappings(maps, "/bin/agent");
        assert_eq!(found, [0x1000..0x2000, 0x2000..0x5000]);
        assert_eq!(code_mappings(maps, "/bin/other"), []);
    }

    #[test]
    fn a_program_goes_on_after_its_code_was_dropped() {
        let program = std::fs::read_link("/proc/self/exe").unwrap();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        assert_eq!(code_mappings(&maps, &program.to_string_lossy()).len(), 2);
        drop_start_code();
        assert_eq!(swap_total("SwapTotal: 1 kB\n"), 1024);
    }

    #[test]
    fn swap_is_read_from_the_kernels_summary() {
        assert_eq!(swap_total("MemTotal: 8 kB\nSwapTotal:       2048 kB\nSwapFree: 1 kB\n"), 2 << 20);
        assert_eq!(swap_total("MemTotal: 8 kB\n"), 0);
    }

    #[test]
    fn answers_about_this_machine() {
        let name = hostname().unwrap();
        assert_eq!(name, name.trim().to_lowercase());
        swap_enabled().unwrap();
    }

    /// Not held against the kernel's version: vendors bring the option to older ones, and who may not mount has none.
    #[test]
    fn a_tmpfs_stays_out_of_swap_if_one_can_be_mounted_like_that() {
        let scratch = Scratch::new();
        let flags = rustix::mount::MountFlags::empty();
        let mounted = rustix::mount::mount("tmpfs", scratch.path(), "tmpfs", flags, c"noswap");
        let table = mount_table::read(Path::new(mount_table::OWN)).unwrap();
        if mounted.is_ok() {
            rustix::mount::unmount(scratch.path(), rustix::mount::UnmountFlags::DETACH).unwrap();
            let mount = mount_table::mounted_at(&table, &scratch.path().canonicalize().unwrap()).unwrap();
            assert!(mount.super_options.split(',').any(|option| option == "noswap"), "{mount:?}");
        }
        assert_eq!(tmpfs_stays_out_of_swap(), mounted.is_ok(), "{mounted:?}");
    }

    #[test]
    fn tells_swaps_from_their_heading() {
        let heading = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n";
        assert!(!lists_swaps(heading));
        assert!(!lists_swaps(""));
        assert!(lists_swaps(&format!("{heading}/dev/zram0 partition 1 0 100\n")));
    }

    #[test]
    fn raises_and_never_lowers_the_number_of_open_files() {
        let before = raise_open_files(0);
        assert_eq!(raise_open_files(1), before);
        let hard = rustix::process::getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
        let wanted = before.saturating_add(1).min(hard);
        assert_eq!(raise_open_files(wanted), wanted);
        assert!(raise_open_files(u64::MAX - 1) >= wanted, "asking for too much must not fail");
    }

    #[test]
    fn oom_score_must_be_in_range() {
        let now: i32 = std::fs::read_to_string("/proc/self/oom_score_adj").unwrap().trim().parse().unwrap();
        set_oom_score_adj(now).unwrap();
        assert!(set_oom_score_adj(1001).is_err());
    }

    #[test]
    fn sharing_a_folder_twice_mounts_it_once_and_keeps_mounts_below() {
        require_root();
        let scratch = Scratch::new();
        let root = scratch.path().join("kubelet");
        let below = root.join("below");
        std::fs::create_dir_all(&below).unwrap();
        rustix::mount::mount("tmpfs", &below, "tmpfs", rustix::mount::MountFlags::empty(), None).unwrap();
        std::fs::write(below.join("file"), "x").unwrap();
        for _ in 0..2 {
            make_rshared(&root).unwrap();
            let mounts = mount_table::read(Path::new(mount_table::OWN)).unwrap();
            assert!(mount_table::holding(&mounts, &root.join("x")).unwrap().shared);
            assert!(mounts.iter().filter(|mount| mount.mount_point == root).count() <= 1);
            assert!(below.join("file").exists());
        }
        assert!(make_rshared(&scratch.path().join("missing")).is_err());
    }
}
