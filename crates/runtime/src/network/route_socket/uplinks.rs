//! The links through which a node reaches others.

use super::{LIST, Link, Message, Named, NetworkFailure, RouteSocket, find, link_message};

/// The least that IPv6 permits, and the most that a link of a pod can have.
const MTU_RANGE: std::ops::RangeInclusive<u32> = 1280..=65535;

impl RouteSocket {
    /// The smallest packet size of the links with a default route. A pod with a larger one would invite its peers to send packets that
    /// do not arrive.
    pub(in crate::network) fn uplink_mtu(&mut self) -> Result<Option<u32>, NetworkFailure> {
        let mut list = Message::new(libc::RTM_GETROUTE, LIST);
        list.raw(&[0; 12]);
        let mut uplinks = Vec::new();
        self.0.ask(list, |content| uplinks.extend(default_route_link(content))).named("list", "routes")?;
        if uplinks.is_empty() {
            return Ok(None);
        }
        let mut smallest = None;
        let each = |content: &[u8]| {
            let link = Link::decode(content).filter(|link| uplinks.contains(&link.index));
            let mtu = link.and_then(|link| link.mtu).filter(|mtu| MTU_RANGE.contains(mtu));
            smallest = [smallest, mtu].into_iter().flatten().min();
        };
        self.0.ask(link_message(libc::RTM_GETLINK, LIST, 0, 0), each).named("list", "links")?;
        Ok(smallest)
    }
}

/// The link of a default route in the main table.
fn default_route_link(content: &[u8]) -> Option<u32> {
    let ([_, prefix, _, _, table, _, _, kind, ..], attributes) = content.split_first_chunk::<12>()?;
    let is_default = *prefix == 0 && *table == libc::RT_TABLE_MAIN && *kind == libc::RTN_UNICAST;
    let link = find(attributes, libc::RTA_OIF).filter(|_| is_default)?;
    link.try_into().map(u32::from_ne_bytes).ok()
}
