//! Memory of this process, as reported by the kernel and by the allocator.

use std::io;

use ports::host::profiler::MemoryFacts;

pub(super) fn read() -> io::Result<MemoryFacts> {
    let rollup = std::fs::read_to_string("/proc/self/smaps_rollup");
    // Kernels before 4.14 or without page statistics only have the shorter file.
    let text = rollup.or_else(|_| std::fs::read_to_string("/proc/self/status"))?;
    Ok(MemoryFacts { mapped: sizes(&text), allocator: allocator() })
}

/// The lines with a size, in bytes.
fn sizes(text: &str) -> Vec<(String, u64)> {
    let size = |line: &str| {
        let (name, value) = line.split_once(':')?;
        let kib: u64 = value.trim().strip_suffix(" kB")?.parse().ok()?;
        Some((name.to_owned(), kib.checked_mul(1024)?))
    };
    text.lines().filter_map(size).collect()
}

/// Sums over all arenas of glibc's allocator.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "glibc's own call; the standard library has none")]
fn allocator() -> Vec<(&'static str, u64)> {
    // SAFETY: mallinfo2 takes no arguments, locks the arenas itself and may be called from any thread.
    let info = unsafe { libc::mallinfo2() };
    let numbers = [
        ("in use, in arenas", info.uordblks),
        ("free, in arenas", info.fordblks),
        ("free at the end of the first arena, can be released", info.keepcost),
        ("total, in arenas", info.arena),
        ("in use, separately mapped", info.hblkhd),
    ];
    numbers.map(|(name, bytes)| (name, u64::try_from(bytes).unwrap_or(u64::MAX))).to_vec()
}

#[cfg(not(target_env = "gnu"))]
fn allocator() -> Vec<(&'static str, u64)> {
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn converts_sizes_to_bytes() {
        let text = "55f0-7ffe ---p 00000000 00:00 0 [rollup]\nRss:      2 kB\nTHPeligible: 0\nPss: x kB\n";
        assert_eq!(sizes(text), [("Rss".to_owned(), 2048)]);
    }

    #[test]
    fn reads_memory_of_this_process() {
        let facts = read().unwrap();
        assert!(facts.mapped.iter().any(|(name, bytes)| name == "Rss" && *bytes > 100_000), "{facts:?}");
        assert!(facts.allocator.is_empty() || facts.allocator[0].1 > 1000, "{facts:?}");
    }
}
