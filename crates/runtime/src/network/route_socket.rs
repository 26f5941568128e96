//! Links, addresses and routes of one network namespace, by route netlink.

use std::net::IpAddr;

use rustix::io::Errno;

use super::cidr::Cidr;
use super::errors::NetworkFailure;
use super::netlink::{Message, NetlinkError, NetlinkProtocol, NetlinkSocket, find};

mod link;
mod shaping;
mod uplinks;

pub(super) use link::{Link, LinkEvents, NewPair};

/// `lo` is the first link of every namespace.
const LOOPBACK_INDEX: u32 = 1;
/// The longest name of a link.
pub(super) const MAX_LINK_NAME: usize = 15;

const REQUEST: i32 = libc::NLM_F_REQUEST | libc::NLM_F_ACK;
const CREATE: i32 = REQUEST | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
const LIST: i32 = libc::NLM_F_REQUEST | libc::NLM_F_DUMP;
/// The attribute of addresses for flags that do not fit into the header.
const IFA_FLAGS: u16 = 8;

#[derive(Debug)]
pub(super) struct RouteSocket(NetlinkSocket);

impl RouteSocket {
    /// A socket of the namespace of the calling thread.
    pub(super) fn open() -> Result<Self, NetworkFailure> {
        let socket = NetlinkSocket::open(NetlinkProtocol::Route);
        socket.map(Self).map_err(NetlinkError::from).named("open", "route netlink")
    }

    pub(super) fn bring_up_loopback(&mut self) -> Result<(), NetworkFailure> {
        self.set_link(LOOPBACK_INDEX, |_| {}).named("bring up", "lo")
    }

    /// `None` if there is no link with this name.
    pub(super) fn link(&mut self, name: &str) -> Result<Option<Link>, NetworkFailure> {
        let mut message = link_message(libc::RTM_GETLINK, REQUEST, 0, 0);
        message.text(libc::IFLA_IFNAME, name);
        let mut found = None;
        match self.0.ask(message, |content| found = found.take().or_else(|| Link::decode(content))) {
            Err(NetlinkError { errno: Errno::NODEV, .. }) => Ok(None),
            result => result.named("find link", name).map(|()| found),
        }
    }

    pub(super) fn set_alias(&mut self, link: &Link, alias: &str) -> Result<(), NetworkFailure> {
        let mut message = link_message(libc::RTM_NEWLINK, REQUEST, link.index, 0);
        message.text(libc::IFLA_IFALIAS, alias);
        self.0.request(message).named("name the owner of", &link.name)
    }

    /// The ports of a bridge.
    pub(super) fn ports(&mut self, bridge: &Link) -> Result<Vec<Link>, NetworkFailure> {
        let message = link_message(libc::RTM_GETLINK, LIST, 0, 0);
        let mut ports = Vec::new();
        let each = |content: &[u8]| {
            ports.extend(Link::decode(content).filter(|link| link.controller == Some(bridge.index)));
        };
        self.0.ask(message, each).named("list ports of", &bridge.name)?;
        Ok(ports)
    }

    pub(super) fn create_bridge(&mut self, name: &str, mtu: Option<u32>) -> Result<(), NetworkFailure> {
        let mut message = link_message(libc::RTM_NEWLINK, CREATE, 0, 0);
        message.text(libc::IFLA_IFNAME, name);
        mtu.map(|mtu| message.u32(libc::IFLA_MTU, mtu));
        message.nested(libc::IFLA_LINKINFO, |info| {
            info.text(libc::IFLA_INFO_KIND, "bridge");
        });
        self.0.request(message).named("create bridge", name)
    }

    /// Brings a link up, with further attributes.
    pub(super) fn set_link(
        &mut self,
        index: u32,
        attributes: impl FnOnce(&mut Message),
    ) -> Result<(), NetlinkError> {
        let up = u32::try_from(libc::IFF_UP).unwrap_or_default();
        let mut message = link_message(libc::RTM_NEWLINK, REQUEST, index, up);
        attributes(&mut message);
        self.0.request(message)
    }

    /// A missing link is success.
    pub(super) fn delete_link(&mut self, name: &str) -> Result<(), NetworkFailure> {
        let mut message = link_message(libc::RTM_DELLINK, REQUEST, 0, 0);
        message.text(libc::IFLA_IFNAME, name);
        match self.0.request(message) {
            Err(NetlinkError { errno: Errno::NODEV, .. }) => Ok(()),
            result => result.named("remove link", name),
        }
    }

    /// Sends a message of the module's submodules.
    fn request(&mut self, message: Message) -> Result<(), NetlinkError> {
        self.0.request(message)
    }

    /// Without a check for duplicates (DAD): podward hands out each address once.
    pub(super) fn add_address(&mut self, link: &Link, address: Cidr) -> Result<(), NetworkFailure> {
        let mut message = address_message(libc::RTM_NEWADDR, CREATE, link.index, address);
        if let (IpAddr::V4(_), true) = (address.last(), address.prefix() < 31) {
            message.bytes(libc::IFA_BROADCAST, &octets(address.last()));
        }
        message.u32(IFA_FLAGS, libc::IFA_F_NODAD);
        self.0.request(message).named("add address", format!("{address} to {}", link.name))
    }

    /// A missing address is success.
    pub(super) fn remove_address(&mut self, link: &Link, address: Cidr) -> Result<(), NetworkFailure> {
        match self.0.request(address_message(libc::RTM_DELADDR, REQUEST, link.index, address)) {
            Err(NetlinkError { errno: Errno::ADDRNOTAVAIL, .. }) => Ok(()),
            result => result.named("remove address", format!("{address} from {}", link.name)),
        }
    }

    /// The addresses of all links, with the indexes of their links.
    pub(super) fn all_addresses(&mut self) -> Result<Vec<(u32, Cidr)>, NetworkFailure> {
        let mut addresses = Vec::new();
        let each = |content: &[u8]| addresses.extend(decode_address(content));
        self.0.ask(address_list(), each).named("list addresses of", "the node")?;
        Ok(addresses)
    }

    /// The addresses of a link, without link-local IPv6 addresses.
    pub(super) fn addresses(&mut self, link: &Link) -> Result<Vec<Cidr>, NetworkFailure> {
        let addresses = self.all_addresses()?.into_iter().filter(|(index, _)| *index == link.index);
        let addresses = addresses.map(|(_, address)| address);
        Ok(addresses.filter(|cidr| !is_link_local_v6(cidr.address())).collect())
    }

    pub(super) fn add_default_route(&mut self, link: &Link, gateway: IpAddr) -> Result<(), NetworkFailure> {
        let mut message = Message::new(libc::RTM_NEWROUTE, CREATE);
        let table = libc::RT_TABLE_MAIN;
        let (protocol, scope) = (libc::RTPROT_BOOT, libc::RT_SCOPE_UNIVERSE);
        message.raw(&[family(gateway), 0, 0, 0, table, protocol, scope, libc::RTN_UNICAST]).raw(&[0; 4]);
        message.bytes(libc::RTA_GATEWAY, &octets(gateway)).u32(libc::RTA_OIF, link.index);
        self.0.request(message).named("add default route through", gateway)
    }

    /// Removes what the kernel remembers about the hardware address of a pod, because the next pod with this address has another one.
    pub(super) fn forget_neighbour(&mut self, link: &Link, address: IpAddr) -> Result<(), NetworkFailure> {
        let mut message = Message::new(libc::RTM_DELNEIGH, REQUEST);
        message.raw(&[family(address), 0, 0, 0]).raw(&link.index.to_ne_bytes()).raw(&[0; 4]);
        message.bytes(libc::NDA_DST, &octets(address));
        match self.0.request(message) {
            Err(NetlinkError { errno: Errno::NOENT, .. }) => Ok(()),
            result => result.named("remove neighbour", address),
        }
    }
}

fn link_message(kind: u16, flags: i32, index: u32, set: u32) -> Message {
    let mut message = Message::new(kind, flags);
    // Family, padding and type; then the index, the flags and which of them to change.
    message.raw(&[0; 4]).raw(&index.to_ne_bytes()).raw(&set.to_ne_bytes()).raw(&set.to_ne_bytes());
    message
}

fn address_message(kind: u16, flags: i32, index: u32, address: Cidr) -> Message {
    let mut message = Message::new(kind, flags);
    message.raw(&[family(address.address()), address.prefix(), 0, libc::RT_SCOPE_UNIVERSE]);
    message.raw(&index.to_ne_bytes());
    let octets = octets(address.address());
    message.bytes(libc::IFA_LOCAL, &octets).bytes(libc::IFA_ADDRESS, &octets);
    message
}

fn address_list() -> Message {
    let mut message = Message::new(libc::RTM_GETADDR, LIST);
    message.raw(&[0; 8]);
    message
}

fn decode_address(content: &[u8]) -> Option<(u32, Cidr)> {
    let ([_, prefix, _, _, i0, i1, i2, i3], rest) = content.split_first_chunk()?;
    // For IPv4, IFA_ADDRESS is the other end of a point-to-point link; IPv6 has no IFA_LOCAL.
    let address = find(rest, libc::IFA_LOCAL).or_else(|| find(rest, libc::IFA_ADDRESS))?;
    let cidr = Cidr::new(address_of(address)?, *prefix).ok()?;
    Some((u32::from_ne_bytes([*i0, *i1, *i2, *i3]), cidr))
}

fn address_of(octets: &[u8]) -> Option<IpAddr> {
    <[u8; 4]>::try_from(octets)
        .map(IpAddr::from)
        .or_else(|_| <[u8; 16]>::try_from(octets).map(IpAddr::from))
        .ok()
}

fn is_link_local_v6(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

fn family(address: IpAddr) -> u8 {
    let family = if address.is_ipv6() { libc::AF_INET6 } else { libc::AF_INET };
    u8::try_from(family).unwrap_or_default()
}

pub(super) fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// Names the operation and its subject in an error of the kernel.
pub(super) trait Named<T> {
    fn named(self, operation: &'static str, subject: impl ToString) -> Result<T, NetworkFailure>;
}

impl<T> Named<T> for Result<T, NetlinkError> {
    fn named(self, operation: &'static str, subject: impl ToString) -> Result<T, NetworkFailure> {
        self.map_err(|NetlinkError { errno, detail }| {
            let subject = subject.to_string();
            if detail.is_empty() {
                NetworkFailure::Os { operation, subject, errno }
            } else {
                NetworkFailure::Netlink { operation, subject, errno, detail }
            }
        })
    }
}
