//! A private bus with a fake logind and systemd.

use std::io::{BufRead, BufReader, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::systemd::dbus::{self, Kind, Message, Writer};

const CONFIG: &str = r#"<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>session</type>
  <listen>unix:path=SOCKET</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow send_destination="*" eavesdrop="true"/>
    <allow eavesdrop="true"/>
    <allow own="*"/>
  </policy>
</busconfig>
"#;

/// A bus daemon that stops with the test.
pub(super) struct Bus {
    daemon: Child,
    folder: tempfile::TempDir,
}

impl Bus {
    pub(super) fn start() -> Self {
        let folder = tempfile::Builder::new().prefix("podward-bus-").tempdir().unwrap();
        let config = folder.path().join("bus.conf");
        let socket = folder.path().join("bus.sock");
        std::fs::write(&config, CONFIG.replace("SOCKET", &socket.display().to_string())).unwrap();
        let mut daemon = Command::new("setpriv")
            // Stops even if the test is killed.
            .args(["--pdeathsig", "KILL", "--", "dbus-daemon"])
            .arg(format!("--config-file={}", config.display()))
            .args(["--nofork", "--nopidfile", "--nosyslog", "--print-address"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("dbus-daemon of the package dbus; tools/setup.sh installs it");
        let mut line = String::new();
        BufReader::new(daemon.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("bus.sock"), "{line}");
        Self { daemon, folder }
    }

    pub(super) fn address(&self) -> String {
        format!("unix:path={}", self.folder.path().join("bus.sock").display())
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

/// Configured behaviour and recorded calls.
#[derive(Debug, Default)]
pub(super) struct FakeState {
    pub(super) preparing: bool,
    pub(super) refuse_inhibit: bool,
    pub(super) delay_seconds: u64,
    /// The file from which a reload reads the delay.
    pub(super) config_file: Option<PathBuf>,
    pub(super) killed: Vec<String>,
    pub(super) inhibitors: Vec<String>,
    locks: Vec<OwnedFd>,
}

pub(super) struct FakeLogind {
    state: Arc<Mutex<FakeState>>,
    orders: mpsc::UnboundedSender<Vec<u8>>,
    task: JoinHandle<()>,
}

impl Drop for FakeLogind {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl FakeLogind {
    pub(super) async fn start(bus: &Bus) -> Self {
        let mut stream = UnixStream::connect(bus.folder().join("bus.sock")).await.unwrap();
        let state = Arc::new(Mutex::new(FakeState { delay_seconds: 5, ..FakeState::default() }));
        let (orders, mut ordered) = mpsc::unbounded_channel::<Vec<u8>>();
        authenticate(&mut stream).await;
        let mut service = Service { stream, state: state.clone(), serial: 100 };
        for name in [super::SERVICE, super::SYSTEMD] {
            tokio::time::timeout(super::TIMEOUT, service.own_name(name)).await.unwrap();
        }
        let task = tokio::spawn(async move {
            let mut incoming = Vec::new();
            loop {
                tokio::select! {
                    Some(order) = ordered.recv() => service.send(&order, None).await,
                    message = read_message(&mut service.stream, &mut incoming) => match message {
                        Some(message) => service.handle(&message).await,
                        None => return,
                    },
                }
            }
        });
        Self { state, orders, task }
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut FakeState)) {
        change(&mut self.state.lock());
    }

    pub(super) fn read<T>(&self, read: impl FnOnce(&FakeState) -> T) -> T {
        read(&self.state.lock())
    }

    pub(super) async fn prepare_for_shutdown(&self, active: bool) {
        let mut body = Writer::default();
        body.number(u32::from(active));
        let fields = [(1, "o", super::PATH), (2, "s", super::MANAGER), (3, "s", super::SIGNAL)];
        self.orders.send(message(4, 7, &fields, None, ("b", &body.0))).unwrap();
        tokio::task::yield_now().await;
    }

    /// Waits until the only lock is dropped, which logind detects as end of file.
    pub(super) async fn released(&self) {
        let mut ends = std::mem::take(&mut self.state.lock().locks);
        let end = ends.pop().unwrap();
        let kept = end.try_clone().unwrap();
        self.state.lock().locks.push(kept);
        let stream = std::os::unix::net::UnixStream::from(end);
        stream.set_nonblocking(true).unwrap();
        let mut stream = UnixStream::from_std(stream).unwrap();
        assert_eq!(stream.read(&mut [0; 1]).await.unwrap(), 0);
    }
}

struct Service {
    stream: UnixStream,
    state: Arc<Mutex<FakeState>>,
    serial: u32,
}

impl Service {
    async fn own_name(&mut self, name: &str) {
        let mut body = Writer::texts(&[name]);
        body.number(0);
        let call = dbus::Call {
            destination: super::BUS,
            path: super::BUS_PATH,
            interface: super::BUS,
            member: "RequestName",
            signature: "su",
            body: &body.0,
        };
        self.serial += 1;
        self.send(&call.message(self.serial), None).await;
        let mut incoming = Vec::new();
        loop {
            let reply = read_message(&mut self.stream, &mut incoming).await.unwrap();
            assert_ne!(reply.message.kind, Kind::Error, "{}", reply.message.failure());
            if reply.message.reply_serial == Some(self.serial) {
                assert_eq!(reply.message.body().number(), Some(1), "{name} is owned");
                return;
            }
        }
    }

    async fn handle(&mut self, incoming: &Incoming) {
        let call = &incoming.message;
        if call.kind != Kind::Call {
            return;
        }
        let mut arguments = call.body();
        let mut body = Writer::default();
        let mut lock = None;
        let mut signature = "v";
        match call.member.as_deref().unwrap() {
            "Get" => {
                arguments.text();
                let state = self.state.lock();
                if arguments.text().as_deref() == Some("PreparingForShutdown") {
                    body.signature("b");
                    body.number(u32::from(state.preparing));
                } else {
                    body.signature("t");
                    body.long_number(state.delay_seconds * 1_000_000);
                }
            }
            "KillUnit" => {
                signature = "";
                let mut state = self.state.lock();
                let (unit, target) = (arguments.text().unwrap(), arguments.text().unwrap());
                state.killed.push(format!("{unit} {target} {}", arguments.number().unwrap()));
                let file = state.config_file.as_ref().and_then(|file| std::fs::read_to_string(file).ok());
                let line = file.as_deref().and_then(|text| text.lines().last().map(str::to_owned));
                if let Some(seconds) =
                    line.as_deref().and_then(|line| line.strip_prefix("InhibitDelayMaxSec="))
                {
                    state.delay_seconds = seconds.parse().unwrap();
                }
            }
            "Inhibit" if self.state.lock().refuse_inhibit => {
                let text = Writer::texts(&["already running"]);
                let fields = [
                    (4, "s", "org.freedesktop.login1.OperationInProgress"),
                    (6, "s", call.sender.as_deref().unwrap()),
                ];
                let error_reply = message(3, 9, &fields, Some(incoming.serial), ("s", &text.0));
                return self.send(&error_reply, None).await;
            }
            "Inhibit" => {
                signature = "h";
                body.number(0);
                let fields: Vec<String> = (0..4).map(|_| arguments.text().unwrap()).collect();
                let (kept_end, lock_end) = std::os::unix::net::UnixStream::pair().unwrap();
                let mut state = self.state.lock();
                state.inhibitors.push(fields.join("|"));
                state.locks.push(kept_end.into());
                lock = Some(OwnedFd::from(lock_end));
            }
            other => panic!("{other} was called"),
        }
        self.serial += 1;
        let fields = [(6, "s", call.sender.as_deref().unwrap())];
        let mut reply = message(2, self.serial, &fields, Some(incoming.serial), (signature, &body.0));
        if lock.is_some() {
            reply =
                with_descriptor(2, self.serial, call.sender.as_deref().unwrap(), incoming.serial, &body.0);
        }
        self.send(&reply, lock).await;
    }

    async fn send(&mut self, bytes: &[u8], descriptor: Option<OwnedFd>) {
        self.stream.writable().await.unwrap();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let descriptors: Vec<_> = descriptor.iter().map(AsFd::as_fd).collect();
        if !descriptors.is_empty() {
            assert!(ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)));
        }
        let sent =
            rustix::net::sendmsg(&self.stream, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::empty());
        assert_eq!(sent.unwrap(), bytes.len());
    }
}

struct Incoming {
    serial: u32,
    message: Message,
}

async fn authenticate(stream: &mut UnixStream) {
    use tokio::io::AsyncWriteExt;
    for line in [dbus::auth_line().as_str(), "NEGOTIATE_UNIX_FD\r\n"] {
        stream.write_all(line.as_bytes()).await.unwrap();
        let mut reply = Vec::new();
        while !reply.ends_with(b"\r\n") {
            reply.push(stream.read_u8().await.unwrap());
        }
    }
    stream.write_all(b"BEGIN\r\n").await.unwrap();
    let hello = super::bus_call("Hello", "", &[]).message(1);
    stream.write_all(&hello).await.unwrap();
}

/// Cancel-safe: `incoming` keeps the bytes of an incomplete message.
async fn read_message(stream: &mut UnixStream, incoming: &mut Vec<u8>) -> Option<Incoming> {
    loop {
        if let Some(rest) = incoming.get(..16).map(|start| dbus::remaining_bytes(start).unwrap())
            && incoming.len() >= 16 + rest
        {
            let bytes: Vec<u8> = incoming.drain(..16 + rest).collect();
            let serial = u32::from_le_bytes(bytes[8..12].try_into().unwrap());
            return Some(Incoming { serial, message: Message::read(&bytes).unwrap() });
        }
        if stream.read_buf(incoming).await.ok()? == 0 {
            return None;
        }
    }
}

fn with_descriptor(kind: u8, serial: u32, to: &str, reply_serial: u32, body: &[u8]) -> Vec<u8> {
    let mut fields = fields(&[(6, "s", to)], Some(reply_serial), "h");
    fields.align(8);
    fields.0.push(9);
    fields.signature("u");
    fields.number(1);
    encode(kind, serial, &fields, body)
}

fn message(
    kind: u8,
    serial: u32,
    texts: &[(u8, &str, &str)],
    reply_serial: Option<u32>,
    (signature, body): (&str, &[u8]),
) -> Vec<u8> {
    encode(kind, serial, &fields(texts, reply_serial, signature), body)
}

fn fields(texts: &[(u8, &str, &str)], reply_serial: Option<u32>, signature: &str) -> Writer {
    let mut fields = Writer::default();
    for (code, kind, text) in texts {
        fields.align(8);
        fields.0.push(*code);
        fields.signature(kind);
        fields.text(text);
    }
    if let Some(reply_serial) = reply_serial {
        fields.align(8);
        fields.0.push(5);
        fields.signature("u");
        fields.number(reply_serial);
    }
    if !signature.is_empty() {
        fields.align(8);
        fields.0.push(8);
        fields.signature("g");
        fields.signature(signature);
    }
    fields
}

fn encode(kind: u8, serial: u32, fields: &Writer, body: &[u8]) -> Vec<u8> {
    let mut message = Writer(vec![b'l', kind, 0, 1]);
    message.number(u32::try_from(body.len()).unwrap());
    message.number(serial);
    message.number(u32::try_from(fields.0.len()).unwrap());
    message.0.extend_from_slice(&fields.0);
    message.align(8);
    message.0.extend_from_slice(body);
    message.0
}
