/// The WebSocket subprotocol that can close a single stream.
pub const STREAM_CLOSE_PROTOCOL: &str = "v5.channel.k8s.io";
/// Prefix of a SPDY protocol that is tunnelled through a WebSocket.
pub const TUNNEL_PREFIX: &str = "SPDY/3.1+";

/// The protocol that a client wants to switch to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Upgrade {
    /// No upgrade.
    None,
    /// A WebSocket whose streams can be closed separately, which runtimes do not support.
    StreamClose,
    /// A WebSocket that tunnels these SPDY protocols.
    Tunnel(Vec<String>),
    /// An older WebSocket subprotocol, which runtimes support.
    WebSocket,
    /// SPDY, which runtimes support, or another protocol, which they reject.
    Other,
}

impl Upgrade {
    /// Reads the values of the headers `Connection`, `Upgrade` and `Sec-WebSocket-Protocol`.
    pub fn read(connection: &[&str], upgrade: &str, protocols: &[&str]) -> Self {
        if !connection.iter().any(|value| value.to_ascii_lowercase().contains("upgrade")) {
            return Self::None;
        }
        if !upgrade.eq_ignore_ascii_case("websocket") {
            return Self::Other;
        }
        let offered = || protocols.iter().flat_map(|value| value.split(',')).map(str::trim);
        let tunnelled = |protocol: &str| {
            let inner = protocol.strip_prefix(TUNNEL_PREFIX)?;
            inner.ends_with(".k8s.io").then(|| inner.to_owned())
        };
        let tunnels: Vec<String> = offered().filter_map(tunnelled).collect();
        if !tunnels.is_empty() {
            Self::Tunnel(tunnels)
        } else if offered().any(|protocol| protocol == STREAM_CLOSE_PROTOCOL) {
            Self::StreamClose
        } else {
            Self::WebSocket
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subprotocol_selects_the_handler() {
        let websocket = |protocols: &[&str]| Upgrade::read(&["keep-alive, Upgrade"], "WebSocket", protocols);
        assert_eq!(Upgrade::read(&["keep-alive"], "websocket", &[]), Upgrade::None);
        assert_eq!(Upgrade::read(&["Upgrade"], "SPDY/3.1", &[]), Upgrade::Other);
        assert_eq!(websocket(&[]), Upgrade::WebSocket);
        assert_eq!(websocket(&["v4.channel.k8s.io"]), Upgrade::WebSocket);
        assert_eq!(websocket(&["v5.channel.k8s.io, v4.channel.k8s.io"]), Upgrade::StreamClose);
        assert_eq!(
            websocket(&["SPDY/3.1+portforward.k8s.io"]),
            Upgrade::Tunnel(vec!["portforward.k8s.io".to_owned()])
        );
        assert_eq!(websocket(&["SPDY/3.1+evil"]), Upgrade::WebSocket);
    }
}
