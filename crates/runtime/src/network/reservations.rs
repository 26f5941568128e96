//! Addresses and host ports that sandboxes use.
//!
//! One symbolic link per address and per host port: its name is the address or port, its target names the owner. Creating a
//! symbolic link is one atomic operation that fails if the name exists, so neither a crash nor another process leaves half a
//! record or hands out an address twice. Nothing else says what is used, so nothing can disagree with it.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use super::cidr::Cidr;
use super::errors::{During, NetworkFailure};
use super::request::{PodNetworkRequest, PortMapping, PortProtocol};

#[derive(Debug)]
pub(super) struct Reservations {
    addresses: PathBuf,
    ports: PathBuf,
    last_addresses: PathBuf,
    /// One allocation at a time.
    allocation: Mutex<()>,
}

/// The owner of an address or a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) sandbox_id: String,
    pub(super) pod: String,
}

impl Owner {
    pub(super) fn of(request: &PodNetworkRequest) -> Self {
        Self { sandbox_id: request.sandbox_id.clone(), pod: request.pod() }
    }
}

/// A reserved address or port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reservation<T> {
    pub(super) subject: T,
    pub(super) owner: Owner,
}

impl Reservations {
    pub(super) fn open(state_folder: &Path) -> Result<Self, NetworkFailure> {
        let folder = |name| {
            let path = state_folder.join(name);
            let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&path);
            made.on_path("create folder", &path).map(|()| path)
        };
        Ok(Self {
            addresses: folder("addresses")?,
            ports: folder("host-ports")?,
            last_addresses: folder("last-addresses")?,
            allocation: Mutex::new(()),
        })
    }

    /// Reserves the next free address behind the last one that was reserved, so that a released address stays unused for long.
    pub(super) fn reserve_address(&self, range: Cidr, owner: &Owner) -> Result<IpAddr, NetworkFailure> {
        let _one_at_a_time = self.allocation.lock();
        let mut used = self.names_in_use()?;
        used.retain(|address| range.contains(*address));
        let Some((first, last)) = usable_positions(range) else {
            return Err(NetworkFailure::Exhausted { range, used: used.len() });
        };
        let mut position = self.position_after_last(range).filter(|at| (first..=last).contains(at));
        // Each attempt that fails names another used address.
        for _ in 0..=used.len() {
            let candidate = position.unwrap_or(first);
            position = (candidate < last).then_some(candidate + 1);
            let Some(address) = range.nth(candidate).filter(|address| !used.contains(address)) else {
                continue;
            };
            if record(&self.addresses.join(address.to_string()), owner, "")? {
                self.remember_last(address);
                return Ok(address);
            }
        }
        Err(NetworkFailure::Exhausted { range, used: used.len() })
    }

    pub(super) fn reserve_ports(&self, ports: &[PortMapping], owner: &Owner) -> Result<(), NetworkFailure> {
        if ports.is_empty() {
            return Ok(());
        }
        let _one_at_a_time = self.allocation.lock();
        let reserved = self.ports()?;
        for port in ports {
            if let Some(other) = reserved.iter().find(|other| other.subject.conflicts_with(port)) {
                return Err(NetworkFailure::HostPortTaken { port: *port, owner: other.owner.pod.clone() });
            }
            let path = self.ports.join(port_name(port));
            if !record(&path, owner, &port.container_port.to_string())? {
                let owner = format!("of the unreadable record {}", path.display());
                return Err(NetworkFailure::HostPortTaken { port: *port, owner });
            }
        }
        Ok(())
    }

    pub(super) fn addresses(&self) -> Result<Vec<Reservation<IpAddr>>, NetworkFailure> {
        let records = read_folder(&self.addresses)?;
        let address = |(name, target): (String, Option<String>)| {
            let (owner, _) = parse_target(target.as_deref()?)?;
            Some(Reservation { subject: name.parse().ok()?, owner })
        };
        Ok(records.into_iter().filter_map(address).collect())
    }

    pub(super) fn ports(&self) -> Result<Vec<Reservation<PortMapping>>, NetworkFailure> {
        let records = read_folder(&self.ports)?;
        let port = |(name, target): (String, Option<String>)| {
            let target = target?;
            let (owner, container_port) = parse_target(&target)?;
            Some(Reservation { subject: parse_port(&name, container_port.parse().ok()?)?, owner })
        };
        Ok(records.into_iter().filter_map(port).collect())
    }

    pub(super) fn addresses_of(&self, sandbox_id: &str) -> Result<Vec<IpAddr>, NetworkFailure> {
        let mut addresses = self.addresses()?;
        addresses.retain(|record| record.owner.sandbox_id == sandbox_id);
        Ok(addresses.into_iter().map(|record| record.subject).collect())
    }

    pub(super) fn ports_of(&self, sandbox_id: &str) -> Result<Vec<PortMapping>, NetworkFailure> {
        let mut ports = self.ports()?;
        ports.retain(|record| record.owner.sandbox_id == sandbox_id);
        Ok(ports.into_iter().map(|record| record.subject).collect())
    }

    pub(super) fn release(&self, sandbox_id: &str) -> Result<(), NetworkFailure> {
        let folders = [&self.ports, &self.addresses];
        remove_if(&folders, |owner| owner.is_some_and(|owner| owner.sandbox_id == sandbox_id))
    }

    pub(super) fn release_ports(&self, sandbox_id: &str) -> Result<(), NetworkFailure> {
        remove_if(&[&self.ports], |owner| owner.is_some_and(|owner| owner.sandbox_id == sandbox_id))
    }

    /// Releases what sandboxes that no longer exist have left, and removes what is no record.
    pub(super) fn release_all_except(&self, live: &HashSet<&str>) -> Result<(), NetworkFailure> {
        let folders = [&self.ports, &self.addresses];
        remove_if(&folders, |owner| owner.is_none_or(|owner| !live.contains(owner.sandbox_id.as_str())))
    }

    /// Also those whose record cannot be read: they must not be handed out.
    fn names_in_use(&self) -> Result<HashSet<IpAddr>, NetworkFailure> {
        let records = read_folder(&self.addresses)?;
        Ok(records.iter().filter_map(|(name, _)| name.parse().ok()).collect())
    }

    fn last_address_file(&self, is_v6: bool) -> PathBuf {
        self.last_addresses.join(if is_v6 { "ipv6" } else { "ipv4" })
    }

    fn position_after_last(&self, range: Cidr) -> Option<u128> {
        let text = fs::read_to_string(self.last_address_file(range.is_v6())).ok()?;
        let last = text.trim().parse().ok().filter(|address| range.contains(*address))?;
        Some(range.position(last) + 1)
    }

    /// Only a hint: without it, a released address is used again sooner.
    fn remember_last(&self, address: IpAddr) {
        let _ = fs::write(self.last_address_file(address.is_ipv6()), address.to_string());
    }
}

/// Removes the records of these owners; `None` is the owner of something that is not a record.
fn remove_if(folders: &[&PathBuf], is_stale: impl Fn(Option<&Owner>) -> bool) -> Result<(), NetworkFailure> {
    for folder in folders {
        for (name, target) in read_folder(folder)? {
            let owner = target.as_deref().and_then(parse_target).map(|(owner, _)| owner);
            if is_stale(owner.as_ref()) {
                let path = folder.join(name);
                match fs::remove_file(&path) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    result => result.on_path("remove", &path)?,
                }
            }
        }
    }
    Ok(())
}

/// Without the network's own address, the gateway and the broadcast address.
fn usable_positions(range: Cidr) -> Option<(u128, u128)> {
    let end = range.position(range.last());
    let last = if range.is_v6() { end } else { end.checked_sub(1)? };
    (last >= 2).then_some((2, last))
}

/// The address of the bridge in a range.
pub(super) fn gateway(range: Cidr) -> Option<Cidr> {
    Cidr::new(range.nth(1)?, range.prefix()).ok()
}

/// Creates a record; `false` if there is one.
fn record(path: &Path, owner: &Owner, detail: &str) -> Result<bool, NetworkFailure> {
    let target = format!("{} {} {detail}", owner.sandbox_id, owner.pod);
    match std::os::unix::fs::symlink(target.trim_end(), path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error).on_path("create", path),
    }
}

/// The names in a folder with their targets; no target if something else is there.
fn read_folder(folder: &Path) -> Result<Vec<(String, Option<String>)>, NetworkFailure> {
    let entries = fs::read_dir(folder).on_path("read", folder)?;
    let record = |entry: io::Result<fs::DirEntry>| {
        let path = entry.on_path("read", folder)?.path();
        let target = fs::read_link(&path).ok().and_then(|target| target.to_str().map(str::to_owned));
        Ok((path.file_name().unwrap_or_default().to_string_lossy().into_owned(), target))
    };
    entries.map(record).collect()
}

/// The owner, and what follows it.
fn parse_target(target: &str) -> Option<(Owner, &str)> {
    let mut words = target.splitn(3, ' ');
    let (sandbox_id, pod) = (words.next()?.to_owned(), words.next()?.to_owned());
    Some((Owner { sandbox_id, pod }, words.next().unwrap_or_default()))
}

fn port_name(port: &PortMapping) -> String {
    let host_ip = port.host_ip.map(|address| format!("-{address}")).unwrap_or_default();
    format!("{}-{}{host_ip}", port.protocol, port.host_port)
}

fn parse_port(name: &str, container_port: u16) -> Option<PortMapping> {
    let mut words = name.splitn(3, '-');
    let protocol = words.next()?;
    let protocol = PortProtocol::ALL.into_iter().find(|known| known.name() == protocol)?;
    let host_port = words.next()?.parse().ok()?;
    let host_ip = words.next().map(str::parse).transpose().ok()?;
    Some(PortMapping { protocol, container_port, host_port, host_ip })
}

#[cfg(test)]
mod tests;
