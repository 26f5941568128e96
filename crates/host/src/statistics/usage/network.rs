//! Traffic of network interfaces.

use std::path::Path;

use model::usage::{InterfaceUsage, Traffic};

use super::files;

/// Ignored interfaces, which do not carry the machine's own traffic: loopback and the host side of container links.
const IGNORED_PREFIXES: [&str; 4] = ["lo", "veth", "docker", "nerdctl"];

/// The interfaces in a file such as `/proc/<pid>/net/dev`, in its order.
pub(super) fn interfaces(file: &Path) -> Option<Vec<InterfaceUsage>> {
    let text = files::text(file)?;
    Some(text.lines().skip(2).filter_map(interface).collect())
}

fn interface(line: &str) -> Option<InterfaceUsage> {
    let (name, values) = line.split_once(':')?;
    let name = name.trim();
    if IGNORED_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
        return None;
    }
    let values: Vec<u64> = values.split_whitespace().map_while(|value| value.parse().ok()).collect();
    let traffic = |first: usize| {
        let value = |offset: usize| values.get(first + offset).copied().unwrap_or_default();
        Traffic { bytes: value(0), packets: value(1), errors: value(2), dropped: value(3) }
    };
    Some(InterfaceUsage { name: name.to_owned(), received: traffic(0), sent: traffic(8) })
}
