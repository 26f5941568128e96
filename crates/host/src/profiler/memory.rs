//! The memory of this process, as the kernel and the allocator see it.

use std::io;

use ports::profiler::MemoryFacts;

/// Both views now.
pub(super) fn read() -> io::Result<MemoryFacts> {
    let rollup = std::fs::read_to_string("/proc/self/smaps_rollup");
    // Kernels before 4.14, and those without page statistics, have less to say.
    let text = rollup.or_else(|_| std::fs::read_to_string("/proc/self/status"))?;
    Ok(MemoryFacts { mapped: sizes(&text), allocator: allocator() })
}

/// The lines that tell a size.
fn sizes(text: &str) -> Vec<(String, u64)> {
    let size = |line: &str| {
        let (name, value) = line.split_once(':')?;
        let kib: u64 = value.trim().strip_suffix(" kB")?.parse().ok()?;
        Some((name.to_owned(), kib.checked_mul(1024)?))
    };
    text.lines().filter_map(size).collect()
}

/// What glibc's allocator says of all its pools.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "glibc's own call; the standard library has none")]
fn allocator() -> Vec<(&'static str, u64)> {
    // SAFETY: mallinfo2 takes no arguments, locks the arenas itself and may be called from any thread.
    let told = unsafe { libc::mallinfo2() };
    let numbers = [
        ("in use, in pools", told.uordblks),
        ("free, in pools", told.fordblks),
        ("free at the end of the first pool, to be given back", told.keepcost),
        ("in pools altogether", told.arena),
        ("in use, large pieces of their own", told.hblkhd),
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
    fn lines_with_a_size_are_told_in_bytes() {
        let text = "55f0-7ffe ---p 00000000 00:00 0 [rollup]\nRss:      2 kB\nTHPeligible: 0\nPss: x kB\n";
        assert_eq!(sizes(text), [("Rss".to_owned(), 2048)]);
    }

    #[test]
    fn both_see_this_process() {
        let facts = read().unwrap();
        assert!(facts.mapped.iter().any(|(name, bytes)| name == "Rss" && *bytes > 100_000), "{facts:?}");
        assert!(facts.allocator.is_empty() || facts.allocator[0].1 > 1000, "{facts:?}");
    }
}
