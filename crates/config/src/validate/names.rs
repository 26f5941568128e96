//! Syntax checks for label keys and values, sysctl names and CPU lists.

/// Accepts a label or taint key: an optional DNS prefix with a slash, then a name.
pub(crate) fn is_qualified_name(key: &str) -> bool {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    prefix.is_none_or(is_dns_subdomain) && !name.is_empty() && is_label_value(name)
}

/// Accepts a label value: up to 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends; or empty.
pub(super) fn is_label_value(value: &str) -> bool {
    value.len() <= 63
        && value.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
        && both_ends_match(value, |c| c.is_ascii_alphanumeric())
}

fn is_dns_subdomain(name: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty()
            && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
            && both_ends_match(part, |c| c != '-')
    };
    name.len() <= 253 && name.split('.').all(is_part)
}

fn both_ends_match(text: &str, matches: impl Fn(char) -> bool) -> bool {
    text.chars().next().is_none_or(&matches) && text.chars().next_back().is_none_or(&matches)
}

/// Accepts a sysctl name, or a prefix of one followed by `*`.
pub(super) fn is_sysctl_pattern(pattern: &str) -> bool {
    let name = pattern.strip_suffix('*').unwrap_or(pattern);
    let is_part = |part: &str| {
        !part.is_empty()
            && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_'))
            && both_ends_match(part, |c| c.is_ascii_alphanumeric())
    };
    if pattern.len() > 253 || pattern.is_empty() {
        return false;
    }
    let mut parts: Vec<&str> = name.split(['.', '/']).collect();
    if name.len() < pattern.len() {
        // The text before the star may be empty or an incomplete part of the name.
        let start = parts.pop().unwrap_or_default();
        let start_is_valid = start.is_empty() || start.starts_with(|c: char| c.is_ascii_alphanumeric());
        return start_is_valid
            && start.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_'))
            && parts.into_iter().all(is_part);
    }
    parts.into_iter().all(is_part)
}

/// Whether a sysctl, or every sysctl with this prefix, is namespaced and so can be set per pod.
pub(super) fn is_namespaced_sysctl(pattern: &str) -> bool {
    let name = pattern.strip_suffix('*').unwrap_or(pattern).replace('/', ".");
    name == "kernel.sem"
        || ["kernel.shm", "kernel.msg", "fs.mqueue.", "net."].iter().any(|prefix| name.starts_with(prefix))
}

/// Accepts a list of CPUs such as `0-3,8`.
pub(super) fn is_cpu_list(text: &str) -> bool {
    text.split(',').all(|part| match part.split_once('-') {
        Some((first, last)) => match (first.parse::<u32>(), last.parse::<u32>()) {
            (Ok(first), Ok(last)) => first <= last,
            _ => false,
        },
        None => part.parse::<u32>().is_ok(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_valid_names_and_rejects_others() {
        type Predicate = fn(&str) -> bool;
        type Names = &'static [&'static str];
        let predicates: [(&str, Predicate, Names, Names); 4] = [
            (
                "key",
                is_qualified_name,
                &["a", "a.b/c_D", "x-y.z/1"],
                &["", "/a", "a/", "A/b", "a/b/c", "-a", "a b"],
            ),
            ("value", is_label_value, &["", "a", "A.b_c-9"], &["-a", "a-", "a/b", "ä"]),
            (
                "sysctl",
                is_sysctl_pattern,
                &["net.ipv4.ip_forward", "net/ipv4/x", "kernel.shm*", "net.*", "net.ipv4.tcp_*"],
                &["", "*.net", "net..x", "Net.x", "net.*x", "net. x"],
            ),
            ("cpus", is_cpu_list, &["0", "0-3,8"], &["", "a", "3-0", "0-", "1,,2"]),
        ];
        for (subject, accepts, good, bad) in predicates {
            good.iter().for_each(|name| assert!(accepts(name), "{subject} {name:?}"));
            bad.iter().for_each(|name| assert!(!accepts(name), "{subject} {name:?}"));
        }
        assert!(!is_label_value(&"a".repeat(64)));
        assert!(is_namespaced_sysctl("net/ipv4/ip_forward") && is_namespaced_sysctl("kernel.shm*"));
        assert!(!is_namespaced_sysctl("kernel.*") && !is_namespaced_sysctl("vm.swappiness"));
    }
}
