//! systemd-logind over the system bus.

#[cfg(test)]
mod tests;

use std::ffi::OsStr;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use ports::host::logind::{InhibitorLock, Logind, LogindError, LogindSession, ShutdownSignal};

use crate::errors::blocking;
use crate::files::atomic_file::{self, Durability};
use crate::files::folder::Folder;
use crate::systemd::dbus::{Call, Connection, Cursor, Message, Writer, socket};

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

/// The fields `what`, `who`, `why` and `mode` of the inhibitor lock.
const INHIBITOR: [&str; 4] = ["shutdown", "kubelet", "Kubelet needs time to handle node shutdown", "delay"];
/// The file that raises the maximum delay. It has upstream's name, so that a kubelet on this node replaces it.
const DROP_IN: &str = "99-kubelet.conf";
/// SIGHUP, which makes logind reload its configuration.
const SIGHUP: u32 = 1;

/// [`Logind`] over D-Bus.
#[derive(Clone, Debug)]
pub struct HostLogind {
    address: String,
    drop_ins: PathBuf,
}

impl HostLogind {
    /// `address` is a bus address such as `unix:path=/run/dbus/system_bus_socket`, `drop_ins` the folder of logind's
    /// drop-in configuration, such as `/etc/systemd/logind.conf.d`.
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
        let connect_failed = |error: std::io::Error| LogindError {
            operation: CONNECT,
            reason: format!("{}: {error}", socket.display()),
        };
        let mut connection = Connection::open(&socket).await.map_err(connect_failed)?;
        connection.call(&bus_call("Hello", "", &[])).await.map_err(connect_failed)?;
        let rule =
            format!("type='signal',sender='{SERVICE}',interface='{MANAGER}',member='{SIGNAL}',path='{PATH}'");
        let body = Writer::texts(&[&rule]).0;
        let subscribed = connection.call(&bus_call("AddMatch", "s", &body)).await;
        subscribed.map_err(failed("subscribe to PrepareForShutdown"))?;
        Ok(Box::new(Session { connection, unverified: None, drop_ins: self.drop_ins.clone() }))
    }
}

struct Session {
    connection: Connection,
    /// A received signal whose sender is not verified yet.
    unverified: Option<Message>,
    drop_ins: PathBuf,
}

impl Session {
    /// Reads a property of logind. `kind` is its type, `read` takes the value from the reply.
    async fn property<T>(
        &mut self,
        name: &'static str,
        kind: &str,
        read: fn(Cursor<'_>) -> Option<T>,
    ) -> Result<T, String> {
        let body = Writer::texts(&[MANAGER, name]).0;
        let reply = self.connection.call(&logind_call(PROPERTIES, "Get", "ss", &body)).await;
        let reply = reply.map_err(|error| error.to_string())?.message;
        let mut value = reply.body();
        if reply.signature != "v" || value.signature().as_deref() != Some(kind) {
            return Err(format!("property has type {} instead of {kind}", reply.signature));
        }
        read(value).ok_or_else(|| "the property has no value".to_owned())
    }

    /// Whether logind sent the signal. Any process can send a signal of that name directly to this connection, which
    /// bypasses the match rule.
    async fn is_from_logind(&mut self, signal: &Message) -> std::io::Result<bool> {
        if signal.path.as_deref() != Some(PATH)
            || signal.interface.as_deref() != Some(MANAGER)
            || signal.member.as_deref() != Some(SIGNAL)
        {
            return Ok(false);
        }
        let body = Writer::texts(&[SERVICE]).0;
        let reply = self.connection.call(&bus_call("GetNameOwner", "s", &body)).await?;
        let owner = reply.message.body().text();
        Ok(owner.is_some() && owner == signal.sender)
    }
}

#[async_trait]
impl LogindSession for Session {
    async fn max_delay(&mut self) -> Result<Duration, LogindError> {
        let micros = self.property("InhibitDelayMaxUSec", "t", |mut value| value.long_number()).await;
        micros.map(Duration::from_micros).map_err(failed("read InhibitDelayMaxUSec of logind"))
    }

    async fn raise_max_delay(&mut self, to: Duration) -> Result<(), LogindError> {
        let written = write_drop_in(&self.drop_ins, to).await;
        written.map_err(failed("raise InhibitDelayMaxSec"))?;
        let mut body = Writer::texts(&["systemd-logind.service", "all"]);
        body.number(SIGHUP);
        let call = Call {
            destination: SYSTEMD,
            path: SYSTEMD_PATH,
            interface: SYSTEMD_MANAGER,
            member: "KillUnit",
            signature: "ssi",
            body: &body.0,
        };
        self.connection.call(&call).await.map_err(failed("reload the configuration of logind"))?;
        Ok(())
    }

    async fn is_shutting_down(&mut self) -> Result<bool, LogindError> {
        let is_shutting_down = self.property("PreparingForShutdown", "b", |mut value| value.flag()).await;
        is_shutting_down.map_err(failed("read PreparingForShutdown of logind"))
    }

    async fn inhibit(&mut self) -> Result<InhibitorLock, LogindError> {
        const INHIBIT: &str = "inhibit shutdown";
        let body = Writer::texts(&INHIBITOR).0;
        let call = logind_call(MANAGER, "Inhibit", "ssss", &body);
        let reply = self.connection.call(&call).await.map_err(failed(INHIBIT))?;
        let lock = reply.descriptors.into_iter().next();
        lock.map(InhibitorLock::new).ok_or("the reply has no file descriptor").map_err(failed(INHIBIT))
    }

    async fn next(&mut self) -> Result<ShutdownSignal, LogindError> {
        const LISTEN: &str = "wait for a signal of logind";
        loop {
            let signal = match self.unverified.take() {
                Some(signal) => signal,
                None => self.connection.next_signal().await.map_err(failed(LISTEN))?,
            };
            // Stored during verification, so that a cancelled call does not lose it.
            self.unverified = Some(signal.clone());
            let is_genuine = self.is_from_logind(&signal).await.map_err(failed(LISTEN))?;
            self.unverified = None;
            match signal.body().flag() {
                Some(true) if is_genuine => return Ok(ShutdownSignal::Imminent),
                Some(false) if is_genuine => return Ok(ShutdownSignal::Cancelled),
                Some(_) | None => {}
            }
        }
    }
}

fn bus_call<'a>(member: &'a str, signature: &'a str, body: &'a [u8]) -> Call<'a> {
    Call { destination: BUS, path: BUS_PATH, interface: BUS, member, signature, body }
}

fn logind_call<'a>(interface: &'a str, member: &'a str, signature: &'a str, body: &'a [u8]) -> Call<'a> {
    Call { destination: SERVICE, path: PATH, interface, member, signature, body }
}

async fn write_drop_in(folder: &Path, delay: Duration) -> Result<(), String> {
    let content = format!("# Kubelet logind override\n[Login]\nInhibitDelayMaxSec={}\n", delay.as_secs());
    let path = folder.to_owned();
    let written = blocking(folder, move || {
        let folder = Folder::make(&path, 0o755)?;
        let name = OsStr::new(DROP_IN);
        atomic_file::replace(&folder, name, content.as_bytes(), 0o644, Durability::Ordered)
    });
    written.await.map_err(|error| format!("{error}: {}", error.source))
}

fn failed<E: Display>(operation: &'static str) -> impl Fn(E) -> LogindError {
    move |error| LogindError { operation, reason: error.to_string() }
}
