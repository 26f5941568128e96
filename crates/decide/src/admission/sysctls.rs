use model::{AdmissionSettings, KernelVersion, Pod, Rejection};
use values::sysctl::dotted_name;

/// Sysctls that every pod may set: they are namespaced and do not affect other pods. The version is the first kernel that
/// namespaces them.
const SAFE: [(&str, KernelVersion); 12] = [
    ("kernel.shm_rmid_forced", since(0, 0)),
    ("net.ipv4.ip_local_port_range", since(0, 0)),
    ("net.ipv4.tcp_syncookies", since(0, 0)),
    ("net.ipv4.ping_group_range", since(0, 0)),
    ("net.ipv4.ip_unprivileged_port_start", since(0, 0)),
    ("net.ipv4.ip_local_reserved_ports", since(3, 16)),
    ("net.ipv4.tcp_keepalive_time", since(4, 5)),
    ("net.ipv4.tcp_fin_timeout", since(4, 6)),
    ("net.ipv4.tcp_keepalive_intvl", since(4, 5)),
    ("net.ipv4.tcp_keepalive_probes", since(4, 5)),
    ("net.ipv4.tcp_rmem", since(4, 15)),
    ("net.ipv4.tcp_wmem", since(4, 15)),
];

const fn since(major: u32, minor: u32) -> KernelVersion {
    KernelVersion { major, minor }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Namespace {
    Ipc,
    Net,
    /// Not namespaced.
    Unknown,
}

/// Every sysctl must be safe or allowed by the administrator, and must not be set in a namespace of the host.
pub(super) fn check(pod: &Pod, settings: &AdmissionSettings) -> Result<(), Rejection> {
    let sysctls = pod.spec.security_context.as_ref().and_then(|context| context.sysctls.as_ref());
    for sysctl in sysctls.into_iter().flatten() {
        let name = dotted_name(&sysctl.name);
        let shared_with_host = match namespace(&name) {
            Namespace::Ipc if pod.spec.host_ipc == Some(true) => Some("IPC"),
            Namespace::Net if pod.is_host_network() => Some("Net"),
            Namespace::Ipc | Namespace::Net | Namespace::Unknown => None,
        };
        let problem = match shared_with_host {
            _ if !is_allowed(&name, settings) => format!("{name:?} not allowlisted"),
            Some(namespace) => format!("{name:?} not allowed with host {namespace} enabled"),
            None => continue,
        };
        return Err(Rejection::at_admission("SysctlForbidden", format!("forbidden sysctl: {problem}")));
    }
    Ok(())
}

fn is_allowed(name: &str, settings: &AdmissionSettings) -> bool {
    let safe = SAFE.iter().any(|(safe, since)| name == *safe && settings.kernel >= *since);
    safe || settings.allowed_unsafe_sysctls.iter().map(|pattern| dotted_name(pattern)).any(|pattern| {
        match pattern.split_once('*') {
            Some((prefix, _)) => name.starts_with(prefix),
            None => name == pattern,
        }
    })
}

fn namespace(name: &str) -> Namespace {
    match name {
        "kernel.sem"
        | "kernel.shmall"
        | "kernel.shmmax"
        | "kernel.shmmni"
        | "kernel.shm_rmid_forced"
        | "kernel.msgmax"
        | "kernel.msgmnb"
        | "kernel.msgmni" => Namespace::Ipc,
        _ if name.starts_with("net.") => Namespace::Net,
        _ if name.starts_with("fs.mqueue.")
            || name.starts_with("kernel.shm")
            || name.starts_with("kernel.msg") =>
        {
            Namespace::Ipc
        }
        _ => Namespace::Unknown,
    }
}
