//! Parses IP addresses as upstream does.

use std::net::{IpAddr, Ipv4Addr};

/// Parses an IP address. Like upstream, accepts leading zeros in IPv4 addresses and treats the numbers as decimal.
pub fn parse_ip(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        return text.parse::<IpAddr>().ok().map(|ip| ip.to_canonical());
    }
    let number = |part: &'_ str| match part.trim_start_matches('0') {
        "" if !part.is_empty() => "0".to_owned(),
        digits => digits.to_owned(),
    };
    let plain: Vec<String> = text.split('.').map(number).collect();
    plain.join(".").parse::<Ipv4Addr>().ok().map(IpAddr::V4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_addresses_like_upstream() {
        for (text, expected) in [
            ("10.0.0.5", "10.0.0.5"),
            ("010.000.0.0005", "10.0.0.5"),
            ("::", "::"),
            ("2001:0db8::7", "2001:db8::7"),
            ("::ffff:10.0.0.5", "10.0.0.5"),
        ] {
            assert_eq!(parse_ip(text).map(|ip| ip.to_string()).as_deref(), Some(expected), "{text}");
        }
        for text in ["", "10.0.0", "10.0..5", "10.0.0.256", "0x10.0.0.5", " 10.0.0.5", "here", "fe80::1%eth0"]
        {
            assert_eq!(parse_ip(text), None, "{text}");
        }
    }
}
