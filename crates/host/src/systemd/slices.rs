//! Manages the slices of pods through systemd. Limits that are only written to cgroup files would be reset by systemd
//! when it reloads the slice.

mod message;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::{CgroupLimits, CgroupVersion};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::Semaphore;
use values::cpu_set::CpuSet;

use crate::systemd::dbus;
use message::{Property, Value, method_call};

/// systemd's private socket, which root can use without a bus.
const SOCKET: &str = "/run/systemd/private";
/// For a whole call, with the wait for its turn. A systemd that does not answer occupies no thread meanwhile.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Calls at the same time, so that a systemd that does not answer does not get more and more connections.
static CALL_LIMITER: Semaphore = Semaphore::const_new(16);

#[derive(Clone, Debug)]
pub(crate) struct Systemd {
    socket: PathBuf,
}

impl Systemd {
    /// `None` if systemd does not run.
    pub(crate) fn find() -> Option<Self> {
        Path::new(SOCKET).exists().then(|| Self { socket: SOCKET.into() })
    }

    /// Starts a slice. Succeeds if it exists.
    pub(crate) async fn start_slice(&self, name: &str) -> io::Result<()> {
        let properties = [
            Property("Description", Value::Text(format!("podward slice {name}"))),
            Property("Wants", Value::Texts(parent_slice(name).into_iter().collect())),
            Property("MemoryAccounting", Value::Flag(true)),
            Property("CPUAccounting", Value::Flag(true)),
            Property("TasksAccounting", Value::Flag(true)),
            Property("DefaultDependencies", Value::Flag(false)),
        ];
        let body = message::start_transient_unit(name, &properties);
        match self.call("StartTransientUnit", "ssa(sv)a(sa(sv))", &body).await {
            Err(error) if error.to_string().contains("UnitExists") => Ok(()),
            result => result,
        }
    }

    /// Sets limits of a slice until the next reboot.
    pub(crate) async fn set_limits(
        &self,
        name: &str,
        limits: &CgroupLimits,
        version: CgroupVersion,
    ) -> io::Result<()> {
        let properties = properties(limits, version);
        if properties.is_empty() {
            return Ok(());
        }
        self.call("SetUnitProperties", "sba(sv)", &message::set_unit_properties(name, &properties)).await
    }

    /// Stops a slice. Succeeds if it does not exist.
    pub(crate) async fn stop_slice(&self, name: &str) -> io::Result<()> {
        match self.call("StopUnit", "ss", &message::stop_unit(name)).await {
            Err(error) if error.to_string().contains("NoSuchUnit") => Ok(()),
            result => result,
        }
    }

    async fn call(&self, member: &str, signature: &str, body: &[u8]) -> io::Result<()> {
        let exchange = async {
            // The semaphore is never closed.
            let _permit = CALL_LIMITER.acquire().await.map_err(io::Error::other)?;
            self.exchange(member, signature, body).await
        };
        let timed_out = |_| {
            let message = format!("systemd does not answer {member} within {CALL_TIMEOUT:?}");
            io::Error::new(io::ErrorKind::TimedOut, message)
        };
        tokio::time::timeout(CALL_TIMEOUT, exchange).await.map_err(timed_out)?
    }

    async fn exchange(&self, member: &str, signature: &str, body: &[u8]) -> io::Result<()> {
        let mut stream = UnixStream::connect(&self.socket).await?;
        authenticate(&mut stream).await?;
        stream.write_all(&method_call(member, signature, body)).await?;
        loop {
            let reply = read_message(&mut stream).await?;
            match message::parse_reply(&reply) {
                message::Reply::Done => return Ok(()),
                message::Reply::Failed(reason) => {
                    return Err(io::Error::other(format!("systemd refused {member}: {reason}")));
                }
                // Signals are not used here.
                message::Reply::Other => {}
            }
        }
    }
}

/// The protocol requires authentication, although the socket is for root only.
async fn authenticate(stream: &mut UnixStream) -> io::Result<()> {
    stream.write_all(dbus::auth_line().as_bytes()).await?;
    let mut line = Vec::new();
    let mut byte = [0];
    while !line.ends_with(b"\r\n") && line.len() < 1024 {
        stream.read_exact(&mut byte).await?;
        line.extend_from_slice(&byte);
    }
    if !line.starts_with(b"OK ") {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "systemd refused the authentication"));
    }
    stream.write_all(b"BEGIN\r\n").await
}

async fn read_message(stream: &mut UnixStream) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; 16];
    stream.read_exact(&mut bytes).await?;
    let rest = dbus::remaining_bytes(&bytes).filter(|rest| *rest <= dbus::MAX_BYTES);
    let rest = rest.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not a reply of systemd"))?;
    bytes.resize(16 + rest, 0);
    stream.read_exact(bytes.get_mut(16..).unwrap_or_default()).await?;
    Ok(bytes)
}

/// The parent is part of the name; a slice without a dash has none.
fn parent_slice(name: &str) -> Option<String> {
    let (parent, _) = name.strip_suffix(".slice")?.rsplit_once('-')?;
    Some(format!("{parent}.slice"))
}

fn properties(limits: &CgroupLimits, version: CgroupVersion) -> Vec<Property<'static>> {
    let mut all = Vec::new();
    let mut add =
        |name, value: Option<u64>| all.extend(value.map(|value| Property(name, Value::Number(value))));
    let bytes = |limit: Option<i64>| limit.and_then(|bytes| u64::try_from(bytes).ok());
    let memory = bytes(limits.memory);
    match version {
        CgroupVersion::V1 => {
            add("CPUShares", limits.cpu_shares);
            add("MemoryLimit", memory);
        }
        CgroupVersion::V2 => {
            add("CPUWeight", limits.cpu_shares.map(crate::cgroups::cpu_weight));
            add("MemoryMax", memory);
            add("MemoryMin", bytes(limits.memory_min));
            add("MemoryLow", bytes(limits.memory_low));
        }
    }
    if limits.cpu_quota.is_some() {
        add("CPUQuotaPeriodUSec", Some(limits.systemd_period()));
        add("CPUQuotaPerSecUSec", Some(limits.systemd_quota_per_second().unwrap_or(u64::MAX)));
    }
    add("TasksMax", limits.pids.and_then(|pids| u64::try_from(pids).ok()));
    // Without the property systemd may remove the cpuset controller from the slice again.
    if let (CgroupVersion::V2, Some(cpus)) = (version, &limits.cpus) {
        all.push(Property("AllowedCPUs", Value::Bytes(cpu_mask(cpus))));
    }
    all
}

/// One bit per CPU, the lowest first.
fn cpu_mask(cpus: &CpuSet) -> Vec<u8> {
    let mut mask = Vec::new();
    for cpu in cpus.iter() {
        let byte = usize::try_from(cpu / 8).unwrap_or(0);
        if mask.len() <= byte {
            mask.resize(byte + 1, 0);
        }
        if let Some(bits) = mask.get_mut(byte) {
            *bits |= 1 << (cpu % 8);
        }
    }
    mask
}

#[cfg(test)]
mod tests {
    use tokio::net::UnixListener;
    use tokio::task::JoinHandle;

    use super::*;

    /// A fake systemd that replies to one call with `kind` (2 return, 3 error) and returns the call.
    fn replying(socket: &Path, kind: u8, name: &'static str) -> JoinHandle<Vec<u8>> {
        let listener = UnixListener::bind(socket).unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut line = Vec::new();
            let mut byte = [0];
            while !line.ends_with(b"\r\n") {
                stream.read_exact(&mut byte).await.unwrap();
                line.push(byte[0]);
            }
            assert!(line.starts_with(b"\0AUTH EXTERNAL "));
            stream.write_all(b"OK 1234\r\n").await.unwrap();
            stream.read_exact(&mut [0; 7]).await.unwrap();
            let call = read_message(&mut stream).await.unwrap();
            stream.write_all(&message::tests::encode_reply(kind, name)).await.unwrap();
            call
        })
    }

    fn contains(bytes: &[u8], text: &str) -> bool {
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    }

    #[tokio::test]
    async fn starts_slice_with_its_parent() {
        let scratch = tempfile::tempdir().unwrap();
        let systemd = Systemd { socket: scratch.path().join("private") };
        let server = replying(&systemd.socket, 2, "");
        systemd.start_slice("kubepods-burstable-pod1.slice").await.unwrap();
        let call = server.await.unwrap();
        for text in [
            "StartTransientUnit",
            "ssa(sv)a(sa(sv))",
            "kubepods-burstable-pod1.slice",
            "kubepods-burstable.slice",
        ] {
            assert!(contains(&call, text), "{text}");
        }
    }

    #[tokio::test]
    async fn existing_unit_is_accepted_and_other_errors_are_reported() {
        let scratch = tempfile::tempdir().unwrap();
        let systemd_at = |name: &str| Systemd { socket: scratch.path().join(name) };
        let exists = systemd_at("exists");
        let server = replying(&exists.socket, 3, "org.freedesktop.systemd1.UnitExists");
        exists.start_slice("kubepods.slice").await.unwrap();
        server.await.unwrap();
        let refused = systemd_at("refused");
        let server = replying(&refused.socket, 3, "org.freedesktop.DBus.Error.AccessDenied");
        let limits = CgroupLimits { cpu_shares: Some(2), ..CgroupLimits::default() };
        let error = refused.set_limits("kubepods.slice", &limits, CgroupVersion::V2).await.unwrap_err();
        server.await.unwrap();
        assert!(
            error.to_string().contains("SetUnitProperties: org.freedesktop.DBus.Error.AccessDenied"),
            "{error}"
        );
        assert!(systemd_at("missing").stop_slice("kubepods.slice").await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn call_ends_when_systemd_does_not_answer() {
        let scratch = tempfile::tempdir().unwrap();
        let systemd = Systemd { socket: scratch.path().join("private") };
        // Accepts connections and sends a byte from time to time.
        let listener = UnixListener::bind(&systemd.socket).unwrap();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            while stream.write_all(b"O").await.is_ok() {
                tokio::time::sleep(CALL_TIMEOUT / 4).await;
            }
        });
        let error = systemd.stop_slice("kubepods.slice").await.unwrap_err();
        assert_eq!(error.to_string(), "systemd does not answer StopUnit within 10s");
        server.abort();
    }

    #[test]
    fn converts_limits_to_systemd_properties() {
        let limits = CgroupLimits {
            cpu_shares: Some(1024),
            cpu_quota: Some(25_500),
            cpu_period: Some(100_000),
            memory: Some(64 << 20),
            pids: Some(100),
            ..CgroupLimits::default()
        };
        let found = |limits: &CgroupLimits, version| -> Vec<(&str, u64)> {
            let number = |Property(name, value): Property<'static>| match value {
                Value::Number(number) => (name, number),
                other => panic!("{name} is {other:?}"),
            };
            properties(limits, version).into_iter().map(number).collect()
        };
        let shared = [("CPUQuotaPeriodUSec", 100_000), ("CPUQuotaPerSecUSec", 260_000), ("TasksMax", 100)];
        let v2 = [("CPUWeight", 39), ("MemoryMax", 64 << 20)];
        assert_eq!(found(&limits, CgroupVersion::V2), [&v2[..], &shared].concat());
        let v1 = [("CPUShares", 1024), ("MemoryLimit", 64 << 20)];
        assert_eq!(found(&limits, CgroupVersion::V1), [&v1[..], &shared].concat());
        let unlimited = CgroupLimits { cpu_quota: Some(-1), ..CgroupLimits::default() };
        assert_eq!(
            found(&unlimited, CgroupVersion::V2),
            [("CPUQuotaPeriodUSec", 100_000), ("CPUQuotaPerSecUSec", u64::MAX)]
        );
    }

    #[test]
    fn allowed_cpus_are_a_mask_on_cgroup_v2_only() {
        let limits = CgroupLimits { cpus: Some("0-2,9,16".parse().unwrap()), ..CgroupLimits::default() };
        let found = properties(&limits, CgroupVersion::V2);
        assert_eq!(found, [Property("AllowedCPUs", Value::Bytes(vec![0b111, 0b10, 0b1]))]);
        assert_eq!(properties(&limits, CgroupVersion::V1), []);
    }

    #[test]
    fn derives_parent_from_slice_name() {
        for (name, parent) in [
            ("kubepods-burstable-pod1.slice", Some("kubepods-burstable.slice")),
            ("kubepods-burstable.slice", Some("kubepods.slice")),
            ("kubepods.slice", None),
        ] {
            assert_eq!(parent_slice(name).as_deref(), parent, "{name}");
        }
    }
}
