use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use crate::words::{host_port, system_error};

/// Names that are looked up side by side. The system's resolver holds a thread for as long as it likes, also after
/// nobody wants its answer any more.
pub const LOOKUP_PLACES: usize = 8;

static LOOKUPS: Semaphore = Semaphore::const_new(LOOKUP_PLACES);

/// Connects to the first address of a host that answers.
pub(crate) async fn dial(host: &str, port: u16) -> Result<TcpStream, String> {
    let addresses: Vec<SocketAddr> = match host.parse::<IpAddr>() {
        Ok(address) => vec![SocketAddr::new(address, port)],
        // Without a host Go means this machine.
        Err(_) if host.is_empty() => vec![SocketAddr::from(([127, 0, 0, 1], port))],
        Err(_) => {
            look_up(host, port).await.ok_or_else(|| format!("dial tcp: lookup {host}: no such host"))?
        }
    };
    let mut first_problem = None;
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                // Requests are one small write; waiting to fill packets only costs time.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Err(error) => {
                let shown = host_port(&address.ip().to_string(), port);
                let problem = format!("dial tcp {shown}: connect: {}", system_error(&error));
                first_problem.get_or_insert(problem);
            }
        }
    }
    Err(first_problem.unwrap_or_else(|| format!("dial tcp: lookup {host}: no such host")))
}

async fn look_up(host: &str, port: u16) -> Option<Vec<SocketAddr>> {
    // Nobody closes the semaphore.
    let place = LOOKUPS.acquire().await.ok()?;
    let host = host.to_owned();
    let look_up = move || {
        let _place = place;
        (host.as_str(), port).to_socket_addrs().map(Iterator::collect)
    };
    tokio::task::spawn_blocking(look_up).await.ok()?.ok()
}
