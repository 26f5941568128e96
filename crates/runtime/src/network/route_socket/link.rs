//! Links as the kernel describes them, and pairs of links between namespaces.

use std::os::fd::AsRawFd;

use super::{CREATE, Message, Named, NetworkFailure, RouteSocket, find, link_message};
use crate::network::netlink::{NetlinkError, NetlinkProtocol, NetlinkSocket, Received};

/// State of a link that can transmit.
const OPERSTATE_UP: u8 = 6;
/// The other end of a pair, inside the attributes of a new pair.
const VETH_INFO_PEER: u16 = 1;
const IFLA_BRPORT_MODE: u16 = 4;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::network) struct Link {
    pub(in crate::network) index: u32,
    pub(in crate::network) name: String,
    /// `bridge`, `veth`; empty for hardware.
    pub(in crate::network) kind: String,
    /// A text for people; of the bridge, its owner.
    pub(in crate::network) alias: String,
    pub(in crate::network) mtu: Option<u32>,
    pub(in crate::network) mac: Vec<u8>,
    /// The bridge that the link is a port of.
    pub(in crate::network) controller: Option<u32>,
    /// Somebody brought it up.
    pub(in crate::network) is_enabled: bool,
    /// It can transmit.
    pub(in crate::network) is_operational: bool,
}

impl Link {
    pub(super) fn decode(content: &[u8]) -> Option<Self> {
        let ([_, _, _, _, i0, i1, i2, i3, f0, f1, f2, f3, ..], rest) = content.split_first_chunk::<16>()?;
        let flags = i32::from_ne_bytes([*f0, *f1, *f2, *f3]);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned();
        let number = |bytes: &[u8]| bytes.try_into().map(u32::from_ne_bytes).ok();
        let kind = find(rest, libc::IFLA_LINKINFO).and_then(|info| find(info, libc::IFLA_INFO_KIND));
        Some(Self {
            index: u32::from_ne_bytes([*i0, *i1, *i2, *i3]),
            name: text(find(rest, libc::IFLA_IFNAME)?),
            kind: kind.map(text).unwrap_or_default(),
            alias: find(rest, libc::IFLA_IFALIAS).map(text).unwrap_or_default(),
            mtu: find(rest, libc::IFLA_MTU).and_then(number),
            mac: find(rest, libc::IFLA_ADDRESS).unwrap_or_default().to_vec(),
            controller: find(rest, libc::IFLA_MASTER).and_then(number),
            is_enabled: flags & libc::IFF_UP != 0,
            is_operational: find(rest, libc::IFLA_OPERSTATE) == Some(&[OPERSTATE_UP]),
        })
    }
}

/// A pair of links: one end is a port of a bridge, the other is inside a namespace.
#[derive(Clone, Copy, Debug)]
pub(in crate::network) struct NewPair<'a> {
    pub(in crate::network) name: &'a str,
    pub(in crate::network) bridge: &'a Link,
    pub(in crate::network) mtu: Option<u32>,
    pub(in crate::network) namespace: &'a std::fs::File,
    pub(in crate::network) name_inside: &'a str,
    pub(in crate::network) mac_inside: [u8; 6],
}

impl RouteSocket {
    pub(in crate::network) fn create_pair(&mut self, pair: NewPair<'_>) -> Result<(), NetworkFailure> {
        let mut message = link_message(libc::RTM_NEWLINK, CREATE, 0, 0);
        message.text(libc::IFLA_IFNAME, pair.name).u32(libc::IFLA_MASTER, pair.bridge.index);
        pair.mtu.map(|mtu| message.u32(libc::IFLA_MTU, mtu));
        message.nested(libc::IFLA_LINKINFO, |info| {
            info.text(libc::IFLA_INFO_KIND, "veth").nested(libc::IFLA_INFO_DATA, |data| {
                data.nested(VETH_INFO_PEER, |peer| encode_peer(peer, pair));
            });
        });
        self.request(message).named("create link", pair.name)
    }

    /// Enables the port of a bridge. In hairpin mode, a pod reaches itself through an address of a Service.
    pub(in crate::network) fn enable_port(&mut self, port: &Link, alias: &str) -> Result<(), NetworkFailure> {
        let result = self.set_link(port.index, |message| {
            message.text(libc::IFLA_IFALIAS, alias);
            message.nested(libc::IFLA_LINKINFO, |info| {
                info.text(libc::IFLA_INFO_SLAVE_KIND, "bridge").nested(libc::IFLA_INFO_SLAVE_DATA, |data| {
                    data.u8(IFLA_BRPORT_MODE, 1);
                });
            });
        });
        result.named("bring up", &port.name)
    }
}

fn encode_peer(peer: &mut Message, pair: NewPair<'_>) {
    peer.raw(&[0; 16]);
    peer.text(libc::IFLA_IFNAME, pair.name_inside).bytes(libc::IFLA_ADDRESS, &pair.mac_inside);
    pair.mtu.map(|mtu| peer.u32(libc::IFLA_MTU, mtu));
    peer.u32(libc::IFLA_NET_NS_FD, pair.namespace.as_raw_fd().cast_unsigned());
}

/// Events about links, from its creation on.
#[derive(Debug)]
pub(in crate::network) struct LinkEvents(NetlinkSocket);

impl LinkEvents {
    pub(in crate::network) fn subscribe() -> Result<Self, NetworkFailure> {
        let groups = u32::try_from(libc::RTMGRP_LINK).unwrap_or_default();
        let socket = NetlinkSocket::open_with_groups(NetlinkProtocol::Route, groups);
        socket.map(Self).map_err(NetlinkError::from).named("subscribe to", "link events")
    }

    /// Waits for an event that shows the link as operational: packets to a port that is not are lost.
    pub(in crate::network) fn wait_until_operational(&mut self, name: &str) -> Result<(), NetworkFailure> {
        let is_up = |received: Received<'_>| {
            let link = Link::decode(received.content);
            let is_up = link.is_some_and(|link| link.name == name && link.is_operational);
            (received.kind == libc::RTM_NEWLINK && is_up).then_some(Ok(()))
        };
        self.0.receive(is_up).map_err(|_| NetworkFailure::LinkDown(name.to_owned()))
    }
}
