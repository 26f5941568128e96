//! systemd-logind over the system bus.

#[cfg(test)]
mod tests;

use std::ffi::OsStr;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use ports::logind::{InhibitorLock, Logind, LogindError, LogindSession, ShutdownSignal};

use crate::atomic_file::{self, Durability};
use crate::dbus::{Call, Connection, Message, Writer, socket};
use crate::failure::blocking;
use crate::folder::Folder;

const SERVICE: &str = "org.freedesktop.login1";
const PATH: &str = "/org/freedesktop/login1";
const MANAGER: &str = "org.freedesktop.login1.Manager";
const SIGNAL: &str = "PrepareForShutdown";
const BUS: &str = "org.freedesktop.DBus";
const BUS_PATH: &str = "/org/freedesktop/DBus";
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";
const SYSTEMD: &str = "org.freedesktop.systemd1";
const SYSTEMD_PATH: &str = "/org/freedesktop/systemd1";
const SYSTEMD_MANAGER: &str = "org.freedesktop.systemd1.Manager";

/// Who holds up the machine's end and why, as `systemd-inhibit --list` shows it.
const INHIBITOR: [&str; 4] = ["shutdown", "kubelet", "Kubelet needs time to handle node shutdown", "delay"];
/// The file that asks for a longer delay; another kubelet of this node finds and replaces it.
const DROP_IN: &str = "99-kubelet.conf";
/// What makes logind read its configuration again.
const HANG_UP: u32 = 1;

/// [`Logind`] by its interface on a bus.
#[derive(Clone, Debug)]
pub struct HostLogind {
    address: String,
    drop_ins: PathBuf,
}

impl HostLogind {
    /// At a bus address such as `unix:path=/run/dbus/system_bus_socket`, with a folder for additions to its
    /// configuration such as `/etc/systemd/logind.conf.d`.
    #[must_use]
    pub fn new(address: impl Into<String>, drop_ins: impl Into<PathBuf>) -> Self {
        Self { address: address.into(), drop_ins: drop_ins.into() }
    }
}

#[async_trait]
impl Logind for HostLogind {
    async fn connect(&self) -> Result<Box<dyn LogindSession>, LogindError> {
        const CONNECT: &str = "connect to the system bus";
        let socket = socket(&self.address).map_err(failed(CONNECT))?;
        let at = |error: std::io::Error| LogindError {
            operation: CONNECT,
            reason: format!("{}: {error}", socket.display()),
        };
        let mut connection = Connection::open(&socket).await.map_err(at)?;
        connection.call(&of_bus("Hello", "", &[])).await.map_err(at)?;
        let rule =
            format!("type='signal',sender='{SERVICE}',interface='{MANAGER}',member='{SIGNAL}',path='{PATH}'");
        let body = Writer::texts(&[&rule]).0;
        let listened = connection.call(&of_bus("AddMatch", "s", &body)).await;
        listened.map_err(failed("listen for PrepareForShutdown"))?;
        Ok(Box::new(Session { connection, heard: None, drop_ins: self.drop_ins.clone() }))
    }
}

struct Session {
    connection: Connection,
    /// A signal of which it is not known yet whether logind sent it.
    heard: Option<Message>,
    drop_ins: PathBuf,
}

impl Session {
    /// A property of logind, which must be of that type.
    async fn property(&mut self, name: &'static str, kind: &str) -> Result<Message, String> {
        let body = Writer::texts(&[MANAGER, name]).0;
        let call = Call {
            destination: SERVICE,
            path: PATH,
            interface: PROPERTIES,
            member: "Get",
            signature: "ss",
            body: &body,
        };
        let answer = self.connection.call(&call).await.map_err(|error| error.to_string())?.message;
        if answer.signature == "v" && answer.body().signature().as_deref() == Some(kind) {
            return Ok(answer);
        }
        Err(format!("it is of type {} instead of {kind}", answer.signature))
    }

    /// Whether logind itself sent the signal. Anyone on the machine may send one of that name to us alone, past the
    /// rule that we gave to the bus.
    async fn is_from_logind(&mut self, signal: &Message) -> std::io::Result<bool> {
        if signal.path.as_deref() != Some(PATH)
            || signal.interface.as_deref() != Some(MANAGER)
            || signal.member.as_deref() != Some(SIGNAL)
        {
            return Ok(false);
        }
        let body = Writer::texts(&[SERVICE]).0;
        let answer = self.connection.call(&of_bus("GetNameOwner", "s", &body)).await?;
        let owner = answer.message.body().text();
        Ok(owner.is_some() && owner == signal.sender)
    }
}

#[async_trait]
impl LogindSession for Session {
    async fn longest_delay(&mut self) -> Result<Duration, LogindError> {
        const READ: &str = "read InhibitDelayMaxUSec of logind";
        let answer = self.property("InhibitDelayMaxUSec", "t").await.map_err(failed(READ))?;
        let mut body = answer.body();
        body.signature();
        let micros = body.long_number().ok_or("it has no value").map_err(failed(READ))?;
        Ok(Duration::from_micros(micros))
    }

    async fn raise_longest_delay(&mut self, to: Duration) -> Result<(), LogindError> {
        let written = write_drop_in(&self.drop_ins, to).await;
        written.map_err(failed("ask for a longer InhibitDelayMaxSec"))?;
        let mut body = Writer::texts(&["systemd-logind.service", "all"]);
        body.number(HANG_UP);
        let call = Call {
            destination: SYSTEMD,
            path: SYSTEMD_PATH,
            interface: SYSTEMD_MANAGER,
            member: "KillUnit",
            signature: "ssi",
            body: &body.0,
        };
        self.connection.call(&call).await.map_err(failed("make logind read its configuration"))?;
        Ok(())
    }

    async fn is_shutting_down(&mut self) -> Result<bool, LogindError> {
        const READ: &str = "read PreparingForShutdown of logind";
        let answer = self.property("PreparingForShutdown", "b").await.map_err(failed(READ))?;
        let mut body = answer.body();
        body.signature();
        body.flag().ok_or("it has no value").map_err(failed(READ))
    }

    async fn inhibit(&mut self) -> Result<InhibitorLock, LogindError> {
        const INHIBIT: &str = "hold up the machine's shutdown";
        let body = Writer::texts(&INHIBITOR).0;
        let call = Call {
            destination: SERVICE,
            path: PATH,
            interface: MANAGER,
            member: "Inhibit",
            signature: "ssss",
            body: &body,
        };
        let answer = self.connection.call(&call).await.map_err(failed(INHIBIT))?;
        let lock = answer.descriptors.into_iter().next();
        lock.map(InhibitorLock::new).ok_or("no file descriptor came with the answer").map_err(failed(INHIBIT))
    }

    async fn next(&mut self) -> Result<ShutdownSignal, LogindError> {
        const LISTEN: &str = "listen to logind";
        loop {
            let signal = match self.heard.take() {
                Some(signal) => signal,
                None => self.connection.signal().await.map_err(failed(LISTEN))?,
            };
            // Kept while it is checked, for a caller that gives up meanwhile.
            self.heard = Some(signal.clone());
            let counts = self.is_from_logind(&signal).await.map_err(failed(LISTEN))?;
            self.heard = None;
            match signal.body().flag() {
                Some(true) if counts => return Ok(ShutdownSignal::Imminent),
                Some(false) if counts => return Ok(ShutdownSignal::Cancelled),
                Some(_) | None => {}
            }
        }
    }
}

fn of_bus<'a>(member: &'a str, signature: &'a str, body: &'a [u8]) -> Call<'a> {
    Call { destination: BUS, path: BUS_PATH, interface: BUS, member, signature, body }
}

async fn write_drop_in(folder: &Path, delay: Duration) -> Result<(), String> {
    let content = format!("# Kubelet logind override\n[Login]\nInhibitDelayMaxSec={}\n", delay.as_secs());
    let path = folder.to_owned();
    let written = blocking(folder, move || {
        let folder = Folder::make(&path, 0o755)?;
        let temporary = format!(".{DROP_IN}.new");
        let (name, temporary) = (OsStr::new(DROP_IN), OsStr::new(&temporary));
        atomic_file::replace(&folder, name, temporary, content.as_bytes(), 0o644, Durability::Ordered)
    });
    written.await.map_err(|error| format!("{error}: {}", error.source))
}

fn failed<E: Display>(operation: &'static str) -> impl Fn(E) -> LogindError {
    move |error| LogindError { operation, reason: error.to_string() }
}
