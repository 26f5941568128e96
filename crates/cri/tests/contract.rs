//! What the runtime ports promise, checked through the client on the fake runtime, and on a real one when
//! `PODWARD_CRI_SOCKET` names its socket (`private`: a containerd of our own, started for the run).

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod contract {
    pub(crate) mod checks;
}

use std::path::PathBuf;
use std::sync::Arc;

use contract::checks::{self, Stage};
use cri::{CriClient, DEFAULT_REQUEST_TIMEOUT, Endpoint};
use tempfile::TempDir;
use testkit::containerd::Containerd;
use testkit::fake_runtime::{ContainerBehaviour, FakeRuntime, Machine};
use testkit::images::BUSYBOX;

fn client(socket: &str) -> CriClient {
    let endpoint = socket.parse::<Endpoint>().unwrap();
    CriClient::new(&endpoint, DEFAULT_REQUEST_TIMEOUT)
}

fn fake() -> (Stage, FakeRuntime) {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("cri.sock");
    let fake = FakeRuntime::start(&socket).unwrap();
    fake.add_image(BUSYBOX);
    let machine: &Arc<Machine> = fake.machine();
    // `exit N` is the one command of the checks that ends by itself.
    machine.set_behaviour_hook(|config| {
        let code = config.command.last()?.strip_prefix("exit ")?.parse().ok()?;
        Some(ContainerBehaviour::exits(code))
    });
    let runtime = client(&format!("unix://{}", socket.display()));
    (Stage::new(Arc::new(runtime), BUSYBOX, folder), fake)
}

macro_rules! contract {
    ($($check:ident),+ $(,)?) => {
        mod on_the_fake {
            $(
                #[tokio::test]
                async fn $check() {
                    let (stage, fake) = super::fake();
                    super::checks::$check(&stage).await;
                    drop(fake);
                }
            )+
        }

        async fn check_all(stage: impl Fn() -> Stage) {
            $(
                eprintln!("{}", stringify!($check));
                checks::$check(&stage()).await;
            )+
        }
    };
}

contract!(
    tells_who_it_is_and_whether_it_is_ready,
    a_pod_lives_and_dies,
    exit_codes_are_kept,
    what_is_unknown_is_not_found_but_may_be_ended,
    an_attempt_is_made_once,
    lists_hold_one_pod_or_all_of_kubernetes,
    images_are_found_by_name_and_id,
    events_name_the_pod,
    logs_of_living_containers_reopen,
);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs an installed containerd: make e2e runs it"]
async fn on_a_real_runtime() {
    let socket = std::env::var("PODWARD_CRI_SOCKET").unwrap_or_else(|_| "private".to_owned());
    let private = if socket == "private" { Some(Containerd::start().await.unwrap()) } else { None };
    let socket = private.as_ref().map_or(PathBuf::from(&socket), |containerd| containerd.instance().socket());
    let image = std::env::var("PODWARD_CRI_IMAGE").unwrap_or_else(|_| BUSYBOX.to_owned());
    let runtime = Arc::new(client(&socket.to_string_lossy()));
    check_all(|| Stage::new(runtime.clone(), &image, TempDir::new().unwrap())).await;
}
