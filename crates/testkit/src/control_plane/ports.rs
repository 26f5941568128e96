//! Free ports on loopback.

use std::net::TcpListener;

use anyhow::{Context, Result};

#[derive(Clone, Copy, Debug)]
pub(super) struct Ports {
    pub(super) etcd: u16,
    pub(super) etcd_peers: u16,
    pub(super) api_server: u16,
}

impl Ports {
    /// Binds all ports before it releases any, so that they differ.
    pub(super) fn find() -> Result<Self> {
        let listen = || TcpListener::bind(("127.0.0.1", 0)).context("find a free port");
        let held = [listen()?, listen()?, listen()?];
        let [etcd, etcd_peers, api_server] =
            held.each_ref().map(|listener| listener.local_addr().map(|address| address.port()));
        Ok(Self { etcd: etcd?, etcd_peers: etcd_peers?, api_server: api_server? })
    }
}
