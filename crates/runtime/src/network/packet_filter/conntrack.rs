//! Tracked flows of UDP.
//!
//! A flow of UDP ends only by a timeout. Packets of a flow that began before a host port existed, or that led to an earlier
//! pod, would go on to the old destination; so these flows are removed.

use std::net::IpAddr;

use super::PortTarget;
use crate::network::errors::NetworkFailure;
use crate::network::netlink::{Message, NetlinkError, NetlinkProtocol, NetlinkSocket, find};
use crate::network::request::PortProtocol;
use crate::network::route_socket::{Named, RouteSocket};
use rustix::io::Errno;

const SUBSYSTEM: u16 = 1;
const GET: u16 = 1;
const DELETE: u16 = 2;
const LIST: i32 = libc::NLM_F_REQUEST | libc::NLM_F_DUMP;
const REQUEST: i32 = libc::NLM_F_REQUEST | libc::NLM_F_ACK;

const CTA_TUPLE_ORIG: u16 = 1;
const CTA_ID: u16 = 12;
const CTA_TUPLE_IP: u16 = 1;
const CTA_TUPLE_PROTO: u16 = 2;
const CTA_IP_V4_DST: u16 = 2;
const CTA_IP_V6_DST: u16 = 4;
const CTA_PROTO_NUM: u16 = 1;
const CTA_PROTO_DST_PORT: u16 = 3;
const NESTED: u16 = 0x8000;

/// A flow to the node, as it was before translation.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Flow {
    family: u8,
    protocol: u8,
    destination: IpAddr,
    port: u16,
    /// By which the kernel finds it.
    tuple: Vec<u8>,
    id: Vec<u8>,
}

/// Removes the flows to these host ports.
pub(in crate::network) fn forget_udp_flows(targets: &[PortTarget]) -> Result<(), NetworkFailure> {
    let udp: Vec<&PortTarget> =
        targets.iter().filter(|target| target.port.protocol == PortProtocol::Udp).collect();
    if udp.is_empty() {
        return Ok(());
    }
    let addresses = RouteSocket::open()?.all_addresses()?;
    let node: Vec<IpAddr> = addresses.into_iter().map(|(_, address)| address.address()).collect();
    let is_stale = |flow: &Flow| {
        let is_to_port = |target: &&PortTarget| {
            let address = target.port.specific_host_ip();
            flow.port == target.port.host_port && address.is_none_or(|address| address == flow.destination)
        };
        let is_local = flow.destination.is_loopback() || node.contains(&flow.destination);
        flow.protocol == PortProtocol::Udp.number() && is_local && udp.iter().any(is_to_port)
    };
    let socket = NetlinkSocket::open(NetlinkProtocol::Netfilter).map_err(NetlinkError::from);
    let mut socket = socket.named("open", "netfilter netlink")?;
    let mut stale = Vec::new();
    let mut list = Message::new(SUBSYSTEM << 8 | GET, LIST);
    list.raw(&[0; 4]);
    socket
        .ask(list, |content| stale.extend(decode_flow(content).filter(is_stale)))
        .named("list", "tracked flows")?;
    stale.iter().try_for_each(|flow| remove(&mut socket, flow))
}

fn remove(socket: &mut NetlinkSocket, flow: &Flow) -> Result<(), NetworkFailure> {
    let mut message = Message::new(SUBSYSTEM << 8 | DELETE, REQUEST);
    message.raw(&[flow.family, 0, 0, 0]);
    message.bytes(CTA_TUPLE_ORIG | NESTED, &flow.tuple).bytes(CTA_ID, &flow.id);
    match socket.request(message) {
        // It has ended meanwhile.
        Err(NetlinkError { errno: Errno::NOENT, .. }) => Ok(()),
        result => result.named("remove flow to", format!("{}, port {}", flow.destination, flow.port)),
    }
}

fn decode_flow(content: &[u8]) -> Option<Flow> {
    let ([family, ..], attributes) = content.split_first_chunk::<4>()?;
    let tuple = find(attributes, CTA_TUPLE_ORIG)?;
    let addresses = find(tuple, CTA_TUPLE_IP)?;
    let destination = match find(addresses, CTA_IP_V4_DST) {
        Some(octets) => IpAddr::from(<[u8; 4]>::try_from(octets).ok()?),
        None => IpAddr::from(<[u8; 16]>::try_from(find(addresses, CTA_IP_V6_DST)?).ok()?),
    };
    let transport = find(tuple, CTA_TUPLE_PROTO)?;
    Some(Flow {
        family: *family,
        protocol: *find(transport, CTA_PROTO_NUM)?.first()?,
        destination,
        port: u16::from_be_bytes(find(transport, CTA_PROTO_DST_PORT)?.try_into().ok()?),
        tuple: tuple.to_vec(),
        id: find(attributes, CTA_ID)?.to_vec(),
    })
}
