//! Traffic of network interfaces.

use std::path::Path;

use model::usage::{InterfaceUsage, Traffic};

use super::files;

/// Interfaces that say nothing of what goes in or out: loopback and the host's ends of containers' links.
const LEFT_OUT: [&str; 4] = ["lo", "veth", "docker", "nerdctl"];

/// The interfaces in a file such as `/proc/<pid>/net/dev`, in its order.
pub(super) fn interfaces(file: &Path) -> Option<Vec<InterfaceUsage>> {
    let text = files::text(file)?;
    Some(text.lines().skip(2).filter_map(interface).collect())
}

fn interface(line: &str) -> Option<InterfaceUsage> {
    let (name, values) = line.split_once(':')?;
    let name = name.trim();
    if LEFT_OUT.iter().any(|prefix| name.starts_with(prefix)) {
        return None;
    }
    let values: Vec<u64> = values.split_whitespace().map_while(|value| value.parse().ok()).collect();
    let traffic = |at: usize| {
        let value = |offset: usize| values.get(at + offset).copied().unwrap_or_default();
        Traffic { bytes: value(0), packets: value(1), errors: value(2), dropped: value(3) }
    };
    Some(InterfaceUsage { name: name.to_owned(), received: traffic(0), sent: traffic(8) })
}
