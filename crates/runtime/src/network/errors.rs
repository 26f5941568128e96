//! Why the network of a pod could not be set up or torn down.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use thiserror::Error;

use super::cidr::Cidr;
use super::request::PortMapping;

#[derive(Debug, Error)]
pub enum NetworkError {
    #[error("set up the network of pod {pod}: {reason}")]
    SetUp { pod: String, reason: NetworkFailure },
    #[error("tear down the network of pod {pod}: {reason}")]
    TearDown { pod: String, reason: NetworkFailure },
    #[error("check the network of pod {pod}: {reason}")]
    Check { pod: String, reason: NetworkFailure },
    #[error("network namespace: {0}")]
    Namespace(NetworkFailure),
    #[error("pod network: {0}")]
    Node(NetworkFailure),
}

/// The step that failed, with its subject.
#[derive(Debug, Error)]
pub enum NetworkFailure {
    #[error("{operation} {subject}: {errno}")]
    Os { operation: &'static str, subject: String, errno: Errno },
    #[error("{operation} {subject}: {errno}: {detail}")]
    Netlink { operation: &'static str, subject: String, errno: Errno, detail: String },
    #[error("no free address in {range}: pods use {used}")]
    Exhausted { range: Cidr, used: usize },
    #[error("host port {port} is already used by pod {owner}", port = port.host_side())]
    HostPortTaken { port: PortMapping, owner: String },
    #[error("the sandbox already has a network")]
    AlreadySetUp,
    #[error("bridge {0} is a link of another kind")]
    NotABridge(String),
    #[error("bridge {bridge} belongs to the pod networks in {owner}: use another bridge, table and range")]
    BridgeTaken { bridge: String, owner: String },
    #[error(
        "the range of pod addresses {range} contains {address}, which the node has outside of the bridge"
    )]
    RangeTaken { range: Cidr, address: IpAddr },
    #[error("bridge {bridge} has the address {address}, which is not its gateway address")]
    ForeignAddress { bridge: String, address: Cidr },
    #[error("link {0} did not become operational")]
    LinkDown(String),
    #[error("no range of pod addresses is configured")]
    NoRange,
    #[error("invalid {field} {value:?}: {reason}")]
    Invalid { field: &'static str, value: String, reason: &'static str },
    #[error("network configuration {path:?}: {reason}")]
    Configuration { path: PathBuf, reason: String },
    #[error("CNI plugin {plugin} of network {network}: {reason}")]
    Plugin { network: String, plugin: String, reason: String },
    #[error("CNI network {network} gave the pod no address")]
    NoPluginAddress { network: String },
    #[error("the thread for {0} panicked")]
    Panicked(&'static str),
    #[error("a previous operation on this sandbox did not end in time")]
    Locked,
}

/// Names the operation and its subject in an error of a system call.
pub(super) trait During<T> {
    fn during(self, operation: &'static str, subject: impl ToString) -> Result<T, NetworkFailure>;

    fn on_path(self, operation: &'static str, path: &Path) -> Result<T, NetworkFailure>
    where
        Self: Sized,
    {
        self.during(operation, path.display())
    }
}

impl<T> During<T> for Result<T, Errno> {
    fn during(self, operation: &'static str, subject: impl ToString) -> Result<T, NetworkFailure> {
        self.map_err(|errno| NetworkFailure::Os { operation, subject: subject.to_string(), errno })
    }
}

impl<T> During<T> for std::io::Result<T> {
    fn during(self, operation: &'static str, subject: impl ToString) -> Result<T, NetworkFailure> {
        self.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO)).during(operation, subject)
    }
}
