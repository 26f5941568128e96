//! Masquerading and host ports, in one `inet` table of nf_tables that belongs to podward alone.
//!
//! The rules are fixed: a pod adds elements to maps, so that a packet is matched in the same time for one pod and for
//! thousands. The whole table follows from the reservations. If a part of it is missing, because somebody has flushed the rule
//! set, it is replaced in one transaction; established connections are not affected.

mod conntrack;
mod elements;
mod expressions;
mod table;

use rustix::io::Errno;

pub(super) use conntrack::forget_udp_flows;

use super::cidr::Cidr;
use super::errors::NetworkFailure;
use super::netlink::{Message, NetlinkError, NetlinkProtocol, NetlinkSocket};
use super::request::PortMapping;
use super::route_socket::Named;

const SUBSYSTEM: u16 = 10;
const BATCH_BEGIN: u16 = 16;
const BATCH_END: u16 = 17;
const REQUEST: i32 = libc::NLM_F_REQUEST;
const CREATE: i32 = libc::NLM_F_REQUEST | libc::NLM_F_CREATE;
const ACKNOWLEDGE: u16 = libc::NLM_F_ACK as u16;
const FAMILY_UNSPECIFIED: u8 = 0;
const FAMILY_INET: u8 = 1;

const GET_TABLE: u16 = 1;
const NFTA_TABLE_NAME: u16 = 1;

/// The table of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PacketFilter {
    pub(super) table: String,
    pub(super) bridge: String,
}

/// A host port and the pod that it leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PortTarget {
    pub(super) port: PortMapping,
    pub(super) pod: std::net::IpAddr,
}

/// Everything that the table depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FilterContent {
    /// Ranges of pods' addresses.
    pub(super) ranges: Vec<Cidr>,
    pub(super) ports: Vec<PortTarget>,
}

impl PacketFilter {
    /// Creates the table, or replaces it.
    pub(super) fn replace(&self, content: &FilterContent) -> Result<(), NetworkFailure> {
        let mut messages =
            vec![self.table_message(table::NEW, CREATE), self.table_message(table::DELETE, REQUEST)];
        messages.extend(table::messages(self, content));
        transact(messages).named("write nf_tables table", &self.table)
    }

    /// Removes the table; a missing one is success.
    pub(super) fn remove(&self) -> Result<(), NetworkFailure> {
        let messages =
            vec![self.table_message(table::NEW, CREATE), self.table_message(table::DELETE, REQUEST)];
        transact(messages).named("remove nf_tables table", &self.table)
    }

    /// Leads host ports to pods. `false` if the table is not complete and must be replaced.
    pub(super) fn add(&self, ports: &[PortTarget]) -> Result<bool, NetworkFailure> {
        self.change(elements::NEW, CREATE | libc::NLM_F_EXCL, ports)
    }

    /// `false` if the table is not complete and must be replaced.
    pub(super) fn delete(&self, ports: &[PortTarget]) -> Result<bool, NetworkFailure> {
        self.change(elements::DELETE, REQUEST, ports)
    }

    pub(super) fn exists(&self) -> Result<bool, NetworkFailure> {
        let mut message = message(GET_TABLE, REQUEST | libc::NLM_F_ACK, FAMILY_INET);
        message.text(NFTA_TABLE_NAME, &self.table);
        let socket = NetlinkSocket::open(NetlinkProtocol::Netfilter).map_err(NetlinkError::from);
        match socket.and_then(|mut socket| socket.request(message)) {
            Ok(()) => Ok(true),
            Err(NetlinkError { errno: Errno::NOENT, .. }) => Ok(false),
            Err(error) => Err(error).named("find nf_tables table", &self.table),
        }
    }

    fn change(&self, kind: u16, flags: i32, ports: &[PortTarget]) -> Result<bool, NetworkFailure> {
        let messages = elements::messages(self, kind, flags, ports);
        if messages.is_empty() {
            return Ok(true);
        }
        match transact(messages) {
            Ok(()) => Ok(true),
            // A missing table, map or element, or an element that is there but not recorded.
            Err(NetlinkError { errno: Errno::NOENT | Errno::EXIST, .. }) => Ok(false),
            Err(error) => Err(error).named("change nf_tables table", &self.table),
        }
    }

    fn table_message(&self, kind: u16, flags: i32) -> Message {
        let mut message = message(kind, flags, FAMILY_INET);
        message.text(NFTA_TABLE_NAME, &self.table);
        message
    }
}

/// A message of the subsystem, with its header.
fn message(kind: u16, flags: i32, family: u8) -> Message {
    let mut message = Message::new(SUBSYSTEM << 8 | kind, flags);
    message.raw(&[family, 0, 0, 0]);
    message
}

fn transact(messages: Vec<Message>) -> Result<(), NetlinkError> {
    let mut messages = messages;
    if let Some(last) = messages.last_mut() {
        last.add_flags(ACKNOWLEDGE);
    }
    let boundary = |kind| {
        let mut message = Message::new(kind, REQUEST);
        let [high, low] = SUBSYSTEM.to_be_bytes();
        message.raw(&[FAMILY_UNSPECIFIED, 0, high, low]);
        message
    };
    let batch = [vec![boundary(BATCH_BEGIN)], messages, vec![boundary(BATCH_END)]].concat();
    NetlinkSocket::open(NetlinkProtocol::Netfilter)?.transact(batch)
}

#[cfg(test)]
mod tests;
