//! Kernel parameters that a pod may set: only those that belong to its own namespaces.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::errors::ServiceError;

const FIELD: &str = "sysctls";
/// Parameters of the IPC namespace, without those of message queues.
const IPC: &[&str] = &[
    "kernel/msgmax",
    "kernel/msgmnb",
    "kernel/msgmni",
    "kernel/sem",
    "kernel/shmall",
    "kernel/shmmax",
    "kernel/shmmni",
    "kernel/shm_rmid_forced",
];
const MAX_VALUE_BYTES: usize = 4096;

/// Namespaces that a pod does not share with the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnNamespaces {
    pub(crate) network: bool,
    pub(crate) ipc: bool,
    pub(crate) uts: bool,
    pub(crate) user: bool,
}

/// A checked parameter: its path below `/proc/sys`, and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sysctl {
    pub(crate) path: PathBuf,
    pub(crate) value: String,
}

/// The parameters of a pod: those of the request, and those that every pod with its own network has.
pub(crate) fn sysctls(
    requested: &BTreeMap<String, String>,
    own: OwnNamespaces,
) -> Result<Vec<Sysctl>, ServiceError> {
    // Programs of a pod may listen on every port and send pings without privileges.
    const DEFAULTS: &[(&str, &str)] =
        &[("net/ipv4/ip_unprivileged_port_start", "0"), ("net/ipv4/ping_group_range", "0 2147483647")];
    let mut checked = BTreeMap::new();
    if own.network {
        checked.extend(DEFAULTS.iter().map(|(path, value)| ((*path).to_owned(), (*value).to_owned())));
        if own.user {
            // The kernel refuses groups that are not mapped.
            checked.remove("net/ipv4/ping_group_range");
        }
    }
    for (name, value) in requested {
        checked.insert(path_of(name, own)?, checked_value(name, value)?);
    }
    let sysctl = |(path, value): (String, String)| Sysctl { path: PathBuf::from(path), value };
    Ok(checked.into_iter().map(sysctl).collect())
}

/// In names the first separator decides: after a dot, slashes are literal dots of a part, and the other way round.
fn path_of(name: &str, own: OwnNamespaces) -> Result<String, ServiceError> {
    let refuse = |problem: &str| Err(ServiceError::setting(FIELD, format!("{name:?} {problem}")));
    let path: String = match name.chars().find(|letter| matches!(letter, '.' | '/')) {
        Some('.') => name
            .chars()
            .map(|letter| match letter {
                '.' => '/',
                '/' => '.',
                other => other,
            })
            .collect(),
        Some(_) | None => name.to_owned(),
    };
    let plain = |part: &str| {
        !part.is_empty()
            && part != "."
            && part != ".."
            && part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':' | b'@'))
    };
    if !path.split('/').all(plain) {
        return refuse("is not the name of a kernel parameter");
    }
    if path == "kernel/hostname" {
        return refuse("is set by the field hostname");
    }
    let (of_pod, namespace) = if IPC.contains(&path.as_str()) || path.starts_with("fs/mqueue/") {
        (own.ipc, "IPC")
    } else if path == "kernel/domainname" {
        (own.uts, "UTS")
    } else if path.starts_with("net/") {
        (own.network, "network")
    } else {
        return refuse("is not a parameter of a namespace");
    };
    if of_pod { Ok(path) } else { refuse(&format!("needs an own {namespace} namespace")) }
}

fn checked_value(name: &str, value: &str) -> Result<String, ServiceError> {
    if value.len() > MAX_VALUE_BYTES || value.contains(['\0', '\n']) {
        return Err(ServiceError::setting(FIELD, format!("value of {name:?} is not valid")));
    }
    Ok(value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: OwnNamespaces = OwnNamespaces { network: true, ipc: true, uts: true, user: false };
    const NONE: OwnNamespaces = OwnNamespaces { network: false, ipc: false, uts: false, user: false };

    #[test]
    fn namespaced_parameters_are_accepted_with_their_namespace_only() {
        for (name, path) in [
            ("kernel.shm_rmid_forced", "kernel/shm_rmid_forced"),
            ("fs.mqueue.msg_max", "fs/mqueue/msg_max"),
            ("net.ipv4.conf.eth0/100.forwarding", "net/ipv4/conf/eth0.100/forwarding"),
            ("net/ipv4/conf/eth0.100/forwarding", "net/ipv4/conf/eth0.100/forwarding"),
            ("kernel.domainname", "kernel/domainname"),
        ] {
            assert_eq!(path_of(name, ALL).unwrap(), path);
            assert!(path_of(name, NONE).is_err(), "{name}");
        }
    }

    #[test]
    fn parameters_of_the_node_are_refused() {
        for name in [
            "kernel.core_pattern",
            "kernel.hostname",
            "vm.overcommit_memory",
            "net/../kernel/core_pattern",
            "net.ipv4..x",
            "kernel.shmmax+kernel.core_pattern=x",
            "",
            "net",
        ] {
            assert!(path_of(name, ALL).is_err(), "{name}");
        }
        assert!(checked_value("net.x", "1\n2").is_err());
    }

    #[test]
    fn own_network_gets_defaults_that_the_request_can_replace() {
        let values = |requested: &[(&str, &str)]| -> Vec<String> {
            let requested = requested.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            let checked = sysctls(&requested.collect(), ALL).unwrap();
            checked.into_iter().map(|sysctl| format!("{}={}", sysctl.path.display(), sysctl.value)).collect()
        };
        let ping = "net/ipv4/ping_group_range=0 2147483647";
        assert_eq!(values(&[]), ["net/ipv4/ip_unprivileged_port_start=0", ping]);
        assert_eq!(
            values(&[("net.ipv4.ip_unprivileged_port_start", "80")]),
            ["net/ipv4/ip_unprivileged_port_start=80", ping]
        );
        assert_eq!(sysctls(&BTreeMap::new(), NONE).unwrap(), []);
        let with_user = sysctls(&BTreeMap::new(), OwnNamespaces { user: true, ..ALL }).unwrap();
        assert_eq!(with_user.len(), 1);
    }
}
