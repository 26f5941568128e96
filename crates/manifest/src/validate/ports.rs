//! Rules for container ports.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Container;

use super::field::Field;
use super::{Context, formats};

pub(super) fn check(container: &Container, context: &Context<'_>, at: &Field<'_>) {
    let mut names = BTreeSet::new();
    for (at, port) in at.list("ports", &container.ports) {
        if let Some(name) = port.name.as_deref().filter(|name| !name.is_empty()) {
            match formats::port_name(name) {
                Some(message) => at.field("name").invalid(name, &message),
                None if names.insert(name) => {}
                None => at.field("name").duplicate(name),
            }
        }
        let number = i64::from(port.container_port);
        if number == 0 {
            at.field("containerPort").required("");
        } else {
            check_port_number(number, &at.field("containerPort"));
        }
        let host_port = i64::from(port.host_port.unwrap_or_default());
        if host_port != 0 {
            check_port_number(host_port, &at.field("hostPort"));
            if context.host_network() && host_port != number {
                let detail = "must match `containerPort` when `hostNetwork` is true";
                at.field("hostPort").invalid(host_port, detail);
            }
        }
        at.field("protocol").one_of(port.protocol.as_deref().unwrap_or_default(), &["SCTP", "TCP", "UDP"]);
    }
}

pub(super) fn check_port_number(number: i64, at: &Field<'_>) {
    if let Some(message) = formats::port_number(number) {
        at.invalid(number, &message);
    }
}

/// Checks that no two containers use the same port of the same host address.
pub(super) fn check_host_port_conflicts<'a>(containers: impl Iterator<Item = (Field<'a>, &'a Container)>) {
    let mut used = BTreeSet::new();
    for (at, container) in containers {
        for (at, port) in at.list("ports", &container.ports) {
            let host_port = port.host_port.unwrap_or_default();
            let protocol = port.protocol.as_deref().unwrap_or_default();
            let host_address =
                format!("{protocol}/{}/{host_port}", port.host_ip.as_deref().unwrap_or_default());
            if host_port != 0 && !used.insert(host_address.clone()) {
                at.field("hostPort").duplicate(&host_address);
            }
        }
    }
}
