//! How many pods start at the same time.

/// Four per CPU, and at least eight: a start also waits for disks.
pub fn max_parallel_starts(cpus: usize) -> usize {
    cpus.saturating_mul(4).max(8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_with_cpus_and_is_at_least_eight() {
        for (cpus, starts) in [(0, 8), (1, 8), (2, 8), (3, 12), (64, 256)] {
            assert_eq!(max_parallel_starts(cpus), starts, "{cpus} processors");
        }
    }
}
