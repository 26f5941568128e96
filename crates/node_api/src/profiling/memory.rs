//! `heap` and `allocs`: what kernel and allocator know of the memory.

use std::fmt::Write;

use ports::profiler::MemoryFacts;

/// Why there are only sums.
pub(super) const NO_PROFILE: &str =
    "allocations are not sampled by their callers, because every one of them would pay for it";

/// The memory as text.
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
