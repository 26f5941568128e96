//! Against a real bus daemon with a stand-in for logind and systemd on it.

mod stand_in;

use std::process::Command;
use std::time::Duration;

use ports::logind::{Logind, LogindSession, ShutdownSignal};
use tokio::time::timeout;

use super::*;
use stand_in::{Bus, StandIn};

const PATIENCE: Duration = Duration::from_secs(20);
/// How long something is waited for that must not come.
const LITTLE: Duration = Duration::from_millis(500);

struct Given {
    bus: Bus,
    logind: StandIn,
    client: HostLogind,
}

impl Given {
    async fn new() -> Self {
        let bus = Bus::start();
        let logind = StandIn::start(&bus).await;
        let client = HostLogind::new(bus.address(), bus.folder().join("etc/logind.conf.d"));
        Self { bus, logind, client }
    }

    async fn session(&self) -> Box<dyn LogindSession> {
        self.client.connect().await.unwrap()
    }

    /// Says something on the bus as somebody else.
    fn send(&self, arguments: &[&str]) {
        let mut command = Command::new("dbus-send");
        let sent = command.arg(format!("--bus={}", self.bus.address())).args(arguments).status().unwrap();
        assert!(sent.success());
    }
}

async fn next(session: &mut Box<dyn LogindSession>) -> ShutdownSignal {
    timeout(PATIENCE, session.next()).await.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn facts_are_read_and_the_delay_is_raised_by_a_file() {
    let given = Given::new().await;
    let mut session = given.session().await;
    assert_eq!(session.longest_delay().await.unwrap(), Duration::from_secs(5));
    assert!(!session.is_shutting_down().await.unwrap());
    given.logind.change(|world| world.preparing = true);
    assert!(session.is_shutting_down().await.unwrap());
    given
        .logind
        .change(|world| world.obeys = Some(given.bus.folder().join("etc/logind.conf.d/99-kubelet.conf")));
    session.raise_longest_delay(Duration::from_secs(210)).await.unwrap();
    assert_eq!(session.longest_delay().await.unwrap(), Duration::from_secs(210));
    assert_eq!(given.logind.look(|world| world.killed.clone()), ["systemd-logind.service all 1"]);
    let file = given.bus.folder().join("etc/logind.conf.d/99-kubelet.conf");
    let text = std::fs::read_to_string(&file).unwrap();
    assert_eq!(text, "# Kubelet logind override\n[Login]\nInhibitDelayMaxSec=210\n");
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&file).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o644);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lock_is_held_until_it_is_dropped() {
    let given = Given::new().await;
    let mut session = given.session().await;
    let lock = session.inhibit().await.unwrap();
    assert_eq!(
        given.logind.look(|world| world.inhibitors.clone()),
        ["shutdown|kubelet|Kubelet needs time to handle node shutdown|delay"]
    );
    // The lock outlives the conversation in which it was taken.
    drop(session);
    assert!(timeout(LITTLE, given.logind.released()).await.is_err());
    drop(lock);
    timeout(PATIENCE, given.logind.released()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn signals_are_heard_also_those_that_came_during_a_question() {
    let given = Given::new().await;
    let mut session = given.session().await;
    given.logind.prepare_for_shutdown(true).await;
    given.logind.prepare_for_shutdown(false).await;
    session.longest_delay().await.unwrap();
    assert_eq!(next(&mut session).await, ShutdownSignal::Imminent);
    // Whoever gives up waiting at any point loses nothing.
    let mut heard = None;
    for micros in 0..2000 {
        if let Ok(signal) = timeout(Duration::from_micros(micros), session.next()).await {
            heard = Some(signal.unwrap());
            break;
        }
    }
    assert_eq!(heard, Some(ShutdownSignal::Cancelled));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_say_in_loginds_name_does_not_count() {
    let given = Given::new().await;
    let mut session = given.session().await;
    let member = "org.freedesktop.login1.Manager.PrepareForShutdown";
    given.send(&["--type=signal", PATH, member, "boolean:true"]);
    // The second client of this bus after the stand-in's two; the bus numbers them.
    for name in [":1.0", ":1.1", ":1.2", ":1.3"] {
        given.send(&["--type=signal", &format!("--dest={name}"), PATH, member, "boolean:true"]);
    }
    assert!(timeout(LITTLE, session.next()).await.is_err());
    given.logind.prepare_for_shutdown(true).await;
    assert_eq!(next(&mut session).await, ShutdownSignal::Imminent);
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_are_told_in_words() {
    let given = Given::new().await;
    let mut session = given.session().await;
    given.logind.change(|world| world.refuses = true);
    let error = session.inhibit().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "hold up the machine's shutdown: org.freedesktop.login1.OperationInProgress: already running"
    );
    drop(given.logind);
    let error = timeout(PATIENCE, session.longest_delay()).await.unwrap().unwrap_err().to_string();
    assert!(error.starts_with("read InhibitDelayMaxUSec of logind: org.freedesktop.DBus.Error."), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bus_that_goes_away_ends_the_conversation() {
    let Given { bus, client, logind } = Given::new().await;
    let mut session = client.connect().await.unwrap();
    drop(bus);
    let error = timeout(PATIENCE, session.next()).await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "listen to logind: the bus has hung up");
    let error = client.connect().await.err().unwrap().to_string();
    assert!(error.starts_with("connect to the system bus: /"), "{error}");
    drop(logind);
}
