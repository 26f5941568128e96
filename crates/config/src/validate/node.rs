//! Rules for the Node object, the API client, and the flags that describe the node.

use std::net::IpAddr;

use super::{
    Checker, field,
    names::{is_label_value, is_qualified_name},
};
use crate::{
    address::parse_ip,
    configuration::{ApiClient, Node, Tracing},
    flags::Flags,
    problem::Problem,
};

/// Hidden metrics can be shown for the previous minor version only.
const PREVIOUS_MINOR: &str = "1.35";

pub(super) fn check(checker: &mut Checker<'_>, node: &Node, api: &ApiClient) {
    checker.rule(node.node_lease_duration_seconds > 0, "nodeLeaseDurationSeconds", "must be greater than 0");
    let images = node.node_status_max_images;
    checker.rule(images >= -1, "nodeStatusMaxImages", format!("{images} must be -1 or more"));
    for (index, taint) in node.register_with_taints.iter().enumerate() {
        let path = || field("registerWithTaints").index(index);
        let key = &taint.key;
        checker.rule_at(
            is_qualified_name(key),
            || path().key("key"),
            format!("{key:?} is not a qualified name"),
        );
        let value = &taint.value;
        checker.rule_at(
            is_label_value(value),
            || path().key("value"),
            format!("{value:?} is not a label value"),
        );
        checker.rule_at(taint.time_added.is_none(), || path().key("timeAdded"), "must not be set");
    }
    checker.not_negative(api.kube_api_qps, "kubeAPIQPS");
    checker.not_negative(api.kube_api_burst, "kubeAPIBurst");
    checker.not_negative(api.event_record_qps, "eventRecordQPS");
    checker.not_negative(api.event_burst, "eventBurst");
    let hidden = api.show_hidden_metrics_for_version.as_str();
    checker.rule(
        hidden.is_empty() || hidden == PREVIOUS_MINOR,
        "showHiddenMetricsForVersion",
        format!("{hidden:?} must be empty or {PREVIOUS_MINOR:?}"),
    );
    if let Some(tracing) = &api.tracing {
        check_tracing(checker, tracing);
    }
}

fn check_tracing(checker: &mut Checker<'_>, tracing: &Tracing) {
    if let Some(rate) = tracing.sampling_rate_per_million {
        checker.in_range(rate, 0..=1_000_000, "tracing.samplingRatePerMillion");
    }
    if let Some(endpoint) = &tracing.endpoint {
        let scheme = endpoint.split_once("//").map_or("dns", |(scheme, _)| scheme.trim_end_matches(':'));
        let known = matches!(scheme, "dns" | "unix" | "unix-abstract");
        let clean = !endpoint.contains(|c: char| c.is_control() || c == ' ');
        checker.rule(
            known && clean,
            "tracing.endpoint",
            format!(
                "{endpoint:?} must be host:port, or an address with the scheme dns, unix or unix-abstract"
            ),
        );
    }
}

/// Label keys below `kubernetes.io` and `k8s.io` that a node may set on itself.
const ALLOWED_LABELS: [&str; 11] = [
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];
/// Label prefixes below which a node may set any label on itself.
const ALLOWED_LABEL_PREFIXES: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];

/// Checks all rules for values that only flags can set.
pub(crate) fn check_flags(flags: &Flags) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut rule = |valid: bool, flag: &'static str, reason: String| {
        if !valid {
            problems.push(Problem::of_flag(flag, reason));
        }
    };
    for (key, value) in &flags.node_labels {
        rule(is_qualified_name(key), "node-labels", format!("{key:?} is not a label key"));
        rule(is_label_value(value), "node-labels", format!("{key}: {value:?} is not a label value"));
        let allowed = ALLOWED_LABEL_PREFIXES.join(" or ");
        rule(
            may_set_label(key),
            "node-labels",
            format!(
                "{key:?}: a node may not set this label on itself; allowed are the prefixes {allowed}, and the labels {}",
                ALLOWED_LABELS.join(", ")
            ),
        );
    }
    if let Some(provider) = &flags.cloud_provider {
        rule(provider == "external", "cloud-provider", format!("{provider:?} must be empty or \"external\""));
    }
    if let Some(addresses) = &flags.node_ip {
        let reason = format!(
            "{addresses:?} must be one IP address, or one IPv4 and one IPv6 address, neither of them unspecified"
        );
        rule(is_node_ip(addresses), "node-ip", reason);
    }
    rule(
        !flags.exit_on_lock_contention || flags.lock_file.is_some(),
        "exit-on-lock-contention",
        "requires --lock-file".to_owned(),
    );
    problems
}

fn may_set_label(key: &str) -> bool {
    let Some((prefix, _)) = key.split_once('/') else { return true };
    let under = |parent: &str| prefix == parent || prefix.ends_with(&format!(".{parent}"));
    let reserved = under("kubernetes.io") || under("k8s.io");
    !reserved || ALLOWED_LABELS.contains(&key) || ALLOWED_LABEL_PREFIXES.into_iter().any(under)
}

/// Ignores invalid addresses as upstream does; the code that uses the flag reports them.
fn is_node_ip(text: &str) -> bool {
    let addresses: Vec<IpAddr> = text.split(',').filter_map(|part| parse_ip(part.trim())).collect();
    match addresses.as_slice() {
        [] | [_] => true,
        [first, second] => {
            first.is_ipv4() != second.is_ipv4() && !addresses.iter().any(IpAddr::is_unspecified)
        }
        [..] => false,
    }
}
