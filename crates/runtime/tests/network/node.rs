//! A node for tests: a network namespace and a mount namespace, in which everything disappears with the threads of the test.

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use runtime::network::*;
use rustix::mount::MountPropagationFlags;
use rustix::thread::{LinkNameSpaceType, UnshareFlags};

const TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) fn require_root() {
    assert!(rustix::process::geteuid().is_root(), "this test needs root");
}

/// The folders of a node.
pub(crate) struct Node {
    folder: tempfile::TempDir,
}

/// Runs a test in the namespaces of a new node.
pub(crate) fn on_node<F: Future<Output = ()>>(test: impl FnOnce(Node) -> F + Send + 'static) {
    require_root();
    let run = move || {
        #[expect(unsafe_code, reason = "rustix marks all kinds of unshare as unsafe")]
        // SAFETY: descriptors stay shared.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET | UnshareFlags::NEWNS) }.unwrap();
        let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        rustix::mount::mount_change("/", private).unwrap();
        run_program("ip", &["link", "set", "lo", "up"]);
        // One thread: all others that it starts inherit its namespaces.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(test(Node { folder: tempfile::tempdir().unwrap() }));
    };
    thread::spawn(run).join().unwrap();
}

impl Node {
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn settings(&self) -> NetworkSettings {
        let mut settings = NetworkSettings::new(self.path("state"));
        settings.cni_config_folder = self.path("net.d");
        settings
    }

    pub(crate) fn networks(&self, ranges: &str) -> PodNetworks {
        let pod_cidrs = ranges.split_whitespace().map(|range| range.parse().unwrap()).collect();
        PodNetworks::open(NetworkSettings { pod_cidrs, ..self.settings() }).unwrap()
    }

    /// A request for a pod with a new namespace.
    pub(crate) async fn pod(&self, name: &str) -> PodNetworkRequest {
        let netns = self.path(name);
        create_pinned_namespace(&netns).await.unwrap();
        PodNetworkRequest {
            sandbox_id: format!("{name}-sandbox"),
            name: name.to_owned(),
            namespace: "default".to_owned(),
            uid: format!("{name}-uid"),
            netns,
            ..PodNetworkRequest::default()
        }
    }

    /// A machine outside: `192.0.2.2` and `2001:db8::2`, beside the node's `192.0.2.1` and `2001:db8::1`.
    pub(crate) async fn outside(&self) -> PathBuf {
        let outside = self.path("outside");
        create_pinned_namespace(&outside).await.unwrap();
        run_program("ip", &["link", "add", "uplink", "type", "veth", "peer", "name", "node"]);
        move_link("node", &outside);
        configure("uplink", &["192.0.2.1/24", "2001:db8::1/64"]);
        enter(&outside, || configure("node", &["192.0.2.2/24", "2001:db8::2/64"]));
        outside
    }

    /// Lists the traces of pods on the node: links except `lo`, tables, files of the state folder.
    pub(crate) fn left_overs(&self) -> Vec<String> {
        let links = run_program("ip", &["-o", "link"]);
        let links = links.lines().filter(|line| !line.contains(": lo:")).map(str::to_owned);
        let tables = run_program("nft", &["list", "tables"]);
        let state = ["addresses", "host-ports"].map(|folder| fs::read_dir(self.path("state").join(folder)));
        let files =
            state.into_iter().flatten().flatten().map(|entry| entry.unwrap().path().display().to_string());
        links.chain(tables.lines().map(str::to_owned)).chain(files).collect()
    }
}

fn configure(link: &str, addresses: &[&str]) {
    for address in addresses {
        let nodad: &[&str] = if address.contains(':') { &["nodad"] } else { &[] };
        run_program("ip", &[&["address", "add", address, "dev", link], nodad].concat());
    }
    run_program("ip", &["link", "set", link, "up"]);
}

/// `ip` finds namespaces by processes, so a process runs there while the link is moved.
fn move_link(link: &str, namespace: &Path) {
    let mut waiting = enter(namespace, || Command::new("sleep").arg("1000").spawn().unwrap());
    run_program("ip", &["link", "set", link, "netns", &waiting.id().to_string()]);
    waiting.kill().unwrap();
    waiting.wait().unwrap();
}

/// Runs `work` in a thread inside a network namespace.
pub(crate) fn enter<T: Send>(namespace: &Path, work: impl FnOnce() -> T + Send) -> T {
    let file = fs::File::open(namespace).unwrap();
    thread::scope(|scope| {
        let entered = scope.spawn(|| {
            use std::os::fd::AsFd;
            let kind = Some(LinkNameSpaceType::Network);
            rustix::thread::move_into_link_name_space(file.as_fd(), kind).unwrap();
            work()
        });
        entered.join().unwrap()
    })
}

pub(crate) fn run_program(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

/// A server that answers with the address of the client, until the test ends.
pub(crate) fn serve(namespace: &Path, address: &str) {
    let tcp = enter(namespace, || TcpListener::bind(address).unwrap());
    let udp = enter(namespace, || UdpSocket::bind(address).unwrap());
    thread::spawn(move || {
        for stream in tcp.incoming() {
            let mut stream = stream.unwrap();
            let peer = stream.peer_addr().unwrap().ip().to_string();
            let _ = stream.write_all(peer.as_bytes());
        }
    });
    thread::spawn(move || {
        let mut buffer = [0; 16];
        while let Ok((_, peer)) = udp.recv_from(&mut buffer) {
            let _ = udp.send_to(peer.ip().to_string().as_bytes(), peer);
        }
    });
}

/// Asks a server by TCP, from the namespace of the calling thread: the address that it sees.
pub(crate) fn ask_tcp(address: &str) -> Result<IpAddr, std::io::Error> {
    let address: SocketAddr = address.parse().unwrap();
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text.parse().unwrap())
}

/// Asks a server by UDP.
pub(crate) fn ask_udp(address: &str) -> Result<IpAddr, std::io::Error> {
    let address: SocketAddr = address.parse().unwrap();
    let socket = UdpSocket::bind(if address.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" })?;
    ask_from(&socket, address, TIMEOUT)
}

/// Asks a server by UDP from this socket.
pub(crate) fn ask_from(
    socket: &UdpSocket,
    address: SocketAddr,
    timeout: Duration,
) -> Result<IpAddr, std::io::Error> {
    socket.set_read_timeout(Some(timeout))?;
    socket.send_to(b"?", address)?;
    let mut buffer = [0; 64];
    let (length, _) = socket.recv_from(&mut buffer)?;
    Ok(std::str::from_utf8(&buffer[..length]).unwrap().parse().unwrap())
}
