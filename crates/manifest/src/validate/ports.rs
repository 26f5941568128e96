//! Container ports.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, ContainerPort};

use super::checker::Checker;
use super::{Context, formats};
use crate::path::Path;

/// Checks one container's ports.
pub(super) fn check(ports: &[ContainerPort], context: &Context<'_>, at: &Path, check: &mut Checker) {
    let mut names = BTreeSet::new();
    for (at, port) in at.items(ports) {
        if let Some(name) = port.name.as_deref().filter(|name| !name.is_empty()) {
            match formats::port_name(name) {
                Some(complaint) => check.invalid(&at.field("name"), name, &complaint),
                None if names.insert(name) => {}
                None => check.duplicate(&at.field("name"), name),
            }
        }
        let number = i64::from(port.container_port);
        if number == 0 {
            check.required(&at.field("containerPort"), "");
        } else {
            port_number(number, &at.field("containerPort"), check);
        }
        let host_port = i64::from(port.host_port.unwrap_or_default());
        if host_port != 0 {
            port_number(host_port, &at.field("hostPort"), check);
            if context.host_network() && host_port != number {
                let detail = "must match `containerPort` when `hostNetwork` is true";
                check.invalid(&at.field("hostPort"), host_port, detail);
            }
        }
        check.one_of(
            &at.field("protocol"),
            port.protocol.as_deref().unwrap_or_default(),
            &["SCTP", "TCP", "UDP"],
        );
    }
}

/// A port's number must be a port number.
pub(super) fn port_number(number: i64, at: &Path, check: &mut Checker) {
    if let Some(complaint) = formats::port_number(number) {
        check.invalid(at, number, &complaint);
    }
}

/// Two containers cannot have the same port of the same host address.
pub(super) fn host_ports_do_not_conflict<'a>(
    containers: impl Iterator<Item = (Path, &'a Container)>,
    check: &mut Checker,
) {
    let mut taken = BTreeSet::new();
    for (at, container) in containers {
        for (at, port) in at.field("ports").items(container.ports.as_deref().unwrap_or_default()) {
            let host_port = port.host_port.unwrap_or_default();
            let protocol = port.protocol.as_deref().unwrap_or_default();
            let place = format!("{protocol}/{}/{host_port}", port.host_ip.as_deref().unwrap_or_default());
            if host_port != 0 && !taken.insert(place.clone()) {
                check.duplicate(&at.field("hostPort"), &place);
            }
        }
    }
}
