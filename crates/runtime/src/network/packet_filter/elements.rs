//! Sets and maps of the table, and their elements.

use std::net::IpAddr;

use super::expressions::Family;
use super::{CREATE, FAMILY_INET, Message, PacketFilter, PortTarget, message};
use crate::network::cidr::Cidr;
use crate::network::route_socket::octets;

pub(super) const NEW: u16 = 12;
pub(super) const DELETE: u16 = 14;
const NEW_SET: u16 = 9;
/// A list must fit into one attribute.
const ELEMENTS_PER_MESSAGE: usize = 500;

const INTERVAL: u32 = 4;
const MAP: u32 = 8;
/// Marks the first address behind a range.
const INTERVAL_END: u32 = 1;

/// Numbers of types, by which `nft` prints keys.
const TYPE_ADDRESS_V4: u32 = 7;
const TYPE_ADDRESS_V6: u32 = 8;
const TYPE_PROTOCOL: u32 = 12;
const TYPE_PORT: u32 = 13;
const TYPE_BITS: u32 = 6;

/// Host ports of one address of the node: protocol, port, address → pod's address, port.
pub(super) fn address_port_map(family: Family) -> String {
    format!("address_ports_{}", suffix(family))
}

/// Host ports of all addresses: protocol, port → pod's address, port.
pub(super) fn port_map(family: Family) -> String {
    format!("ports_{}", suffix(family))
}

/// Destinations of host ports: host port, protocol, pod's address, port.
pub(super) fn target_set(family: Family) -> String {
    format!("targets_{}", suffix(family))
}

/// Ranges of pods' addresses.
pub(super) fn range_set(family: Family) -> String {
    format!("pods_{}", suffix(family))
}

fn suffix(family: Family) -> &'static str {
    match family {
        Family::V4 => "ipv4",
        Family::V6 => "ipv6",
    }
}

/// Creates the sets and maps.
pub(super) fn set_messages(filter: &PacketFilter) -> Vec<Message> {
    let mut messages = Vec::new();
    for family in Family::BOTH {
        let address = if family.is_v6() { TYPE_ADDRESS_V6 } else { TYPE_ADDRESS_V4 };
        let target = [address, TYPE_PORT];
        let port = [TYPE_PROTOCOL, TYPE_PORT];
        let sets: [(String, u32, Vec<u32>, &[u32]); 4] = [
            (range_set(family), INTERVAL, vec![address], &[]),
            (port_map(family), MAP, port.to_vec(), &target),
            (address_port_map(family), MAP, vec![TYPE_PROTOCOL, TYPE_PORT, address], &target),
            (target_set(family), 0, vec![TYPE_PORT, TYPE_PROTOCOL, address, TYPE_PORT], &[]),
        ];
        for (name, flags, key, data) in sets {
            let id = u32::try_from(messages.len() + 1).unwrap_or_default();
            let mut message = message(NEW_SET, CREATE, FAMILY_INET);
            message.text(1, &filter.table).text(2, &name).u32_be(3, flags);
            message.u32_be(4, joined_type(&key)).u32_be(5, joined_length(&key)).u32_be(10, id);
            if !data.is_empty() {
                message.u32_be(6, joined_type(data)).u32_be(7, joined_length(data));
            }
            messages.push(message);
        }
    }
    messages
}

fn joined_type(types: &[u32]) -> u32 {
    types.iter().fold(0, |joined, kind| joined << TYPE_BITS | kind)
}

fn joined_length(types: &[u32]) -> u32 {
    types.iter().map(|kind| if *kind == TYPE_ADDRESS_V6 { 16 } else { 4 }).sum()
}

/// Fills the sets of ranges. Ranges inside another one are left out: intervals of a set must not overlap.
pub(super) fn range_messages(filter: &PacketFilter, ranges: &[Cidr]) -> Vec<Message> {
    let is_inside_another = |index: usize, range: &Cidr| {
        ranges.iter().enumerate().any(|(other_index, other)| {
            let is_wider = other.prefix() < range.prefix();
            let is_repeated = other.prefix() == range.prefix() && other_index < index;
            (is_wider || is_repeated) && other.contains(range.address())
        })
    };
    let outer = ranges.iter().enumerate().filter(|(index, range)| !is_inside_another(*index, range));
    let outer: Vec<Cidr> = outer.map(|(_, range)| range.network()).collect();
    let family_messages = Family::BOTH.map(|family| {
        let of_family = outer.iter().filter(|range| range.is_v6() == family.is_v6());
        let elements: Vec<Element> = of_family.flat_map(|range| interval(*range)).collect();
        element_messages(filter, (NEW, CREATE), &range_set(family), &elements)
    });
    family_messages.into_iter().flatten().collect()
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Element {
    key: Vec<u8>,
    data: Vec<u8>,
    flags: u32,
}

fn interval(range: Cidr) -> Vec<Element> {
    let start = Element { key: octets(range.address()), data: Vec::new(), flags: 0 };
    let behind = successor(range.last());
    let end = behind.map(|address| Element { key: octets(address), data: Vec::new(), flags: INTERVAL_END });
    [start].into_iter().chain(end).collect()
}

fn successor(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V4(address) => u32::from(address).checked_add(1).map(|next| IpAddr::V4(next.into())),
        IpAddr::V6(address) => u128::from(address).checked_add(1).map(|next| IpAddr::V6(next.into())),
    }
}

/// Adds or removes host ports. A mapping applies to those addresses of the pod that have its family.
pub(super) fn messages(filter: &PacketFilter, kind: u16, flags: i32, ports: &[PortTarget]) -> Vec<Message> {
    let mut messages = Vec::new();
    for family in Family::BOTH {
        let of_family: Vec<&PortTarget> = ports
            .iter()
            .filter(|target| target.pod.is_ipv6() == family.is_v6() && target.port.has_family(family.is_v6()))
            .collect();
        let (specific, general): (Vec<&PortTarget>, Vec<&PortTarget>) =
            of_family.iter().partition(|target| target.port.specific_host_ip().is_some());
        let sets = [
            (address_port_map(family), elements(&specific, translation)),
            (port_map(family), elements(&general, translation)),
            (target_set(family), distinct(elements(&of_family, destination))),
        ];
        for (set, elements) in sets {
            messages.extend(element_messages(filter, (kind, flags), &set, &elements));
        }
    }
    messages
}

fn elements(targets: &[&PortTarget], element: impl Fn(&PortTarget) -> Element) -> Vec<Element> {
    targets.iter().map(|target| element(target)).collect()
}

/// Host ports of two addresses of the node may lead to the same port of a pod.
fn distinct(elements: Vec<Element>) -> Vec<Element> {
    let mut distinct: Vec<Element> = Vec::with_capacity(elements.len());
    let mut seen = std::collections::HashSet::new();
    distinct.extend(elements.into_iter().filter(|element| seen.insert(element.key.clone())));
    distinct
}

fn translation(target: &PortTarget) -> Element {
    let host_ip = target.port.specific_host_ip().map(octets).unwrap_or_default();
    let key = [protocol(target).to_vec(), port(target.port.host_port).to_vec(), host_ip].concat();
    let data = [octets(target.pod), port(target.port.container_port).to_vec()].concat();
    Element { key, data, flags: 0 }
}

fn destination(target: &PortTarget) -> Element {
    let (from, to) = (port(target.port.host_port), port(target.port.container_port));
    let key = [&from[..], &protocol(target), &octets(target.pod), &to].concat();
    Element { key, data: Vec::new(), flags: 0 }
}

/// Fields of keys are padded to four bytes.
fn port(number: u16) -> [u8; 4] {
    let [high, low] = number.to_be_bytes();
    [high, low, 0, 0]
}

fn protocol(target: &PortTarget) -> [u8; 4] {
    [target.port.protocol.number(), 0, 0, 0]
}

fn element_messages(
    filter: &PacketFilter,
    (kind, flags): (u16, i32),
    set: &str,
    elements: &[Element],
) -> Vec<Message> {
    let chunk_message = |chunk: &[Element]| {
        let mut message = message(kind, flags, FAMILY_INET);
        message.text(1, &filter.table).text(2, set).nested(3, |list| {
            chunk.iter().for_each(|element| encode_element(list, element, kind));
        });
        message
    };
    elements.chunks(ELEMENTS_PER_MESSAGE).map(chunk_message).collect()
}

fn encode_element(list: &mut Message, element: &Element, kind: u16) {
    list.nested(1, |attributes| {
        attributes.nested(1, |key| {
            key.bytes(1, &element.key);
        });
        // An element is deleted by its key.
        if !element.data.is_empty() && kind == NEW {
            attributes.nested(2, |data| {
                data.bytes(1, &element.data);
            });
        }
        if element.flags != 0 {
            attributes.u32_be(3, element.flags);
        }
    });
}
