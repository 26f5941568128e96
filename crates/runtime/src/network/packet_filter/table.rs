//! The content of the table: chains, sets and rules.

use super::expressions::{Expression, Family, Field, Side};
use super::{CREATE, FAMILY_INET, FilterContent, Message, PacketFilter, elements, message};

pub(super) const NEW: u16 = 0;
pub(super) const DELETE: u16 = 2;
const NEW_CHAIN: u16 = 3;
const NEW_RULE: u16 = 6;
const APPEND: i32 = CREATE | libc::NLM_F_APPEND;

const PREROUTING: u32 = 0;
const OUTPUT: u32 = 3;
const POSTROUTING: u32 = 4;
/// Before connection tracking.
const RAW: i32 = -300;
const DESTINATION_NAT: i32 = -100;
const SOURCE_NAT: i32 = 100;

const HOST_PORTS: &str = "host_ports";
/// 127.0.0.0/8.
const LOOPBACK: u8 = 127;
/// 224.0.0.0/4 and ff00::/8.
const MULTICAST_V4: (u8, u8) = (0xf0, 0xe0);
const MULTICAST_V6: (u8, u8) = (0xff, 0xff);

/// A chain; without a hook, other chains jump to it.
struct Chain {
    name: &'static str,
    hook: Option<(&'static str, u32, i32)>,
    rules: Vec<Vec<Expression>>,
}

/// All messages that fill an empty table, which the first of them creates.
pub(super) fn messages(filter: &PacketFilter, content: &FilterContent) -> Vec<Message> {
    let mut messages = vec![filter.table_message(NEW, CREATE)];
    let chains = chains(&filter.bridge);
    messages.extend(chains.iter().map(|chain| chain_message(filter, chain)));
    messages.extend(elements::set_messages(filter));
    for chain in &chains {
        messages.extend(chain.rules.iter().map(|rule| rule_message(filter, chain.name, rule)));
    }
    messages.extend(elements::range_messages(filter, &content.ranges));
    messages.extend(elements::messages(filter, elements::NEW, CREATE, &content.ports));
    messages
}

fn chains(bridge: &str) -> Vec<Chain> {
    let to_host_ports = || vec![vec![Expression::DestinationIsLocal, Expression::Jump(HOST_PORTS)]];
    vec![
        Chain {
            name: "loopback_guard",
            hook: Some(("filter", PREROUTING, RAW)),
            rules: [Side::Source, Side::Destination].map(|side| loopback_guard(bridge, side)).to_vec(),
        },
        Chain {
            name: "prerouting",
            hook: Some(("nat", PREROUTING, DESTINATION_NAT)),
            rules: to_host_ports(),
        },
        Chain { name: "output", hook: Some(("nat", OUTPUT, DESTINATION_NAT)), rules: to_host_ports() },
        Chain {
            name: HOST_PORTS,
            hook: None,
            rules: Family::BOTH.into_iter().flat_map(host_ports).collect(),
        },
        Chain {
            name: "postrouting",
            hook: Some(("nat", POSTROUTING, SOURCE_NAT)),
            rules: Family::BOTH.into_iter().flat_map(masquerade).collect(),
        },
    ]
}

/// `route_localnet`, which 127.0.0.1 needs for host ports, also lets packets from pods reach 127.0.0.1 of the node. They are
/// dropped here: no packet on the bridge has such an address before its translation is undone.
fn loopback_guard(bridge: &str, side: Side) -> Vec<Expression> {
    let family = Family::V4;
    vec![
        Expression::InputLink(bridge.to_owned()),
        Expression::IsFamily(family),
        Expression::FirstByte { family, side, mask: 0xff, value: LOOPBACK, is_equal: true },
        Expression::Drop,
    ]
}

/// A host port of one address of the node comes before one of all addresses.
fn host_ports(family: Family) -> [Vec<Expression>; 2] {
    let port = [Field::Protocol, Field::DestinationPort];
    let address = Field::Address(family, Side::Destination);
    let rule = |fields: Vec<Field>, map| {
        vec![Expression::IsFamily(family), Expression::TranslateDestination { fields, map, family }]
    };
    [
        rule([&port[..], &[address]].concat(), elements::address_port_map(family)),
        rule(port.to_vec(), elements::port_map(family)),
    ]
}

fn masquerade(family: Family) -> Vec<Vec<Expression>> {
    let address = |side| Field::Address(family, side);
    let in_ranges = |side, is_member| Expression::InSet {
        fields: vec![address(side)],
        set: elements::range_set(family),
        is_member,
    };
    // Connections that podward's rules have led to a pod. Those of Services are translated by others.
    let through_host_port = Expression::InSet {
        fields: vec![
            Field::OriginalPort,
            Field::Protocol,
            address(Side::Destination),
            Field::DestinationPort,
        ],
        set: elements::target_set(family),
        is_member: true,
    };
    let (mask, value) = if family.is_v6() { MULTICAST_V6 } else { MULTICAST_V4 };
    let is_not_multicast =
        Expression::FirstByte { family, side: Side::Destination, mask, value, is_equal: false };
    let is_loopback =
        Expression::FirstByte { family, side: Side::Source, mask: 0xff, value: LOOPBACK, is_equal: true };
    let host_port = |source| {
        vec![
            Expression::IsFamily(family),
            Expression::DestinationWasTranslated,
            source,
            through_host_port.clone(),
            Expression::Masquerade,
        ]
    };
    // A pod answers another pod directly, past the translation, unless the node is the source.
    let mut rules = vec![host_port(in_ranges(Side::Source, true))];
    if !family.is_v6() {
        // An answer to 127.0.0.1 would stay in the pod.
        rules.push(host_port(is_loopback));
    }
    rules.push(vec![
        Expression::IsFamily(family),
        in_ranges(Side::Source, true),
        in_ranges(Side::Destination, false),
        is_not_multicast,
        Expression::Masquerade,
    ]);
    rules
}

fn chain_message(filter: &PacketFilter, chain: &Chain) -> Message {
    let mut message = message(NEW_CHAIN, CREATE, FAMILY_INET);
    message.text(1, &filter.table).text(3, chain.name);
    if let Some((kind, hook, priority)) = chain.hook {
        message.nested(4, |place| {
            place.u32_be(1, hook).u32_be(2, priority.cast_unsigned());
        });
        message.text(7, kind);
    }
    message
}

fn rule_message(filter: &PacketFilter, chain: &str, rule: &[Expression]) -> Message {
    let mut message = message(NEW_RULE, APPEND, FAMILY_INET);
    message.text(1, &filter.table).text(2, chain).nested(4, |list| {
        rule.iter().for_each(|expression| expression.encode(list));
    });
    message
}
