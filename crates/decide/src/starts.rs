//! How many pods are started side by side.

/// As many as keep these processors busy; a few more where there are hardly any, because a start also waits for disks.
#[must_use]
pub fn starts_at_once(cpus: usize) -> usize {
    cpus.saturating_mul(4).max(8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_with_the_processors_and_is_never_few() {
        for (cpus, starts) in [(0, 8), (1, 8), (2, 8), (3, 12), (64, 256)] {
            assert_eq!(starts_at_once(cpus), starts, "{cpus} processors");
        }
    }
}
