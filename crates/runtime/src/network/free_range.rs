//! A range of pod addresses for a runtime beside others.

use std::net::{IpAddr, Ipv4Addr};

use super::cidr::Cidr;
use super::errors::{NetworkError, NetworkFailure};
use super::route_socket::RouteSocket;

const PREFIX: u8 = 24;

/// A range of 254 addresses below 10.86.0.0/16 that overlaps with no address of the node. The search begins at `first`, so
/// that runtimes which start at the same time find different ones.
///
/// # Errors
/// If the addresses of the node cannot be read, or none is free.
pub fn free_pod_range(first: u8) -> Result<Cidr, NetworkError> {
    let addresses = RouteSocket::open().and_then(|mut socket| socket.all_addresses());
    let addresses: Vec<Cidr> =
        addresses.map_err(NetworkError::Node)?.into_iter().map(|(_, address)| address).collect();
    choose(first, &addresses).ok_or(NetworkError::Node(NetworkFailure::NoRange))
}

fn choose(first: u8, taken: &[Cidr]) -> Option<Cidr> {
    let range = |third: u8| Cidr::new(IpAddr::V4(Ipv4Addr::new(10, 86, third, 0)), PREFIX).ok();
    let overlaps =
        |range: &Cidr, other: &Cidr| range.contains(other.address()) || other.contains(range.address());
    (0..=u8::MAX)
        .filter_map(|step| range(first.wrapping_add(step)))
        .find(|range| !taken.iter().any(|other| overlaps(range, other)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skips_ranges_that_the_node_uses() {
        let cidrs = |list: &[&str]| list.iter().map(|text| text.parse().unwrap()).collect::<Vec<Cidr>>();
        let chosen = |first, taken: &[&str]| choose(first, &cidrs(taken)).map(|range| range.to_string());
        assert_eq!(chosen(3, &["192.168.1.7/24"]).as_deref(), Some("10.86.3.0/24"));
        assert_eq!(chosen(255, &["10.86.255.1/24", "10.86.0.9/31"]).as_deref(), Some("10.86.1.0/24"));
        assert_eq!(chosen(0, &["10.0.0.1/8"]), None);
    }
}
