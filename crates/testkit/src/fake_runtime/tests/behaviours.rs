use std::time::Duration;

use super::super::{ContainerBehaviour, ExecOutcome, KILLED, TERMINATED};
use super::*;

/// Stops a container with this behaviour; returns its exit code and how long it took.
async fn stop(behaviour: ContainerBehaviour, timeout: i64) -> (i32, Duration) {
    let (fake, mut client) = node_in_memory();
    fake.set_behaviour(IMAGE, behaviour);
    let (_, id) = client.running("a").await;
    let before = tokio::time::Instant::now();
    client.stop(&id, timeout).await.unwrap();
    let took = before.elapsed();
    assert_eq!(fake.read(|state| state.container(&id).unwrap().stop_timeouts.clone()), [timeout]);
    assert_no_violations(&fake);
    (client.status(&id).await.unwrap().exit_code, Duration::from_secs(took.as_secs()))
}

#[tokio::test(start_paused = true)]
async fn stop_signal_ends_process_by_default() {
    assert_eq!(stop(ContainerBehaviour::runs_forever(), 30).await, (TERMINATED, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn zero_grace_period_kills() {
    assert_eq!(stop(ContainerBehaviour::runs_forever(), 0).await, (KILLED, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn process_ignoring_signals_is_killed_after_grace_period() {
    let behaviour = ContainerBehaviour::runs_forever().ignoring_stop();
    assert_eq!(stop(behaviour, 30).await, (KILLED, Duration::from_secs(30)));
}

#[tokio::test(start_paused = true)]
async fn slow_process_exits_within_grace_period() {
    let behaviour = ContainerBehaviour::runs_forever().stopping_with(Duration::from_secs(4), 0);
    assert_eq!(stop(behaviour.clone(), 30).await, (0, Duration::from_secs(4)));
    assert_eq!(stop(behaviour, 2).await, (KILLED, Duration::from_secs(2)));
}

#[tokio::test(start_paused = true)]
async fn process_exits_when_due() {
    let (fake, mut client) = node_in_memory();
    fake.set_behaviour(IMAGE, ContainerBehaviour::exits_after(Duration::from_secs(5), 9));
    let (_, id) = client.running("a").await;
    assert_eq!(client.status(&id).await.unwrap().state(), ContainerState::ContainerRunning);
    fake.wait_until(|state| state.running_count() == 0).await;
    let status = client.status(&id).await.unwrap();
    assert_eq!((status.state(), status.exit_code), (ContainerState::ContainerExited, 9));
    assert_eq!(status.finished_at - status.started_at, 5_000_000_000);
}

#[tokio::test]
async fn process_can_exit_before_start_returns() {
    let (fake, mut client) = node();
    fake.set_behaviour(IMAGE, ContainerBehaviour::exits(0));
    let (_, id) = client.running("a").await;
    assert_eq!(client.status(&id).await.unwrap().state(), ContainerState::ContainerExited);
}

#[tokio::test]
async fn behaviour_hook_overrides_image() {
    let (fake, mut client) = node();
    fake.set_behaviour(IMAGE, ContainerBehaviour::exits(1));
    fake.set_behaviour_hook(|config| {
        (config.metadata.as_ref()?.name == "main").then(|| ContainerBehaviour::exits(2))
    });
    let sandbox = client.run("a", 0).await.unwrap();
    for (name, exit_code) in [("main", 2), ("other", 1)] {
        let id = client.create(&sandbox, name, 0).await.unwrap();
        client.start(&id).await.unwrap();
        assert_eq!(client.status(&id).await.unwrap().exit_code, exit_code);
    }
}

fn exec(id: &str, timeout: i64) -> ExecSyncRequest {
    ExecSyncRequest { container_id: id.into(), cmd: vec!["check".into()], timeout }
}

#[tokio::test(start_paused = true)]
async fn exec_hook_decides_command_results() {
    let (fake, mut client) = node_in_memory();
    let (_, id) = client.running("a").await;
    let answer = client.runtime.exec_sync(exec(&id, 1)).await.unwrap().into_inner();
    assert_eq!((answer.exit_code, answer.stdout.len()), (0, 0));
    fake.set_exec(|container, command| {
        ExecOutcome::exits(4).printing(&format!("{} {}", container.name(), command.join(" ")))
    });
    let answer = client.runtime.exec_sync(exec(&id, 1)).await.unwrap().into_inner();
    assert_eq!((answer.exit_code, answer.stdout.as_slice()), (4, b"main check".as_slice()));
    fake.set_exec(|_, _| ExecOutcome::exits(0).taking(Duration::from_secs(3)));
    assert_eq!(code(client.runtime.exec_sync(exec(&id, 2)).await), Code::DeadlineExceeded);
    client.runtime.exec_sync(exec(&id, 0)).await.unwrap();
}

#[tokio::test]
async fn exec_requires_running_container() {
    let (_fake, mut client) = node();
    assert_eq!(code(client.runtime.exec_sync(exec("nobody", 0)).await), Code::NotFound);
    let sandbox = client.run("a", 0).await.unwrap();
    let id = client.create(&sandbox, "main", 0).await.unwrap();
    assert_eq!(code(client.runtime.exec_sync(exec(&id, 0)).await), Code::Unknown);
}
