//! Tests with a real bus daemon and a fake logind and systemd on it.

mod fake_logind;

use std::process::Command;
use std::time::Duration;

use ports::host::logind::{Logind, LogindSession, ShutdownSignal};
use tokio::time::timeout;

use super::*;
use fake_logind::{Bus, FakeLogind};

const TIMEOUT: Duration = Duration::from_secs(20);
/// How long to wait for an event that must not occur.
const QUIET_PERIOD: Duration = Duration::from_millis(500);

struct Fixture {
    bus: Bus,
    logind: FakeLogind,
    client: HostLogind,
}

impl Fixture {
    async fn new() -> Self {
        let bus = Bus::start();
        let logind = FakeLogind::start(&bus).await;
        let client = HostLogind::new(bus.address(), bus.folder().join("etc/logind.conf.d"));
        Self { bus, logind, client }
    }

    async fn session(&self) -> Box<dyn LogindSession> {
        self.client.connect().await.unwrap()
    }

    /// Sends a message as another bus client.
    fn send(&self, arguments: &[&str]) {
        let mut command = Command::new("dbus-send");
        let sent = command.arg(format!("--bus={}", self.bus.address())).args(arguments).status().unwrap();
        assert!(sent.success());
    }
}

async fn next(session: &mut Box<dyn LogindSession>) -> ShutdownSignal {
    timeout(TIMEOUT, session.next()).await.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Debian packages"]
async fn reads_properties_and_raises_the_delay() {
    let fixture = Fixture::new().await;
    let mut session = fixture.session().await;
    assert_eq!(session.max_delay().await.unwrap(), Duration::from_secs(5));
    assert!(!session.is_shutting_down().await.unwrap());
    fixture.logind.change(|state| state.preparing = true);
    assert!(session.is_shutting_down().await.unwrap());
    fixture.logind.change(|state| {
        state.config_file = Some(fixture.bus.folder().join("etc/logind.conf.d/99-kubelet.conf"));
    });
    session.raise_max_delay(Duration::from_secs(210)).await.unwrap();
    assert_eq!(session.max_delay().await.unwrap(), Duration::from_secs(210));
    assert_eq!(fixture.logind.read(|state| state.killed.clone()), ["systemd-logind.service all 1"]);
    let file = fixture.bus.folder().join("etc/logind.conf.d/99-kubelet.conf");
    let text = std::fs::read_to_string(&file).unwrap();
    assert_eq!(text, "# Kubelet logind override\n[Login]\nInhibitDelayMaxSec=210\n");
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&file).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o644);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Debian packages"]
async fn inhibitor_lock_is_held_until_dropped() {
    let fixture = Fixture::new().await;
    let mut session = fixture.session().await;
    let lock = session.inhibit().await.unwrap();
    assert_eq!(
        fixture.logind.read(|state| state.inhibitors.clone()),
        ["shutdown|kubelet|Kubelet needs time to handle node shutdown|delay"]
    );
    // The lock is independent of the session that took it.
    drop(session);
    assert!(timeout(QUIET_PERIOD, fixture.logind.released()).await.is_err());
    drop(lock);
    timeout(TIMEOUT, fixture.logind.released()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Debian packages"]
async fn receives_signals_sent_during_a_call() {
    let fixture = Fixture::new().await;
    let mut session = fixture.session().await;
    fixture.logind.prepare_for_shutdown(true).await;
    fixture.logind.prepare_for_shutdown(false).await;
    session.max_delay().await.unwrap();
    assert_eq!(next(&mut session).await, ShutdownSignal::Imminent);
    // A cancelled call loses no signal.
    let mut received = None;
    for micros in 0..2000 {
        if let Ok(signal) = timeout(Duration::from_micros(micros), session.next()).await {
            received = Some(signal.unwrap());
            break;
        }
    }
    assert_eq!(received, Some(ShutdownSignal::Cancelled));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Debian packages"]
async fn ignores_shutdown_signals_of_other_senders() {
    let fixture = Fixture::new().await;
    let mut session = fixture.session().await;
    let member = "org.freedesktop.login1.Manager.PrepareForShutdown";
    fixture.send(&["--type=signal", PATH, member, "boolean:true"]);
    // The bus numbers its clients; one of these is the session.
    for name in [":1.0", ":1.1", ":1.2", ":1.3"] {
        fixture.send(&["--type=signal", &format!("--dest={name}"), PATH, member, "boolean:true"]);
    }
    assert!(timeout(QUIET_PERIOD, session.next()).await.is_err());
    fixture.logind.prepare_for_shutdown(true).await;
    assert_eq!(next(&mut session).await, ShutdownSignal::Imminent);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Debian packages"]
async fn errors_of_logind_are_reported() {
    let fixture = Fixture::new().await;
    let mut session = fixture.session().await;
    fixture.logind.change(|state| state.refuse_inhibit = true);
    let error = session.inhibit().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "inhibit shutdown: org.freedesktop.login1.OperationInProgress: already running"
    );
    drop(fixture.logind);
    let error = timeout(TIMEOUT, session.max_delay()).await.unwrap().unwrap_err().to_string();
    assert!(error.starts_with("read InhibitDelayMaxUSec of logind: org.freedesktop.DBus.Error."), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Debian packages"]
async fn closed_bus_connection_is_reported() {
    let Fixture { bus, client, logind } = Fixture::new().await;
    let mut session = client.connect().await.unwrap();
    drop(bus);
    let error = timeout(TIMEOUT, session.next()).await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "wait for a signal of logind: the bus closed the connection");
    let error = client.connect().await.err().unwrap().to_string();
    assert!(error.starts_with("connect to the system bus: /"), "{error}");
    drop(logind);
}
