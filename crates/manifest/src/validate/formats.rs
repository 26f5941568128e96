//! The formats of names, keys and addresses. Each function returns the complaint, or nothing if the text is fine.

use std::net::{IpAddr, Ipv6Addr};

const LABEL_LENGTH: usize = 63;
const SUBDOMAIN_LENGTH: usize = 253;

/// A DNS label (RFC 1123).
pub(crate) fn dns_label(text: &str) -> Option<String> {
    too_long(text, LABEL_LENGTH).or_else(|| {
        complain(
            is_label(text),
            "a lowercase RFC 1123 label has lower case letters, digits and '-', and starts and ends with a letter or digit",
        )
    })
}

/// Dot-separated DNS labels.
pub(crate) fn dns_subdomain(text: &str) -> Option<String> {
    too_long(text, SUBDOMAIN_LENGTH).or_else(|| {
        complain(
            text.split('.').all(is_label),
            "a lowercase RFC 1123 subdomain has lower case letters, digits, '-' and '.', and starts and ends with a letter or digit",
        )
    })
}

/// Dot-separated DNS labels that may hold underscores, as DNS search lists do.
pub(crate) fn dns_search(text: &str) -> Option<String> {
    too_long(text, SUBDOMAIN_LENGTH).or_else(|| {
        let is_part = |part: &str| {
            let is_edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            part.starts_with(is_edge) && part.ends_with(is_edge) && part.chars().all(|c| is_edge(c) || c == '-')
        };
        complain(
            text.split('.').all(is_part),
            "a search domain has lower case letters, digits, '-', '_' and '.', and starts and ends with a letter, digit or '_'",
        )
    })
}

/// A label or annotation key: an optional DNS prefix, a slash, a name.
pub(crate) fn qualified_name(text: &str) -> Option<String> {
    let name = match text.split_once('/') {
        Some((_, name)) if name.contains('/') => {
            return Some("a qualified name has at most one '/', between prefix and name".to_owned());
        }
        Some(("", _)) => return Some("prefix part must be non-empty".to_owned()),
        Some((prefix, name)) => match dns_subdomain(prefix) {
            Some(complaint) => return Some(format!("prefix part {complaint}")),
            None => name,
        },
        None => text,
    };
    if name.is_empty() {
        return Some("name part must be non-empty".to_owned());
    }
    too_long(name, LABEL_LENGTH).map(|complaint| format!("name part {complaint}")).or_else(|| {
        complain(
            is_name(name),
            "name part has letters, digits, '-', '_' and '.', and starts and ends with a letter or digit",
        )
    })
}

/// The value of a label; may be empty.
pub(crate) fn label_value(text: &str) -> Option<String> {
    too_long(text, LABEL_LENGTH).or_else(|| {
        complain(
            text.is_empty() || is_name(text),
            "a label value is empty, or has letters, digits, '-', '_' and '.', and starts and ends with a letter or digit",
        )
    })
}

/// The name of a port (IANA service name).
pub(crate) fn port_name(text: &str) -> Option<String> {
    let is_fine = text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
        && text.bytes().any(|byte| byte.is_ascii_lowercase())
        && !text.contains("--")
        && !text.starts_with('-')
        && !text.ends_with('-');
    too_long(text, 15).or_else(|| {
        complain(
            is_fine,
            "a port name has lower case letters, digits and single inner '-', and at least one letter",
        )
    })
}

/// The name of an environment variable.
pub(crate) fn env_name(text: &str) -> Option<String> {
    complain(
        text.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'='),
        "an environment variable name has printable ASCII characters other than '='",
    )
}

/// The key of a ConfigMap or Secret.
pub(crate) fn config_key(text: &str) -> Option<String> {
    let is_fine = !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
        && text != "."
        && !text.starts_with("..");
    too_long(text, SUBDOMAIN_LENGTH).or_else(|| {
        complain(
            is_fine,
            "a key has letters, digits, '-', '_' and '.', and is neither '.' nor starts with '..'",
        )
    })
}

/// The name of an HTTP header.
pub(crate) fn header_name(text: &str) -> Option<String> {
    let is_fine = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    complain(is_fine, "an HTTP header name has letters, digits and '-'")
}

/// An IP address in its plain form: no leading zeros, no IPv4 inside IPv6.
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

/// An IP address as it was once read: zeros before a number of IPv4 do not count, and IPv4 may be written as IPv6.
pub(crate) fn sloppy_ip_address(text: &str) -> Option<String> {
    let part = |part: &str| {
        let number = part.trim_start_matches('0');
        if number.is_empty() && !part.is_empty() { "0".to_owned() } else { number.to_owned() }
    };
    // Only an address of IPv4 has dots, at the end of one of IPv6 too.
    let (before, dotted) = match text.rsplit_once(':') {
        Some((before, dotted)) => (format!("{before}:"), dotted),
        None => (String::new(), text),
    };
    let dotted = match dotted.contains('.') {
        true => dotted.split('.').map(part).collect::<Vec<_>>().join("."),
        false => dotted.to_owned(),
    };
    let is_fine = format!("{before}{dotted}").parse::<IpAddr>().is_ok();
    complain(is_fine, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")
}

/// The number of a port.
pub(crate) fn port_number(number: i64) -> Option<String> {
    complain((1..=65535).contains(&number), "must be between 1 and 65535, inclusive")
}

/// A path inside a directory: relative, without `..`.
pub(crate) fn descending_path(text: &str) -> Option<String> {
    if text.starts_with('/') {
        return Some("must be a relative path".to_owned());
    }
    no_backsteps(text)
}

/// A path inside a directory, that does not look like the directory's own hidden entries.
pub(crate) fn unreserved_path(text: &str) -> Option<String> {
    descending_path(text).or_else(|| complain(!text.starts_with(".."), "must not start with '..'"))
}

/// A path without a `..` element.
pub(crate) fn no_backsteps(text: &str) -> Option<String> {
    complain(text.split('/').all(|part| part != ".."), "must not contain '..'")
}

fn is_label(text: &str) -> bool {
    let is_edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.starts_with(is_edge) && text.ends_with(is_edge) && text.chars().all(|c| is_edge(c) || c == '-')
}

fn is_name(text: &str) -> bool {
    let is_edge = |c: char| c.is_ascii_alphanumeric();
    text.starts_with(is_edge)
        && text.ends_with(is_edge)
        && text.chars().all(|c| is_edge(c) || matches!(c, '-' | '_' | '.'))
}

fn too_long(text: &str, limit: usize) -> Option<String> {
    (text.len() > limit).then(|| format!("must be no more than {limit} bytes"))
}

fn complain(is_fine: bool, complaint: &str) -> Option<String> {
    (!is_fine).then(|| complaint.to_owned())
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
    fn dns_names() {
        let (label, subdomain) = ("a".repeat(64), "a.".repeat(127) + "a");
        check(dns_label, &["a", "1-a", "web"], &["", "-a", "a-", "A", "a.b", "a_b", &label]);
        check(dns_subdomain, &["a", "a.b-c.1"], &["", "a..b", ".a", "A", &subdomain]);
        check(dns_search, &["a_b.c", "_tcp"], &["a..b", "-a", ""]);
    }

    #[test]
    fn keys_and_values() {
        let long = "a".repeat(64);
        check(qualified_name, &["app", "a.b/C_d"], &["", "a/b/c", "/a", "a/", "A.b/c", "a b", &long]);
        check(label_value, &["", "A.b_c"], &["-a", "a b", &long]);
        check(config_key, &["a.b", ".a"], &["", ".", "..", "..a", "a/b"]);
        check(env_name, &["PATH", "a.b-c", "1 x"], &["a=b", "ä", "a\tb"]);
        check(header_name, &["X-A"], &["", "a b", "a:"]);
    }

    #[test]
    fn ports_addresses_paths() {
        check(port_name, &["http", "a-1"], &["", "80", "a--b", "-a", "HTTP", "abcdefghijklmnop"]);
        check(ip_address, &["10.0.0.1", "::1"], &["", "010.0.0.1", "::ffff:1.2.3.4", "a"]);
        check(descending_path, &["a/b", "..a"], &["/a", "a/../b", ".."]);
        check(unreserved_path, &["a/b", ".a"], &["..a", "../a"]);
    }
}
