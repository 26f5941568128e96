//! Contract tests of the runtime ports. They run against the fake runtime, and in `make e2e` against a real one:
//! `PODWARD_CRI_SOCKET` is its socket, or `private` to start a separate containerd.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod contract {
    pub(crate) mod checks;
}

use std::path::PathBuf;
use std::sync::Arc;

use contract::checks::{self, RuntimeFixture};
use cri::{CriClient, DEFAULT_REQUEST_TIMEOUT, Endpoint};
use tempfile::TempDir;
use testkit::containerd::Containerd;
use testkit::fake_runtime::{ContainerBehaviour, FakeRuntime, Machine};
use testkit::images::BUSYBOX;

fn client(socket: &str) -> CriClient {
    let endpoint = socket.parse::<Endpoint>().unwrap();
    CriClient::new(&endpoint, DEFAULT_REQUEST_TIMEOUT)
}

fn fake() -> (RuntimeFixture, FakeRuntime) {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("cri.sock");
    let fake = FakeRuntime::start(&socket).unwrap();
    fake.add_image(BUSYBOX);
    let machine: &Arc<Machine> = fake.machine();
    // `exit N` is the only command in the checks that exits on its own.
    machine.set_behaviour_hook(|config| {
        let code = config.command.last()?.strip_prefix("exit ")?.parse().ok()?;
        Some(ContainerBehaviour::exits(code))
    });
    let runtime = client(&format!("unix://{}", socket.display()));
    (RuntimeFixture::new(Arc::new(runtime), BUSYBOX, folder), fake)
}

macro_rules! contract {
    ($($check:ident),+ $(,)?) => {
        mod on_fake_runtime {
            $(
                #[tokio::test]
                async fn $check() {
                    let (fixture, fake) = super::fake();
                    super::checks::$check(&fixture).await;
                    drop(fake);
                }
            )+
        }

        async fn check_all(fixture: impl Fn() -> RuntimeFixture) {
            $(
                eprintln!("{}", stringify!($check));
                checks::$check(&fixture()).await;
            )+
        }
    };
}

contract!(
    reports_version_and_conditions,
    runs_complete_pod_lifecycle,
    reports_exit_codes,
    unknown_ids_are_not_found_but_stop_and_remove_succeed,
    rejects_duplicate_attempts,
    lists_one_pod_or_all_pods,
    finds_images_by_name_and_id,
    events_contain_pod_uid,
    reopens_logs_of_running_containers_only,
);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs root"]
async fn on_a_real_runtime() {
    let socket = std::env::var("PODWARD_CRI_SOCKET").unwrap_or_else(|_| "private".to_owned());
    let private = if socket == "private" { Some(Containerd::start().await.unwrap()) } else { None };
    let socket = private.as_ref().map_or(PathBuf::from(&socket), |containerd| containerd.instance().socket());
    let image = std::env::var("PODWARD_CRI_IMAGE").unwrap_or_else(|_| BUSYBOX.to_owned());
    let runtime = Arc::new(client(&socket.to_string_lossy()));
    check_all(|| RuntimeFixture::new(runtime.clone(), &image, TempDir::new().unwrap())).await;
}
