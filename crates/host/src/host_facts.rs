//! Facts of this machine.

mod addresses;
mod identity;

use std::fs::File;
use std::io::{self, Read};
use std::net::{IpAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

use model::MachineIdentity;
use ports::host_facts::HostFacts;

/// Files that pods are made from are small; more than this is a mistake.
const MOST_BYTES: u64 = 1024 * 1024;

/// [`HostFacts`] from files of the host.
#[derive(Clone, Debug)]
pub struct MachineFacts {
    hosts: PathBuf,
    proc: PathBuf,
    online_cpus: PathBuf,
}

impl Default for MachineFacts {
    fn default() -> Self {
        Self::new("/etc/hosts", "/proc", "/sys/devices/system/cpu/online")
    }
}

impl MachineFacts {
    /// `hosts` is such as `/etc/hosts`, `proc` such as `/proc`, `online_cpus` such as
    /// `/sys/devices/system/cpu/online`.
    #[must_use]
    pub fn new(hosts: impl Into<PathBuf>, proc: impl Into<PathBuf>, online_cpus: impl Into<PathBuf>) -> Self {
        Self { hosts: hosts.into(), proc: proc.into(), online_cpus: online_cpus.into() }
    }
}

impl HostFacts for MachineFacts {
    fn resolv_conf(&self, path: &str) -> Result<String, io::Error> {
        read_small(Path::new(path))
    }

    fn hosts_file(&self) -> Result<String, io::Error> {
        read_small(&self.hosts)
    }

    fn addresses(&self) -> Vec<IpAddr> {
        addresses::addresses(&self.proc)
    }

    fn interface_addresses(&self) -> Vec<IpAddr> {
        addresses::all(&self.proc)
    }

    fn look_up(&self, name: &str) -> Vec<IpAddr> {
        let found = (name, 0).to_socket_addrs().into_iter().flatten();
        found.map(|address| address.ip()).collect()
    }

    fn identity(&self) -> MachineIdentity {
        identity::identity(Path::new("/"))
    }

    fn memory_capacity(&self) -> u64 {
        let text = std::fs::read_to_string(self.proc.join("meminfo")).unwrap_or_default();
        memory_total(&text).unwrap_or_default()
    }

    /// All online CPUs, whatever the agent itself may use of them.
    fn cpu_count(&self) -> usize {
        let text = std::fs::read_to_string(&self.online_cpus).unwrap_or_default();
        count_cpus(&text)
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get))
    }
}

/// Reads a text; bytes that are not UTF-8 (comments in old encodings) do not make it unusable.
fn read_small(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "larger than 1 MiB"));
    }
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// `MemTotal:       24682416 kB`
fn memory_total(meminfo: &str) -> Option<u64> {
    let value = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// `0-3,5,8-9`
fn count_cpus(list: &str) -> Option<usize> {
    let mut count = 0usize;
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        count = count.checked_add(last.checked_sub(first)?.checked_add(1)?)?;
    }
    Some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_memory_and_cpus_of_fake_files() {
        let scratch = tempfile::tempdir().unwrap();
        let meminfo = "MemFree: 1 kB\nMemTotal:       24682416 kB\nMemTotalX: 2 kB\n";
        std::fs::write(scratch.path().join("meminfo"), meminfo).unwrap();
        std::fs::write(scratch.path().join("online"), "0-3,5,8-9\n").unwrap();
        let facts = MachineFacts::new("/none", scratch.path(), scratch.path().join("online"));
        assert_eq!(facts.memory_capacity(), 24_682_416 * 1024);
        assert_eq!(facts.cpu_count(), 7);
        assert!(facts.hosts_file().is_err());
    }

    #[test]
    fn cpu_lists_that_make_no_sense_are_not_used() {
        for bad in ["", "x", "3-1", "0-", "0-18446744073709551615"] {
            assert_eq!(count_cpus(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn texts_are_bounded_and_may_hold_foreign_bytes() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("resolv.conf");
        let facts = MachineFacts::default();
        let read = || facts.resolv_conf(path.to_str().unwrap());
        std::fs::write(&path, b"# gr\xfc\xdfe\nnameserver 192.0.2.53\n").unwrap();
        assert!(read().unwrap().ends_with("\nnameserver 192.0.2.53\n"));
        std::fs::write(&path, vec![b'#'; 1024 * 1024 + 1]).unwrap();
        assert_eq!(read().unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }

    #[test]
    fn knows_this_machine() {
        let facts = MachineFacts::default();
        assert!(facts.memory_capacity() > 1024 * 1024);
        assert!(facts.cpu_count() >= 1);
        assert!(!facts.addresses().is_empty());
        assert!(facts.hosts_file().is_ok());
    }
}
