//! Facts about this machine.

mod addresses;
mod identity;

use std::fs::File;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

use model::MachineIdentity;
use ports::host::host_facts::HostFacts;

use crate::errors::read_at_most;
use crate::machine::meminfo_bytes;

/// Files such as `resolv.conf` are small; larger ones are a mistake.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

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
    /// `hosts` is usually `/etc/hosts`, `proc` `/proc` and `online_cpus` `/sys/devices/system/cpu/online`.
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
        meminfo_bytes(&text, "MemTotal:").unwrap_or_default()
    }

    /// All online CPUs, even if the agent may only use some of them.
    fn cpu_count(&self) -> usize {
        let text = std::fs::read_to_string(&self.online_cpus).unwrap_or_default();
        count_cpus(&text)
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get))
    }
}

/// Accepts bytes that are not UTF-8, for example in comments with an old encoding.
fn read_small(path: &Path) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&read_at_most(File::open(path)?, MAX_FILE_BYTES)?).into_owned())
}

/// Counts the CPUs in a list such as `0-3,5,8-9`.
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
    fn reads_memory_and_cpu_count() {
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
    fn rejects_malformed_cpu_lists() {
        for bad in ["", "x", "3-1", "0-", "0-18446744073709551615"] {
            assert_eq!(count_cpus(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn files_are_bounded_and_may_contain_invalid_utf8() {
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
    fn reads_facts_of_this_machine() {
        let facts = MachineFacts::default();
        assert!(facts.memory_capacity() > 1024 * 1024);
        assert!(facts.cpu_count() >= 1);
        assert!(!facts.addresses().is_empty());
        assert!(facts.hosts_file().is_ok());
    }
}
