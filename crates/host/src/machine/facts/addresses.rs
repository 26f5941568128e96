//! IP addresses of this machine.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::Path;

/// One address per family, IPv4 first: the source address of the default route, or else the first global address of an
/// interface. Loopback if there is no other.
pub(super) fn addresses(proc: &Path) -> Vec<IpAddr> {
    // Documentation addresses (RFC 5737, RFC 3849): unassigned, but routed like any remote host.
    let remote_v4 = SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), 9));
    let remote_v6 = SocketAddr::from((Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1), 9));
    let read = |file: &str| std::fs::read_to_string(proc.join(file)).unwrap_or_default();

    let v4 = source_address(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)), remote_v4)
        .or_else(|| first_v4(&read("net/fib_trie")).map(IpAddr::V4));
    let v6 = source_address(SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)), remote_v6)
        .or_else(|| first_v6(&read("net/if_inet6")).map(IpAddr::V6));
    let found: Vec<_> = v4.into_iter().chain(v6).collect();
    if found.is_empty() { vec![IpAddr::V4(Ipv4Addr::LOCALHOST)] } else { found }
}

/// Connecting a UDP socket only looks up the route; no packet is sent.
fn source_address(any: SocketAddr, remote: SocketAddr) -> Option<IpAddr> {
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(remote).ok()?;
    Some(socket.local_addr().ok()?.ip()).filter(is_usable)
}

fn is_usable(address: &IpAddr) -> bool {
    !address.is_loopback()
        && !address.is_unspecified()
        && match address {
            IpAddr::V4(v4) => !v4.is_link_local() && !v4.is_multicast(),
            IpAddr::V6(v6) => !v6.is_unicast_link_local() && !v6.is_multicast(),
        }
}

/// All interface addresses, from the kernel's tables below `proc`.
pub(super) fn all(proc: &Path) -> Vec<IpAddr> {
    let read = |file: &str| std::fs::read_to_string(proc.join(file)).unwrap_or_default();
    let v4 = local_v4(&read("net/fib_trie")).into_iter().map(IpAddr::V4);
    let v6 = local_v6(&read("net/if_inet6")).into_iter().map(|(address, _)| IpAddr::V6(address));
    v4.chain(v6).collect()
}

fn first_v4(fib_trie: &str) -> Option<Ipv4Addr> {
    local_v4(fib_trie).into_iter().find(|address| is_usable(&IpAddr::V4(*address)))
}

fn first_v6(if_inet6: &str) -> Option<Ipv6Addr> {
    let global = local_v6(if_inet6).into_iter().filter(|(_, scope)| scope == "00");
    global.map(|(address, _)| address).find(|address| is_usable(&IpAddr::V6(*address)))
}

/// In `fib_trie` a local address is a line `|-- 192.0.2.7` followed by `/32 host LOCAL`. It appears twice, in the main
/// and in the local table.
fn local_v4(fib_trie: &str) -> Vec<Ipv4Addr> {
    let (mut last, mut found) = (None, Vec::new());
    for line in fib_trie.lines() {
        if let Some(address) = line.trim_start().strip_prefix("|-- ") {
            last = address.trim().parse().ok();
        } else if line.trim() == "/32 host LOCAL" {
            found.extend(last.filter(|address| !found.contains(address)));
        }
    }
    found
}

/// `fd000000000000000000000000000002 04 40 00 82     eth0`: address, index, prefix, scope, flags, name.
fn local_v6(if_inet6: &str) -> Vec<(Ipv6Addr, String)> {
    let address = |line: &str| {
        let mut fields = line.split_whitespace();
        let bits = u128::from_str_radix(fields.next()?, 16).ok()?;
        Some((Ipv6Addr::from(bits), fields.nth(2)?.to_owned()))
    };
    if_inet6.lines().filter_map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_local_addresses_from_kernel_tables() {
        let trie = "\
Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
Local:
     |-- 127.0.0.1
        /32 host LOCAL
     |-- 198.51.100.0
        /24 link UNICAST
        |-- 198.51.100.7
           /32 host LOCAL
        |-- 198.51.100.255
           /32 link BROADCAST
";
        assert_eq!(first_v4(trie), Some(Ipv4Addr::new(198, 51, 100, 7)));
        assert_eq!(local_v4(&trie.repeat(2)), [Ipv4Addr::LOCALHOST, Ipv4Addr::new(198, 51, 100, 7)]);
        let inet6 = "\
00000000000000000000000000000001 01 80 10 80       lo
fe8000000000000000fc00fffe000001 04 40 20 80     eth0
20010db8000000000000000000000002 04 40 00 82     eth0
";
        assert_eq!(first_v6(inet6), Some("2001:db8::2".parse().unwrap()));
        assert_eq!(local_v6(inet6).len(), 3);
        assert_eq!((first_v4(""), first_v6("garbage\n")), (None, None));
    }
}
