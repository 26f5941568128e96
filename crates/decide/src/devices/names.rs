//! Names of resources that a device plugin may serve.

use crate::node::node_status::is_extended;

const QUOTA_PREFIX: &str = "requests.";
const MAX_NAME: usize = 63;
const MAX_DOMAIN: usize = 253;

/// Whether a name is that of an extended resource, and is still a qualified name with the prefix that quotas add.
pub fn is_device_resource(name: &str) -> bool {
    let Some((domain, local)) = name.split_once('/') else { return false };
    is_extended(name) && is_domain(&format!("{QUOTA_PREFIX}{domain}")) && is_local_name(local)
}

fn is_domain(text: &str) -> bool {
    let is_label = |label: &str| {
        has_alphanumeric_ends(label)
            && label.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    };
    text.len() <= MAX_DOMAIN && text.split('.').all(is_label)
}

fn is_local_name(text: &str) -> bool {
    text.len() <= MAX_NAME
        && has_alphanumeric_ends(text)
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

fn has_alphanumeric_ends(text: &str) -> bool {
    let ends = [text.bytes().next(), text.bytes().last()];
    ends.into_iter().all(|end| end.is_some_and(|byte| byte.is_ascii_alphanumeric()))
}

#[cfg(test)]
mod tests {
    use super::is_device_resource;

    #[test]
    fn extended_names_are_valid_unless_reserved_or_malformed() {
        for valid in ["vendor.com/gpu", "a/b", "example.com/A_b.c-1", "x-y.io/9"] {
            assert!(is_device_resource(valid), "{valid}");
        }
        let long = format!("vendor.com/{}", "x".repeat(64));
        for invalid in [
            "gpu",
            "",
            "vendor.com/",
            "/gpu",
            "vendor.com/a/b",
            "kubernetes.io/gpu",
            "x.kubernetes.io/gpu",
            "requests.vendor.com/gpu",
            "Vendor.com/gpu",
            "vendor..com/gpu",
            "vendor.com/-gpu",
            "vendor.com/gpu ",
            &long,
        ] {
            assert!(!is_device_resource(invalid), "{invalid}");
        }
    }
}
