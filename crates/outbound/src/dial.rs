use std::net::{IpAddr, SocketAddr};

use tokio::net::TcpStream;

use crate::words::{host_port, system_error};

/// Connects to the first address of a host that answers.
pub(crate) async fn dial(host: &str, port: u16) -> Result<TcpStream, String> {
    let addresses: Vec<SocketAddr> = match host.parse::<IpAddr>() {
        Ok(address) => vec![SocketAddr::new(address, port)],
        // Without a host Go means this machine.
        Err(_) if host.is_empty() => vec![SocketAddr::from(([127, 0, 0, 1], port))],
        Err(_) => tokio::net::lookup_host((host, port))
            .await
            .map_err(|_| format!("dial tcp: lookup {host}: no such host"))?
            .collect(),
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
