//! Formats of names, keys and addresses. Each function returns a message if the text does not have the format.

use std::net::{IpAddr, Ipv6Addr};

const MAX_LABEL_LENGTH: usize = 63;
const MAX_SUBDOMAIN_LENGTH: usize = 253;

/// A DNS label (RFC 1123).
pub(crate) fn dns_label(text: &str) -> Option<String> {
    limited(
        text,
        MAX_LABEL_LENGTH,
        is_label(text),
        "a lowercase RFC 1123 label must consist of lower case letters, digits and '-', and must start and end with a letter or digit",
    )
}

/// Dot-separated DNS labels.
pub(crate) fn dns_subdomain(text: &str) -> Option<String> {
    limited(
        text,
        MAX_SUBDOMAIN_LENGTH,
        text.split('.').all(is_label),
        "a lowercase RFC 1123 subdomain must consist of lower case letters, digits, '-' and '.', and must start and end with a letter or digit",
    )
}

/// Dot-separated DNS labels that may contain underscores, for DNS search lists.
pub(crate) fn dns_search(text: &str) -> Option<String> {
    let is_edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    limited(
        text,
        MAX_SUBDOMAIN_LENGTH,
        text.split('.').all(|part| is_word(part, is_edge, &['-'])),
        "a search domain must consist of lower case letters, digits, '-', '_' and '.', and must start and end with a letter, digit or '_'",
    )
}

/// A label or annotation key: an optional DNS prefix with a slash, then a name.
pub(crate) fn qualified_name(text: &str) -> Option<String> {
    let name = match text.split_once('/') {
        Some((_, name)) if name.contains('/') => {
            return Some("a qualified name must have at most one '/', between prefix and name".to_owned());
        }
        Some(("", _)) => return Some("prefix part must be non-empty".to_owned()),
        Some((prefix, name)) => match dns_subdomain(prefix) {
            Some(message) => return Some(format!("prefix part {message}")),
            None => name,
        },
        None => text,
    };
    if name.is_empty() {
        return Some("name part must be non-empty".to_owned());
    }
    too_long(name, MAX_LABEL_LENGTH).map(|message| format!("name part {message}")).or_else(|| {
        message_unless(
            is_name(name),
            "name part must consist of letters, digits, '-', '_' and '.', and must start and end with a letter or digit",
        )
    })
}

/// A label value; may be empty.
pub(crate) fn label_value(text: &str) -> Option<String> {
    limited(
        text,
        MAX_LABEL_LENGTH,
        text.is_empty() || is_name(text),
        "a label value must be empty or consist of letters, digits, '-', '_' and '.', and must start and end with a letter or digit",
    )
}

pub(crate) fn port_name(text: &str) -> Option<String> {
    let is_valid = text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
        && text.bytes().any(|byte| byte.is_ascii_lowercase())
        && !text.contains("--")
        && !text.starts_with('-')
        && !text.ends_with('-');
    limited(
        text,
        15,
        is_valid,
        "a port name must consist of lower case letters, digits and single '-' between them, and must contain at least one letter",
    )
}

pub(crate) fn env_name(text: &str) -> Option<String> {
    message_unless(
        text.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'='),
        "an environment variable name must consist of printable ASCII characters other than '='",
    )
}

pub(crate) fn config_key(text: &str) -> Option<String> {
    let is_valid = !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
        && text != "."
        && !text.starts_with("..");
    limited(
        text,
        MAX_SUBDOMAIN_LENGTH,
        is_valid,
        "a key must consist of letters, digits, '-', '_' and '.', must not be '.' and must not start with '..'",
    )
}

pub(crate) fn header_name(text: &str) -> Option<String> {
    let is_valid = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    message_unless(is_valid, "an HTTP header name must consist of letters, digits and '-'")
}

/// An IP address without leading zeros that is not an IPv4-mapped IPv6 address.
pub(crate) fn ip_address(text: &str) -> Option<String> {
    let is_mapped = |address: Ipv6Addr| address.to_ipv4_mapped().is_some();
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V6(address)) if is_mapped(address) => {
            Some("must not be an IPv4-mapped IPv6 address".to_owned())
        }
        Ok(_) => None,
        Err(_) => Some("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".to_owned()),
    }
}

/// Upstream's former rule: an IP address that may have leading zeros or be an IPv4-mapped IPv6 address.
pub(crate) fn lenient_ip_address(text: &str) -> Option<String> {
    let part = |part: &str| {
        let number = part.trim_start_matches('0');
        if number.is_empty() && !part.is_empty() { "0".to_owned() } else { number.to_owned() }
    };
    // Only IPv4 addresses have dots, also at the end of an IPv6 address.
    let (before, dotted) = match text.rsplit_once(':') {
        Some((before, dotted)) => (format!("{before}:"), dotted),
        None => (String::new(), text),
    };
    let dotted = match dotted.contains('.') {
        true => dotted.split('.').map(part).collect::<Vec<_>>().join("."),
        false => dotted.to_owned(),
    };
    let is_valid = format!("{before}{dotted}").parse::<IpAddr>().is_ok();
    message_unless(is_valid, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")
}

pub(crate) fn port_number(number: i64) -> Option<String> {
    message_unless((1..=65535).contains(&number), "must be between 1 and 65535, inclusive")
}

/// A relative path without `..`.
pub(crate) fn local_path(text: &str) -> Option<String> {
    if text.starts_with('/') {
        return Some("must be a relative path".to_owned());
    }
    path_without_backsteps(text)
}

/// A relative path that does not start with `..`, which is reserved for the volume's own directories.
pub(crate) fn unreserved_path(text: &str) -> Option<String> {
    local_path(text).or_else(|| message_unless(!text.starts_with(".."), "must not start with '..'"))
}

/// A path without a `..` element.
pub(crate) fn path_without_backsteps(text: &str) -> Option<String> {
    message_unless(text.split('/').all(|part| part != ".."), "must not contain '..'")
}

fn is_label(text: &str) -> bool {
    is_word(text, |c| c.is_ascii_lowercase() || c.is_ascii_digit(), &['-'])
}

fn is_name(text: &str) -> bool {
    is_word(text, |c| c.is_ascii_alphanumeric(), &['-', '_', '.'])
}

/// Whether a text starts and ends with an edge character and otherwise contains only those and `inner`.
pub(super) fn is_word(text: &str, is_edge: fn(char) -> bool, inner: &[char]) -> bool {
    text.starts_with(is_edge)
        && text.ends_with(is_edge)
        && text.chars().all(|c| is_edge(c) || inner.contains(&c))
}

fn too_long(text: &str, limit: usize) -> Option<String> {
    (text.len() > limit).then(|| format!("must be no more than {limit} bytes"))
}

fn limited(text: &str, limit: usize, is_valid: bool, message: &str) -> Option<String> {
    too_long(text, limit).or_else(|| message_unless(is_valid, message))
}

fn message_unless(is_valid: bool, message: &str) -> Option<String> {
    (!is_valid).then(|| message.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(format: fn(&str) -> Option<String>, good: &[&str], bad: &[&str]) {
        for text in good {
            assert_eq!(format(text), None, "{text}");
        }
        for text in bad {
            assert!(format(text).is_some(), "{text}");
        }
    }

    #[test]
    fn validates_dns_names() {
        let (label, subdomain) = ("a".repeat(64), "a.".repeat(127) + "a");
        check(dns_label, &["a", "1-a", "web"], &["", "-a", "a-", "A", "a.b", "a_b", &label]);
        check(dns_subdomain, &["a", "a.b-c.1"], &["", "a..b", ".a", "A", &subdomain]);
        check(dns_search, &["a_b.c", "_tcp"], &["a..b", "-a", ""]);
    }

    #[test]
    fn validates_keys_and_values() {
        let long = "a".repeat(64);
        check(qualified_name, &["app", "a.b/C_d"], &["", "a/b/c", "/a", "a/", "A.b/c", "a b", &long]);
        check(label_value, &["", "A.b_c"], &["-a", "a b", &long]);
        check(config_key, &["a.b", ".a"], &["", ".", "..", "..a", "a/b"]);
        check(env_name, &["PATH", "a.b-c", "1 x"], &["a=b", "ä", "a\tb"]);
        check(header_name, &["X-A"], &["", "a b", "a:"]);
    }

    #[test]
    fn validates_ports_addresses_and_paths() {
        check(port_name, &["http", "a-1"], &["", "80", "a--b", "-a", "HTTP", "abcdefghijklmnop"]);
        check(ip_address, &["10.0.0.1", "::1"], &["", "010.0.0.1", "::ffff:1.2.3.4", "a"]);
        check(local_path, &["a/b", "..a"], &["/a", "a/../b", ".."]);
        check(unreserved_path, &["a/b", ".a"], &["..a", "../a"]);
    }
}
