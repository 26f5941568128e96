//! The addresses that the agent listens on.

use std::net::SocketAddr;

use anyhow::Context;
use config::parse_ip;
use ports::host::host_facts::HostFacts;

pub(crate) fn address(field: &str, text: &str, port: i32) -> anyhow::Result<Option<SocketAddr>> {
    let port = u16::try_from(port).with_context(|| format!("{field}: port {port} is out of range"))?;
    if port == 0 {
        return Ok(None);
    }
    let ip = parse_ip(text).with_context(|| format!("{field}: {text:?} is not an address"))?;
    Ok(Some(SocketAddr::new(ip, port)))
}

/// The address of the health check, which may be given as a host name. A name that does not resolve is logged and leaves
/// the port closed.
pub(super) fn health_address(
    text: &str,
    port: i32,
    host: &dyn HostFacts,
) -> anyhow::Result<Option<SocketAddr>> {
    if port == 0 || parse_ip(text).is_some() {
        return address("healthzBindAddress", text, port);
    }
    let Some(ip) = host.look_up(text).first().copied() else {
        tracing::error!(
            name = text,
            "healthzBindAddress: no such address, the health check port stays closed"
        );
        return Ok(None);
    };
    address("healthzBindAddress", &ip.to_string(), port)
}

#[cfg(test)]
mod tests {
    use host::MachineFacts;

    use super::*;

    #[test]
    fn health_check_accepts_a_host_name() {
        let host = MachineFacts::default();
        let at = |text: &str, port| health_address(text, port, &host).unwrap();
        assert!(at("localhost", 10248).is_some_and(|address| address.ip().is_loopback()));
        assert_eq!(at("127.0.0.01", 10248), Some(SocketAddr::from(([127, 0, 0, 1], 10248))));
        // Too long for a host name, so no resolver is contacted.
        let unknown = "a".repeat(300);
        assert_eq!((at(&unknown, 10248), at(&unknown, 0)), (None, None));
        assert!(health_address("127.0.0.1", 70000, &host).is_err());
    }
}
