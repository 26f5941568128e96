//! Counters of the interfaces of a pod: received and sent bytes, packets and errors.

use std::path::Path;

use super::errors::{During, NetworkFailure};
use super::namespaces::{in_namespace, open_namespace};

/// Shows the network namespace of the thread that reads it.
const DEVICES: &str = "/proc/thread-self/net/dev";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct InterfaceCounters {
    pub(crate) name: String,
    pub(crate) received: Traffic,
    pub(crate) sent: Traffic,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    pub(crate) bytes: u64,
    pub(crate) packets: u64,
    pub(crate) errors: u64,
    pub(crate) dropped: u64,
}

/// The interfaces of a pinned namespace, without the loopback. Blocks.
pub(crate) fn interface_counters(pin: &Path) -> Result<Vec<InterfaceCounters>, NetworkFailure> {
    let text = in_namespace(&open_namespace(pin)?, || {
        std::fs::read_to_string(DEVICES).on_path("read", Path::new(DEVICES))
    })?;
    Ok(parse(&text))
}

fn parse(text: &str) -> Vec<InterfaceCounters> {
    // Two lines of titles have no colon before their first word.
    let interfaces = text.lines().filter_map(|line| {
        let (name, numbers) = line.split_once(':')?;
        let numbers: Vec<u64> = numbers.split_whitespace().map_while(|number| number.parse().ok()).collect();
        let traffic = |start: usize| {
            let fields = numbers.get(start..start + 4)?;
            let [bytes, packets, errors, dropped] = fields else { return None };
            Some(Traffic { bytes: *bytes, packets: *packets, errors: *errors, dropped: *dropped })
        };
        Some(InterfaceCounters { name: name.trim().to_owned(), received: traffic(0)?, sent: traffic(8)? })
    });
    interfaces.filter(|interface| interface.name != "lo").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_have_eight_numbers_for_each_direction() {
        let text = "Inter-|   Receive                |  Transmit\n face |bytes packets errs drop fifo frame compressed multicast|bytes\n\
             lo: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n  eth0: 100 10 1 2 0 0 0 5 200 20 3 4 0 0 0 0\n";
        let received = Traffic { bytes: 100, packets: 10, errors: 1, dropped: 2 };
        let sent = Traffic { bytes: 200, packets: 20, errors: 3, dropped: 4 };
        assert_eq!(parse(text), [InterfaceCounters { name: "eth0".to_owned(), received, sent }]);
        assert_eq!(parse("eth0: 1 2 3"), []);
    }
}
