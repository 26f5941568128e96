//! The few calls that systemd must hear so that it knows of the slices pods live in. Limits that were only written to
//! files would be undone by systemd when it next looks at the slice.

mod message;

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::{CgroupLimits, CgroupVersion};

use crate::dbus;
use message::{Property, Value, method_call};

/// The socket on which systemd answers root without a bus in between.
const SOCKET: &str = "/run/systemd/private";
/// The longest wait for an answer.
const DEADLINE: Duration = Duration::from_secs(10);

/// The service manager of this machine.
#[derive(Clone, Debug)]
pub(crate) struct Systemd {
    socket: PathBuf,
}

impl Systemd {
    /// The one that runs, if any.
    pub(crate) fn find() -> Option<Self> {
        Path::new(SOCKET).exists().then(|| Self { socket: SOCKET.into() })
    }

    /// Makes a slice; one that exists already is fine.
    pub(crate) fn start_slice(&self, name: &str) -> io::Result<()> {
        let properties = [
            Property("Description", Value::Text(format!("podward slice {name}"))),
            Property("Wants", Value::Texts(parent_slice(name).into_iter().collect())),
            Property("MemoryAccounting", Value::Flag(true)),
            Property("CPUAccounting", Value::Flag(true)),
            Property("TasksAccounting", Value::Flag(true)),
            Property("DefaultDependencies", Value::Flag(false)),
        ];
        let body = message::start_transient_unit(name, &properties);
        match self.call("StartTransientUnit", "ssa(sv)a(sa(sv))", &body) {
            Err(error) if error.to_string().contains("UnitExists") => Ok(()),
            result => result,
        }
    }

    /// Sets limits of a slice until the next start of the machine.
    pub(crate) fn set_limits(
        &self,
        name: &str,
        limits: &CgroupLimits,
        version: CgroupVersion,
    ) -> io::Result<()> {
        let properties = properties(limits, version);
        if properties.is_empty() {
            return Ok(());
        }
        self.call("SetUnitProperties", "sba(sv)", &message::set_unit_properties(name, &properties))
    }

    /// Lets a slice go; one that is unknown is fine.
    pub(crate) fn stop_slice(&self, name: &str) -> io::Result<()> {
        match self.call("StopUnit", "ss", &message::stop_unit(name)) {
            Err(error) if error.to_string().contains("NoSuchUnit") => Ok(()),
            result => result,
        }
    }

    fn call(&self, member: &str, signature: &str, body: &[u8]) -> io::Result<()> {
        let mut stream = UnixStream::connect(&self.socket)?;
        stream.set_read_timeout(Some(DEADLINE))?;
        stream.set_write_timeout(Some(DEADLINE))?;
        authenticate(&mut stream)?;
        stream.write_all(&method_call(member, signature, body))?;
        loop {
            let answer = read_message(&mut stream)?;
            match message::reply(&answer) {
                message::Reply::Done => return Ok(()),
                message::Reply::Failed(reason) => {
                    return Err(io::Error::other(format!("systemd refused {member}: {reason}")));
                }
                // A signal for whoever listens.
                message::Reply::Other => {}
            }
        }
    }
}

/// Root is known by the socket; its number is said all the same.
fn authenticate(stream: &mut UnixStream) -> io::Result<()> {
    stream.write_all(dbus::greeting().as_bytes())?;
    let mut line = Vec::new();
    let mut byte = [0];
    while !line.ends_with(b"\r\n") && line.len() < 1024 {
        stream.read_exact(&mut byte)?;
        line.extend_from_slice(&byte);
    }
    if !line.starts_with(b"OK ") {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "systemd does not know us"));
    }
    stream.write_all(b"BEGIN\r\n")
}

fn read_message(stream: &mut UnixStream) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; 16];
    stream.read_exact(&mut bytes)?;
    let rest = dbus::rest_of(&bytes).filter(|rest| *rest <= dbus::MOST_BYTES);
    let rest = rest.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not an answer of systemd"))?;
    bytes.resize(16 + rest, 0);
    stream.read_exact(bytes.get_mut(16..).unwrap_or_default())?;
    Ok(bytes)
}

/// Slices nest by their names; what has no dash lies below the root.
fn parent_slice(name: &str) -> Option<String> {
    let (parent, _) = name.strip_suffix(".slice")?.rsplit_once('-')?;
    Some(format!("{parent}.slice"))
}

fn properties(limits: &CgroupLimits, version: CgroupVersion) -> Vec<Property<'static>> {
    let mut all = Vec::new();
    let mut add =
        |name, value: Option<u64>| all.extend(value.map(|value| Property(name, Value::Number(value))));
    let memory = limits.memory.and_then(|bytes| u64::try_from(bytes).ok());
    match version {
        CgroupVersion::V1 => {
            add("CPUShares", limits.cpu_shares);
            add("MemoryLimit", memory);
        }
        CgroupVersion::V2 => {
            add("CPUWeight", limits.cpu_shares.map(crate::pod_cgroups::cpu_weight));
            add("MemoryMax", memory);
        }
    }
    if let Some(quota) = limits.cpu_quota {
        let period = limits.cpu_period.unwrap_or(100_000).max(1);
        add("CPUQuotaPeriodUSec", Some(period));
        // systemd counts in steps of 10 ms of each second.
        let per_second = u64::try_from(quota).ok().map(|quota| {
            let exact = quota.saturating_mul(1_000_000) / period;
            exact.div_ceil(10_000) * 10_000
        });
        add("CPUQuotaPerSecUSec", Some(per_second.unwrap_or(u64::MAX)));
    }
    add("TasksMax", limits.pids.and_then(|pids| u64::try_from(pids).ok()));
    all
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::thread::JoinHandle;

    use super::*;

    /// A manager that answers one call with `kind` (2 done, 3 refused) and gives back the call.
    fn answering(socket: &Path, kind: u8, name: &'static str) -> JoinHandle<Vec<u8>> {
        let listener = UnixListener::bind(socket).unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut line = Vec::new();
            let mut byte = [0];
            while !line.ends_with(b"\r\n") {
                stream.read_exact(&mut byte).unwrap();
                line.push(byte[0]);
            }
            assert!(line.starts_with(b"\0AUTH EXTERNAL "));
            stream.write_all(b"OK 1234\r\n").unwrap();
            stream.read_exact(&mut [0; 7]).unwrap();
            let call = read_message(&mut stream).unwrap();
            stream.write_all(&message::tests::answer(kind, name)).unwrap();
            call
        })
    }

    fn contains(bytes: &[u8], text: &str) -> bool {
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    }

    #[test]
    fn slices_are_made_with_their_parent() {
        let scratch = tempfile::tempdir().unwrap();
        let systemd = Systemd { socket: scratch.path().join("private") };
        let server = answering(&systemd.socket, 2, "");
        systemd.start_slice("kubepods-burstable-pod1.slice").unwrap();
        let call = server.join().unwrap();
        for text in [
            "StartTransientUnit",
            "ssa(sv)a(sa(sv))",
            "kubepods-burstable-pod1.slice",
            "kubepods-burstable.slice",
        ] {
            assert!(contains(&call, text), "{text}");
        }
    }

    #[test]
    fn what_exists_is_fine_and_what_is_refused_is_told() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| Systemd { socket: scratch.path().join(name) };
        let exists = at("exists");
        let server = answering(&exists.socket, 3, "org.freedesktop.systemd1.UnitExists");
        exists.start_slice("kubepods.slice").unwrap();
        server.join().unwrap();
        let refused = at("refused");
        let server = answering(&refused.socket, 3, "org.freedesktop.DBus.Error.AccessDenied");
        let limits = CgroupLimits { cpu_shares: Some(2), ..CgroupLimits::default() };
        let error = refused.set_limits("kubepods.slice", &limits, CgroupVersion::V2).unwrap_err();
        server.join().unwrap();
        assert!(
            error.to_string().contains("SetUnitProperties: org.freedesktop.DBus.Error.AccessDenied"),
            "{error}"
        );
        assert!(at("nobody").stop_slice("kubepods.slice").is_err());
    }

    #[test]
    fn limits_have_systemds_names_and_units() {
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
        let free = CgroupLimits { cpu_quota: Some(-1), ..CgroupLimits::default() };
        assert_eq!(
            found(&free, CgroupVersion::V2),
            [("CPUQuotaPeriodUSec", 100_000), ("CPUQuotaPerSecUSec", u64::MAX)]
        );
    }

    #[test]
    fn parents_are_told_by_the_name() {
        for (name, parent) in [
            ("kubepods-burstable-pod1.slice", Some("kubepods-burstable.slice")),
            ("kubepods-burstable.slice", Some("kubepods.slice")),
            ("kubepods.slice", None),
        ] {
            assert_eq!(parent_slice(name).as_deref(), parent, "{name}");
        }
    }
}
