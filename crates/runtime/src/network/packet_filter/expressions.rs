//! Expressions: the instructions of rules. They load parts of a packet into registers, compare them, and act.

use super::Message;

/// Four bytes each. What is longer continues in the next register.
const REGISTER_0: u32 = 8;
const VERDICT_REGISTER: u32 = 0;

const NFTA_LIST_ELEM: u16 = 1;
const NFTA_EXPR_NAME: u16 = 1;
const NFTA_EXPR_DATA: u16 = 2;
const NFTA_DATA_VALUE: u16 = 1;
const NFTA_DATA_VERDICT: u16 = 2;

const DROP: i32 = 0;
const JUMP: i32 = -3;
/// Set in the state of a connection whose destination was translated.
const DESTINATION_TRANSLATED: u32 = 1 << 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

impl Family {
    pub(super) const BOTH: [Self; 2] = [Self::V4, Self::V6];

    pub(super) fn number(self) -> u8 {
        match self {
            Self::V4 => 2,
            Self::V6 => 10,
        }
    }

    pub(super) fn is_v6(self) -> bool {
        self == Self::V6
    }

    pub(super) fn address_bytes(self) -> u32 {
        match self {
            Self::V4 => 4,
            Self::V6 => 16,
        }
    }

    fn address_offset(self, side: Side) -> u32 {
        match (self, side) {
            (Self::V4, Side::Source) => 12,
            (Self::V4, Side::Destination) => 16,
            (Self::V6, Side::Source) => 8,
            (Self::V6, Side::Destination) => 24,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Source,
    Destination,
}

/// A part of a packet, as a field of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Protocol,
    DestinationPort,
    /// The destination port before the translation.
    OriginalPort,
    Address(Family, Side),
}

/// One instruction. A comparison that fails ends the rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expression {
    InputLink(String),
    IsFamily(Family),
    /// The address has these bits in its first byte, under a mask.
    FirstByte {
        family: Family,
        side: Side,
        mask: u8,
        value: u8,
        is_equal: bool,
    },
    /// The destination is an address of the node.
    DestinationIsLocal,
    DestinationWasTranslated,
    /// The fields together are a key of a set.
    InSet {
        fields: Vec<Field>,
        set: String,
        is_member: bool,
    },
    /// The fields together are a key of a map; its value, an address and a port, becomes the destination.
    TranslateDestination {
        fields: Vec<Field>,
        map: String,
        family: Family,
    },
    Masquerade,
    Drop,
    Jump(&'static str),
}

impl Expression {
    pub(super) fn encode(&self, list: &mut Message) {
        match self {
            Self::InputLink(name) => {
                load_meta(list, 6, REGISTER_0);
                let mut padded = name.clone().into_bytes();
                padded.resize(16, 0);
                compare(list, 0, &padded);
            }
            Self::IsFamily(family) => {
                load_meta(list, 15, REGISTER_0);
                compare(list, 0, &[family.number()]);
            }
            Self::FirstByte { family, side, mask, value, is_equal } => {
                load_payload(list, 1, family.address_offset(*side), 1, REGISTER_0);
                mask_register(list, &[*mask]);
                compare(list, u32::from(!is_equal), &[*value]);
            }
            Self::DestinationIsLocal => {
                expression(list, "fib", |fib| {
                    // Into a register: the type of the destination address, which is 2 for addresses of the node.
                    fib.u32_be(1, REGISTER_0).u32_be(2, 3).u32_be(3, 2);
                });
                compare(list, 0, &u32::from(libc::RTN_LOCAL).to_ne_bytes());
            }
            Self::DestinationWasTranslated => {
                expression(list, "ct", |ct| {
                    ct.u32_be(1, REGISTER_0).u32_be(2, 2);
                });
                mask_register(list, &DESTINATION_TRANSLATED.to_ne_bytes());
                compare(list, 1, &[0; 4]);
            }
            Self::InSet { fields, set, is_member } => {
                load_fields(list, fields);
                expression(list, "lookup", |lookup| {
                    lookup.text(1, set).u32_be(2, REGISTER_0).u32_be(5, u32::from(!is_member));
                });
            }
            Self::TranslateDestination { fields, map, family } => {
                load_fields(list, fields);
                expression(list, "lookup", |lookup| {
                    lookup.text(1, map).u32_be(2, REGISTER_0).u32_be(3, REGISTER_0);
                });
                let port_register = REGISTER_0 + family.address_bytes() / 4;
                expression(list, "nat", |nat| {
                    nat.u32_be(1, 1).u32_be(2, u32::from(family.number()));
                    nat.u32_be(3, REGISTER_0).u32_be(5, port_register);
                });
            }
            Self::Masquerade => expression(list, "masq", |_| {}),
            Self::Drop => verdict(list, DROP, None),
            Self::Jump(chain) => verdict(list, JUMP, Some(chain)),
        }
    }
}

fn expression(list: &mut Message, name: &str, data: impl FnOnce(&mut Message)) {
    list.nested(NFTA_LIST_ELEM, |element| {
        element.text(NFTA_EXPR_NAME, name).nested(NFTA_EXPR_DATA, data);
    });
}

/// Loads the fields into consecutive registers, in the form that keys of sets have.
fn load_fields(list: &mut Message, fields: &[Field]) {
    let mut register = REGISTER_0;
    for field in fields {
        match *field {
            Field::Protocol => load_meta(list, 16, register),
            Field::DestinationPort => load_payload(list, 2, 2, 2, register),
            Field::OriginalPort => expression(list, "ct", |ct| {
                ct.u32_be(1, register).u32_be(2, 12).u8(3, 0);
            }),
            Field::Address(family, side) => {
                load_payload(list, 1, family.address_offset(side), family.address_bytes(), register);
            }
        }
        register += match field {
            Field::Address(family, _) => family.address_bytes() / 4,
            Field::Protocol | Field::DestinationPort | Field::OriginalPort => 1,
        };
    }
}

fn load_meta(list: &mut Message, key: u32, register: u32) {
    expression(list, "meta", |meta| {
        meta.u32_be(1, register).u32_be(2, key);
    });
}

/// Loads from the network header (base 1) or the transport header (base 2).
fn load_payload(list: &mut Message, base: u32, offset: u32, length: u32, register: u32) {
    expression(list, "payload", |payload| {
        payload.u32_be(1, register).u32_be(2, base).u32_be(3, offset).u32_be(4, length);
    });
}

/// Compares the first register: 0 is equal, 1 is not equal.
fn compare(list: &mut Message, operator: u32, value: &[u8]) {
    expression(list, "cmp", |cmp| {
        cmp.u32_be(1, REGISTER_0).u32_be(2, operator).nested(3, |data| {
            data.bytes(NFTA_DATA_VALUE, value);
        });
    });
}

fn mask_register(list: &mut Message, mask: &[u8]) {
    let length = u32::try_from(mask.len()).unwrap_or_default();
    expression(list, "bitwise", |bitwise| {
        bitwise.u32_be(1, REGISTER_0).u32_be(2, REGISTER_0).u32_be(3, length);
        bitwise.nested(4, |data| {
            data.bytes(NFTA_DATA_VALUE, mask);
        });
        bitwise.nested(5, |data| {
            data.bytes(NFTA_DATA_VALUE, &vec![0; mask.len()]);
        });
    });
}

fn verdict(list: &mut Message, code: i32, chain: Option<&str>) {
    expression(list, "immediate", |immediate| {
        immediate.u32_be(1, VERDICT_REGISTER).nested(2, |data| {
            data.nested(NFTA_DATA_VERDICT, |verdict| {
                verdict.u32_be(1, code.cast_unsigned());
                chain.map(|chain| verdict.text(2, chain));
            });
        });
    });
}
