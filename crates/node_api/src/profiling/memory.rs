//! `heap` and `allocs`: memory statistics of the kernel and of the allocator.

use std::fmt::Write;

use ports::host::profiler::MemoryFacts;

/// Why there is no profile by caller.
pub(super) const NO_PROFILE: &str =
    "allocations are not sampled by caller, because that would slow down every allocation";

pub(super) fn text(name: &str, facts: &MemoryFacts) -> String {
    let mut text = format!("{name} profile: {NO_PROFILE}\n\n# the kernel's view, in bytes\n");
    for (name, bytes) in &facts.mapped {
        let _never_fails = writeln!(text, "{name} = {bytes}");
    }
    if !facts.allocator.is_empty() {
        text.push_str("\n# the allocator's view (glibc), in bytes\n");
    }
    for (name, bytes) in &facts.allocator {
        let _never_fails = writeln!(text, "{name} = {bytes}");
    }
    text
}
