//! Rules for container ports.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, ContainerPort};

use super::checker::Checker;
use super::{Context, formats};
use crate::path::Path;

pub(super) fn check(ports: &[ContainerPort], context: &Context<'_>, path: &Path, checker: &mut Checker) {
    let mut names = BTreeSet::new();
    for (path, port) in path.items(ports) {
        if let Some(name) = port.name.as_deref().filter(|name| !name.is_empty()) {
            match formats::port_name(name) {
                Some(message) => checker.invalid(&path.field("name"), name, &message),
                None if names.insert(name) => {}
                None => checker.duplicate(&path.field("name"), name),
            }
        }
        let number = i64::from(port.container_port);
        if number == 0 {
            checker.required(&path.field("containerPort"), "");
        } else {
            check_port_number(number, &path.field("containerPort"), checker);
        }
        let host_port = i64::from(port.host_port.unwrap_or_default());
        if host_port != 0 {
            check_port_number(host_port, &path.field("hostPort"), checker);
            if context.host_network() && host_port != number {
                let detail = "must match `containerPort` when `hostNetwork` is true";
                checker.invalid(&path.field("hostPort"), host_port, detail);
            }
        }
        checker.one_of(
            &path.field("protocol"),
            port.protocol.as_deref().unwrap_or_default(),
            &["SCTP", "TCP", "UDP"],
        );
    }
}

pub(super) fn check_port_number(number: i64, path: &Path, checker: &mut Checker) {
    if let Some(message) = formats::port_number(number) {
        checker.invalid(path, number, &message);
    }
}

/// Checks that no two containers use the same port of the same host address.
pub(super) fn check_host_port_conflicts<'a>(
    containers: impl Iterator<Item = (Path, &'a Container)>,
    checker: &mut Checker,
) {
    let mut used = BTreeSet::new();
    for (path, container) in containers {
        for (path, port) in path.field("ports").items(container.ports.as_deref().unwrap_or_default()) {
            let host_port = port.host_port.unwrap_or_default();
            let protocol = port.protocol.as_deref().unwrap_or_default();
            let host_address =
                format!("{protocol}/{}/{host_port}", port.host_ip.as_deref().unwrap_or_default());
            if host_port != 0 && !used.insert(host_address.clone()) {
                checker.duplicate(&path.field("hostPort"), &host_address);
            }
        }
    }
}
