use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use crate::go_format::{host_port, system_error};

/// Concurrent name lookups. The system resolver blocks a thread until it is done, even if the request was cancelled.
pub const MAX_LOOKUP_THREADS: usize = 8;

static LOOKUP_LIMITER: Semaphore = Semaphore::const_new(MAX_LOOKUP_THREADS);

/// Connects to the first address of a host that accepts the connection.
pub(crate) async fn dial(host: &str, port: u16) -> Result<TcpStream, String> {
    let addresses: Vec<SocketAddr> = match host.parse::<IpAddr>() {
        Ok(address) => vec![SocketAddr::new(address, port)],
        // Same as Go: an empty host is the local machine.
        Err(_) if host.is_empty() => vec![SocketAddr::from(([127, 0, 0, 1], port))],
        Err(_) => {
            resolve(host, port).await.ok_or_else(|| format!("dial tcp: lookup {host}: no such host"))?
        }
    };
    let mut first_error = None;
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                // A request is one small write; Nagle's algorithm would only delay it.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Err(error) => {
                let address = host_port(&address.ip().to_string(), port);
                let message = format!("dial tcp {address}: connect: {}", system_error(&error));
                first_error.get_or_insert(message);
            }
        }
    }
    Err(first_error.unwrap_or_else(|| format!("dial tcp: lookup {host}: no such host")))
}

async fn resolve(host: &str, port: u16) -> Option<Vec<SocketAddr>> {
    // The semaphore is never closed.
    let permit = LOOKUP_LIMITER.acquire().await.ok()?;
    let host = host.to_owned();
    let resolve = move || {
        let _permit = permit;
        (host.as_str(), port).to_socket_addrs().map(Iterator::collect)
    };
    tokio::task::spawn_blocking(resolve).await.ok()?.ok()
}
