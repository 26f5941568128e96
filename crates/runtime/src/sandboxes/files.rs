//! Files of a pod that its containers see in `/etc`: hostname, hosts and resolv.conf.

use std::fs;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use cri::v1::DnsConfig;

use crate::errors::ServiceError;
use crate::records::OnFile;

const NODE_HOSTS: &str = "/etc/hosts";
const NODE_RESOLV_CONF: &str = "/etc/resolv.conf";

/// Paths of the files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SandboxFiles(PathBuf);

impl SandboxFiles {
    pub(crate) fn in_folder(folder: &Path) -> Self {
        Self(folder.to_owned())
    }

    pub(crate) fn hostname(&self) -> PathBuf {
        self.0.join("hostname")
    }

    pub(crate) fn hosts(&self) -> PathBuf {
        self.0.join("hosts")
    }

    pub(crate) fn resolv_conf(&self) -> PathBuf {
        self.0.join("resolv.conf")
    }

    /// Writes the files. Without a DNS configuration the node's is used.
    pub(crate) fn write(&self, hostname: &str, dns: Option<&DnsConfig>) -> Result<(), ServiceError> {
        let resolv_conf = match dns {
            Some(dns) => resolv_conf(dns)?,
            None => node_file(Path::new(NODE_RESOLV_CONF))?,
        };
        write_file(&self.hostname(), format!("{hostname}\n").as_bytes())?;
        write_file(&self.hosts(), &node_file(Path::new(NODE_HOSTS))?)?;
        write_file(&self.resolv_conf(), &resolv_conf)
    }
}

/// A node without the file gives an empty one.
fn node_file(path: &Path) -> Result<Vec<u8>, ServiceError> {
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        content => Ok(content.on_file("read", path)?),
    }
}

fn write_file(path: &Path, content: &[u8]) -> Result<(), ServiceError> {
    use std::io::Write;
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o644);
    let mut file = options.open(path).on_file("make", path)?;
    // Users of the container read it, also with a strict umask.
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    file.set_permissions(mode).on_file("set mode of", path)?;
    Ok(file.write_all(content).on_file("write", path)?)
}

fn resolv_conf(dns: &DnsConfig) -> Result<Vec<u8>, ServiceError> {
    let lists = [&dns.servers, &dns.searches, &dns.options];
    if lists.into_iter().flatten().any(|entry| entry.contains(['\n', '\r', '\0'])) {
        return Err(ServiceError::setting("dns_config", "an entry contains a line break"));
    }
    let mut text = String::new();
    let mut add = |line: String| {
        text.push_str(&line);
        text.push('\n');
    };
    if !dns.searches.is_empty() {
        add(format!("search {}", dns.searches.join(" ")));
    }
    for server in &dns.servers {
        add(format!("nameserver {server}"));
    }
    if !dns.options.is_empty() {
        add(format!("options {}", dns.options.join(" ")));
    }
    Ok(text.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[&str]) -> Vec<String> {
        entries.iter().map(|entry| (*entry).to_owned()).collect()
    }

    #[test]
    fn dns_configuration_becomes_lines_in_a_fixed_order() {
        let dns = DnsConfig {
            servers: list(&["10.0.0.1", "10.0.0.2"]),
            searches: list(&["a.example", "b.example"]),
            options: list(&["ndots:5"]),
        };
        let text = String::from_utf8(resolv_conf(&dns).unwrap()).unwrap();
        let expected =
            "search a.example b.example\nnameserver 10.0.0.1\nnameserver 10.0.0.2\noptions ndots:5\n";
        assert_eq!(text, expected);
        assert_eq!(resolv_conf(&DnsConfig::default()).unwrap(), b"");
    }

    #[test]
    fn entry_with_a_line_break_is_refused() {
        let dns = DnsConfig { servers: list(&["1.1.1.1\nnameserver 2.2.2.2"]), ..DnsConfig::default() };
        assert!(resolv_conf(&dns).is_err());
    }
}
