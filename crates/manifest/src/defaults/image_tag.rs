//! The default pull policy of an image reference.
//!
//! Upstream parses the reference with the grammar of distribution. A reference that it cannot parse counts as "not
//! latest".

/// Maximum length of a repository name.
const MAX_NAME_LENGTH: usize = 255;

/// `Always` for the tag `latest`, explicit or implied; `IfNotPresent` otherwise.
pub(super) fn pull_policy(image: &str) -> &'static str {
    if tag(image) == Some("latest") { "Always" } else { "IfNotPresent" }
}

/// The tag of a reference. `latest` if there is neither tag nor digest; `None` if there is only a digest or the
/// reference is malformed.
fn tag(image: &str) -> Option<&str> {
    if image.len() == 64 && image.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return None;
    }
    let (name_and_tag, digest) = match image.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (image, None),
    };
    let (domain, remainder) = split_domain(name_and_tag);
    let (path, tag) = match remainder.split_once(':') {
        Some((path, tag)) => (path, Some(tag)),
        None => (remainder, None),
    };
    // Short names of the default registry are expanded with the prefix `library/`.
    let is_short = matches!(domain, None | Some("docker.io" | "index.docker.io")) && !path.contains('/');
    let length = path.len() + if is_short { "library/".len() } else { 0 };
    let is_valid = domain.is_none_or(is_domain)
        && length <= MAX_NAME_LENGTH
        && path.split('/').all(is_path_component)
        && tag.is_none_or(is_tag)
        && digest.is_none_or(is_digest);
    match (is_valid, tag, digest) {
        (false, ..) | (true, None, Some(_)) => None,
        (true, Some(tag), _) => Some(tag),
        (true, None, None) => Some("latest"),
    }
}

/// The first component is a registry only if it has a dot, a port or an upper case letter, or is `localhost`.
fn split_domain(reference: &str) -> (Option<&str>, &str) {
    match reference.split_once('/') {
        Some((first, rest))
            if first.contains(['.', ':'])
                || first == "localhost"
                || first.bytes().any(|byte| byte.is_ascii_uppercase()) =>
        {
            (Some(first), rest)
        }
        _ => (None, reference),
    }
}

fn is_domain(domain: &str) -> bool {
    let (host, port) = match domain.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (domain, None),
    };
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let is_host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(address) => {
            !address.is_empty() && address.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':')
        }
        None => host.split('.').all(|label| {
            !label.is_empty()
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
                && !label.starts_with('-')
                && !label.ends_with('-')
        }),
    };
    is_host && port.is_none_or(is_port)
}

/// Accepts lower-case alphanumerics, joined by `.`, `_`, `__` or any number of `-`.
fn is_path_component(component: &str) -> bool {
    let is_alphanumeric = |c: char| c.is_ascii_digit() || c.is_ascii_lowercase();
    let has_valid_ends = component.starts_with(is_alphanumeric) && component.ends_with(is_alphanumeric);
    let separators = component.split(is_alphanumeric).filter(|separator| !separator.is_empty());
    has_valid_ends
        && separators.into_iter().all(|separator| {
            matches!(separator, "." | "_" | "__") || separator.bytes().all(|byte| byte == b'-')
        })
}

fn is_tag(tag: &str) -> bool {
    tag.len() <= 128
        && tag.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && tag.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'))
}

fn is_digest(digest: &str) -> bool {
    let length = match digest.split_once(':') {
        Some(("sha256", hex)) => (hex, 64),
        Some(("sha384", hex)) => (hex, 96),
        Some(("sha512", hex)) => (hex, 128),
        _ => return false,
    };
    length.0.len() == length.1 && length.0.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pull_policy_is_always_only_for_latest() {
        let digest = format!("@sha256:{}", "a".repeat(64));
        for (image, policy) in [
            ("nginx", "Always"),
            ("nginx:latest", "Always"),
            ("nginx:1.25", "IfNotPresent"),
            ("registry.example.com:5000/team/app", "Always"),
            ("registry.example.com:5000/team/app:v1", "IfNotPresent"),
            ("localhost/app", "Always"),
            ("[::1]:5000/app", "Always"),
            (&format!("nginx{digest}"), "IfNotPresent"),
            (&format!("nginx:latest{digest}"), "Always"),
            ("nginx:latest@sha256:beef", "IfNotPresent"),
            ("Nginx", "IfNotPresent"),
            ("Host/app", "Always"),
            ("", "IfNotPresent"),
            ("bad image", "IfNotPresent"),
            ("a..b", "IfNotPresent"),
            ("a--b__c", "Always"),
            (&"a".repeat(64), "IfNotPresent"),
            (&"x".repeat(247), "Always"),
            (&"x".repeat(248), "IfNotPresent"),
            (&format!("a/{}", "x".repeat(253)), "Always"),
        ] {
            assert_eq!(pull_policy(image), policy, "{image}");
        }
    }
}
