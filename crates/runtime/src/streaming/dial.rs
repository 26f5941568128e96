//! Connections into network namespaces.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::oneshot;

/// Connects to a port of a pod: to 127.0.0.1, and if that fails to `::1`. Without a namespace, the pod uses the host's.
///
/// # Errors
/// If the namespace cannot be entered, or if neither address accepts the connection.
pub async fn connect_in_namespace(namespace: Option<&Path>, port: u16) -> io::Result<TcpStream> {
    let (version_4, version_6) = match namespace {
        None => (TcpSocket::new_v4(), TcpSocket::new_v6()),
        Some(path) => sockets_in(path.to_owned()).await?,
    };
    let first = match version_4 {
        Ok(socket) => socket.connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await,
        Err(error) => Err(error),
    };
    let Err(error) = first else { return first };
    // A kernel without IPv6 reports the error of IPv4.
    let Ok(socket) = version_6 else { return Err(error) };
    socket.connect(SocketAddr::from((Ipv6Addr::LOCALHOST, port))).await.map_err(|_| error)
}

type Sockets = (io::Result<TcpSocket>, io::Result<TcpSocket>);

/// A socket stays in the namespace in which it was made. Only a separate thread may enter one: a thread of the pool would stay there.
async fn sockets_in(namespace: PathBuf) -> io::Result<Sockets> {
    let (send, receive) = oneshot::channel();
    let runtime = tokio::runtime::Handle::current();
    std::thread::Builder::new().name("dial-in-namespace".to_owned()).spawn(move || {
        // Sockets of the async runtime are registered with it when they connect.
        let _entered = runtime.enter();
        let make = || -> io::Result<Sockets> {
            let file = rustix::fs::open(&namespace, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
            move_into_link_name_space(std::os::fd::AsFd::as_fd(&file), Some(LinkNameSpaceType::Network))?;
            Ok((TcpSocket::new_v4(), TcpSocket::new_v6()))
        };
        // The caller may have given up.
        let _ = send.send(make());
    })?;
    receive.await.map_err(|_| io::Error::other("the thread that enters the network namespace ended"))?
}
