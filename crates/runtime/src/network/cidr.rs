//! Address ranges in CIDR notation.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use thiserror::Error;

/// An address and the length of its network prefix. As a range, its address is the network's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cidr {
    address: IpAddr,
    prefix: u8,
}

#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("not an address and a prefix length, such as 10.85.0.0/16")]
pub struct InvalidCidr;

impl Cidr {
    pub fn new(address: IpAddr, prefix: u8) -> Result<Self, InvalidCidr> {
        if prefix > bits(address) { Err(InvalidCidr) } else { Ok(Self { address, prefix }) }
    }

    /// The range that contains only `address`.
    #[must_use]
    pub fn single(address: IpAddr) -> Self {
        Self { address, prefix: bits(address) }
    }

    #[must_use]
    pub fn address(self) -> IpAddr {
        self.address
    }

    #[must_use]
    pub fn prefix(self) -> u8 {
        self.prefix
    }

    #[must_use]
    pub fn is_v6(self) -> bool {
        self.address.is_ipv6()
    }

    /// The range, without the bits after the prefix.
    #[must_use]
    pub fn network(self) -> Self {
        Self { address: from_number(number(self.address) & !self.host_mask(), self.is_v6()), ..self }
    }

    #[must_use]
    pub fn contains(self, address: IpAddr) -> bool {
        address.is_ipv6() == self.is_v6() && (number(address) ^ number(self.address)) & !self.host_mask() == 0
    }

    /// Address number `index` of the range; `None` beyond its end.
    #[must_use]
    pub fn nth(self, index: u128) -> Option<IpAddr> {
        let network = number(self.address) & !self.host_mask();
        (index <= self.host_mask()).then(|| from_number(network | index, self.is_v6()))
    }

    /// The position of an address of the range.
    #[must_use]
    pub fn position(self, address: IpAddr) -> u128 {
        number(address) & self.host_mask()
    }

    /// The last address.
    #[must_use]
    pub fn last(self) -> IpAddr {
        from_number(number(self.address) | self.host_mask(), self.is_v6())
    }

    fn host_mask(self) -> u128 {
        let host_bits = u32::from(bits(self.address) - self.prefix);
        1u128.checked_shl(host_bits).map_or(u128::MAX, |size| size - 1)
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.address, self.prefix)
    }
}

impl FromStr for Cidr {
    type Err = InvalidCidr;

    fn from_str(text: &str) -> Result<Self, InvalidCidr> {
        let (address, prefix) = text.split_once('/').ok_or(InvalidCidr)?;
        if !prefix.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(InvalidCidr);
        }
        let address = address.parse().map_err(|_| InvalidCidr)?;
        Self::new(address, prefix.parse().map_err(|_| InvalidCidr)?)
    }
}

fn bits(address: IpAddr) -> u8 {
    if address.is_ipv6() { 128 } else { 32 }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address),
    }
}

fn from_number(number: u128, is_v6: bool) -> IpAddr {
    match u32::try_from(number) {
        Ok(number) if !is_v6 => Ipv4Addr::from(number).into(),
        _ => Ipv6Addr::from(number).into(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cidr(text: &str) -> Cidr {
        text.parse().unwrap()
    }

    #[test]
    fn parses_and_prints_ranges() {
        for text in ["10.85.0.0/16", "0.0.0.0/0", "192.168.1.7/32", "fd00:85::/64", "::/0", "::1/128"] {
            assert_eq!(cidr(text).to_string(), text);
        }
        for text in
            ["10.85.0.0", "10.85.0.0/33", "10.85.0/16", "fd00::/129", "/8", "1.2.3.4/+8", "1.2.3.4/", ""]
        {
            assert_eq!(text.parse::<Cidr>(), Err(InvalidCidr), "{text}");
        }
    }

    #[test]
    fn counts_addresses_of_a_range() {
        let range = cidr("10.1.2.129/30");
        assert_eq!(range.network(), cidr("10.1.2.128/30"));
        assert_eq!(range.last().to_string(), "10.1.2.131");
        assert_eq!(range.nth(1).map(|address| address.to_string()).as_deref(), Some("10.1.2.129"));
        assert_eq!(range.nth(4), None);
        assert_eq!(cidr("::/0").nth(u128::MAX).map(|address| address.is_ipv6()), Some(true));
    }

    proptest! {
        #[test]
        fn address_of_a_position_is_inside_at_that_position(bits: u128, is_v6: bool, prefix in 0u8..=128, index: u128) {
            let address = from_number(if is_v6 { bits } else { bits >> 96 }, is_v6);
            prop_assume!(is_v6 || prefix <= 32);
            let range = Cidr::new(address, prefix).unwrap();
            prop_assert!(range.contains(address) && range.contains(range.last()));
            prop_assert_eq!(range.to_string().parse(), Ok(range));
            if let Some(found) = range.nth(index) {
                prop_assert!(range.contains(found));
                prop_assert_eq!(range.position(found), index);
            }
        }
    }
}
