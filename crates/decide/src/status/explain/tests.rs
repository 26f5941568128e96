use model::{EventSubject, EventType, PodSource, StepRecord, StepSpan};
use serde_json::{Value, json};

use super::*;
use crate::test_objects::worker_view;

const NOW: i64 = 1_000;

/// Inputs for one explanation; by default a pod with one container `main`.
#[derive(Clone)]
struct Case {
    spec: Value,
    status: Value,
    worker: Option<WorkerView>,
    events: Vec<(&'static str, &'static str, &'static str, i64)>,
    observed: Option<ObservedPod>,
    timeline: Option<PodTimeline>,
    node: NodeProblems<'static>,
    next_sync: Option<i64>,
}

fn case(status: Value) -> Case {
    Case {
        spec: json!({"containers": [{"name": "main", "image": "app:1"}]}),
        status,
        worker: Some(worker()),
        events: Vec::new(),
        observed: None,
        timeline: None,
        node: NodeProblems::default(),
        next_sync: None,
    }
}

fn worker() -> WorkerView {
    let full_name = model::PodFullName { namespace: "default".into(), name: "web".into() };
    WorkerView { full_name, ..worker_view("u", WorkerPhase::Syncing) }
}

fn pod(spec: &Value) -> Pod {
    let object = json!({"metadata": {"name": "web", "namespace": "default", "uid": "u"}, "spec": spec});
    Pod::from_object(serde_json::from_value(object).unwrap(), PodSource::File).unwrap()
}

/// The reported status of the container `main`.
#[expect(clippy::needless_pass_by_value, reason = "tests write the fields in place")]
fn main_is(state: Value, more: Value) -> Value {
    let mut container = json!({"name": "main", "image": "app:1", "imageID": "", "ready": false, "restartCount": 0,
        "state": state});
    container.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"phase": "Pending", "containerStatuses": [container]})
}

fn waits(reason: &str, message: &str) -> Value {
    main_is(json!({"waiting": {"reason": reason, "message": message}}), json!({}))
}

fn run(case: &Case) -> Explanation {
    let pod = pod(&case.spec);
    let mut object = case.status.clone();
    // Tests write seconds; the API has RFC 3339 times.
    seconds_to_rfc3339(&mut object);
    let status: PodStatus = serde_json::from_value(object).unwrap();
    let events: Vec<RecordedEvent> = case
        .events
        .iter()
        .map(|(part, reason, message, at)| RecordedEvent {
            annotations: Default::default(),
            subject: EventSubject::pod(&pod, (*part).to_owned()),
            kind: EventType::Warning,
            reason: (*reason).to_owned(),
            message: (*message).to_owned(),
            at: Timestamp::from_secs(*at),
        })
        .collect();
    explain(&ExplanationInputs {
        pod: &pod,
        status: &status,
        observed: case.observed.as_ref(),
        worker: case.worker.as_ref(),
        timeline: case.timeline.as_ref(),
        events: &events,
        next_sync: case.next_sync.map(Timestamp::from_secs),
        node: case.node,
        now: Timestamp::from_secs(NOW),
    })
}

fn seconds_to_rfc3339(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                match field.as_i64() {
                    Some(seconds) if name.ends_with("At") => {
                        *field = json!(Timestamp::from_secs(seconds).to_rfc3339());
                    }
                    Some(_) | None => seconds_to_rfc3339(field),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(seconds_to_rfc3339),
        _ => {}
    }
}

fn check(case: &Case, health: PodHealth, sentence: &str, causes: &[&str]) -> Explanation {
    let found = run(case);
    assert_eq!(found.sentence, format!("Pod default/web {sentence}"));
    assert_eq!(found.health, health, "{found:?}");
    for cause in causes {
        assert!(found.causes.iter().any(|found| found.contains(cause)), "no {cause:?} in {found:#?}");
    }
    found
}

#[test]
fn names_the_problems_of_all_containers() {
    let waits = |name: &str, reason: &str, message: &str| {
        json!({"name": name, "image": "app:1", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"waiting": {"reason": reason, "message": message}}})
    };
    let mut it = case(json!({"phase": "Pending", "containerStatuses": [
        waits("main", "ErrImageNeverPull", "absent"),
        waits("side", "CreateContainerError", "no such device"),
    ]}));
    it.spec["containers"] = json!([{"name": "main", "image": "app:1"}, {"name": "side", "image": "app:1"}]);
    let sentence =
        "is not ready: the image \"app:1\" of container main is not on this node, and may not be pulled.";
    let others =
        ["also, the pod is not ready: the container runtime cannot start container side", "no such device"];
    check(&it, PodHealth::Blocked, sentence, &others);
}

#[test]
fn explains_image_pull_failure() {
    let message = "Back-off pulling image \"app:1\": ErrImagePull: rpc error: app:1: not found";
    let mut it = case(waits("ImagePullBackOff", message));
    it.next_sync = Some(NOW + 12);
    let found = check(
        &it,
        PodHealth::Blocked,
        "is not ready: the image \"app:1\" of container main cannot be pulled.",
        &["rpc error: app:1: not found", "check the name and the tag"],
    );
    assert_eq!(found.next_try, Some(Timestamp::from_secs(NOW + 12)));
    let denied = case(waits("ErrImagePull", "pull access denied, authorization failed"));
    assert!(run(&denied).causes.iter().any(|cause| cause.contains("imagePullSecrets")));
    let away = case(waits("ErrImagePull", "dial tcp: lookup registry.invalid: no such host"));
    assert!(run(&away).causes.iter().any(|cause| cause.contains("cannot be reached")));
    let never = case(waits("ErrImageNeverPull", "x"));
    check(
        &never,
        PodHealth::Blocked,
        "is not ready: the image \"app:1\" of container main is not on this node, and may not be pulled.",
        &["imagePullPolicy is Never"],
    );
}

#[test]
fn explains_crash_loop_with_exit_code_and_next_restart() {
    let status = main_is(
        json!({"waiting": {"reason": "CrashLoopBackOff",
            "message": "back-off 40s restarting failed container=main pod=web_default(u)"}}),
        json!({"restartCount": 3, "lastState": {"terminated": {"exitCode": 3, "reason": "Error",
            "message": "no database", "finishedAt": NOW - 15}}}),
    );
    let found = check(
        &case(status),
        PodHealth::Blocked,
        "keeps restarting: container main ended with exit code 3, saying: no database; it has been restarted 3 times.",
        &["15 s ago", "podward logs web -c main"],
    );
    assert_eq!(found.next_try, Some(Timestamp::from_secs(NOW + 25)));
}

#[test]
fn names_oom_kill_and_signals() {
    let ended = |code: i32, reason: &str| {
        let mut it = case(main_is(
            json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting"}}),
            json!({"restartCount": 1, "lastState": {"terminated": {"exitCode": code, "reason": reason, "finishedAt": NOW}}}),
        ));
        it.spec["containers"][0]["resources"] = json!({"limits": {"memory": "64Mi"}});
        run(&it).sentence
    };
    assert!(
        ended(137, "OOMKilled")
            .contains("used more memory than its limit of 64Mi (OOMKilled); it has been restarted once")
    );
    assert!(ended(139, "Error").contains("was killed by SIGSEGV (exit code 139)"));
    assert!(ended(137, "Error").contains("was killed by SIGKILL (exit code 137)"));
    assert!(ended(1, "Error").contains("ended with exit code 1"));
}

#[test]
fn explains_restart_after_exit_code_zero() {
    let status = main_is(
        json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting"}}),
        json!({"restartCount": 2, "lastState": {"terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": NOW}}}),
    );
    let found = run(&case(status));
    assert!(found.causes.iter().any(|cause| cause.contains("restartPolicy")), "{found:?}");
}

#[test]
fn explains_probe_failure_with_last_output() {
    let running = json!({"running": {"startedAt": NOW - 60}});
    let mut it = case(main_is(running.clone(), json!({"started": true})));
    it.spec["containers"][0]["readinessProbe"] = json!({"httpGet": {"port": 80}});
    check(
        &it,
        PodHealth::Starting,
        "is not ready yet: the readiness probe of container main, which has run for 60 s, has not succeeded.",
        &[],
    );
    it.events = vec![
        ("spec.containers{main}", "Unhealthy", "Readiness probe failed: first", NOW - 20),
        (
            "spec.containers{main}",
            "Unhealthy",
            "Readiness probe failed: HTTP probe failed with statuscode: 503",
            NOW - 4,
        ),
        ("spec.containers{other}", "Unhealthy", "Readiness probe failed: not ours", NOW - 1),
    ];
    check(
        &it,
        PodHealth::Blocked,
        "is not ready: the readiness probe of container main fails.",
        &["statuscode: 503 (4 s ago)"],
    );
    it.status = main_is(running, json!({"started": false}));
    it.events = vec![("spec.containers{main}", "Unhealthy", "Startup probe failed: no", NOW)];
    it.spec["containers"][0]["startupProbe"] = json!({"httpGet": {"port": 80}});
    check(
        &it,
        PodHealth::Blocked,
        "is not ready: the startup probe of container main fails.",
        &["Startup probe failed: no"],
    );
}

#[test]
fn explains_long_running_init_container() {
    let mut it = case(json!({"phase": "Pending",
        "initContainerStatuses": [{"name": "db", "image": "x", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"running": {"startedAt": NOW - 200}}}],
        "containerStatuses": [{"name": "main", "image": "x", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"waiting": {"reason": "PodInitializing"}}}]}));
    it.spec =
        json!({"initContainers": [{"name": "db"}, {"name": "later"}], "containers": [{"name": "main"}]});
    check(
        &it,
        PodHealth::Starting,
        "is still initializing: init container db (1 of 2) has been running for 3 min.",
        &["podward logs web -c db"],
    );
    it.status["initContainerStatuses"][0]["state"] =
        json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting"}});
    it.status["initContainerStatuses"][0]["lastState"] =
        json!({"terminated": {"exitCode": 1, "finishedAt": NOW}});
    assert!(run(&it).sentence.contains("keeps restarting: init container db ended with exit code 1"));
}

#[test]
fn explains_missing_objects_and_volumes() {
    let mut it = case(waits("CreateContainerConfigError", "configmap \"settings\" not found"));
    it.next_sync = Some(NOW + 60);
    check(
        &it,
        PodHealth::Blocked,
        "is not ready: ConfigMap \"settings\", which container main needs, does not exist.",
        &["as soon as ConfigMap \"settings\" is there"],
    );
    let mut it = case(waits("ContainerCreating", ""));
    let error = "MountVolume.SetUp failed for volume \"keys\" : secret \"keys\" not found";
    it.worker.as_mut().unwrap().last_error = Some(error.to_owned());
    check(&it, PodHealth::Blocked, "cannot start: Secret \"keys\" does not exist.", &[error]);
    it.worker.as_mut().unwrap().last_error = Some("MountVolume.SetUp failed: no such device".to_owned());
    it.events = vec![("", "FailedMount", "MountVolume.SetUp failed: no such device", NOW)];
    check(&it, PodHealth::Blocked, "cannot start: a volume cannot be set up.", &["no such device"]);
    it.worker.as_mut().unwrap().last_error = Some("create the pod's sandbox: no network".to_owned());
    it.events.clear();
    check(&it, PodHealth::Blocked, "cannot start: its sandbox cannot be created.", &["no network"]);
}

#[test]
fn explains_rejected_pod() {
    let mut it = case(json!({"phase": "Failed", "reason": "OutOfcpu"}));
    let rejection = Rejection::at_admission("OutOfcpu", "Node didn't have enough resource: cpu");
    it.worker.as_mut().unwrap().rejection = Some(rejection);
    check(
        &it,
        PodHealth::Failed,
        "was rejected by this node: OutOfcpu.",
        &["Node didn't have enough resource: cpu", "lower the request"],
    );
    it.worker = None;
    it.status = json!({"phase": "Failed", "reason": "NodeAffinity", "message": "Pod was rejected: Predicate NodeAffinity failed"});
    check(&it, PodHealth::Failed, "was rejected by this node: NodeAffinity.", &["spec.nodeSelector"]);
    it.status = json!({"phase": "Failed", "reason": "DeadlineExceeded", "message": "too long"});
    check(
        &it,
        PodHealth::Failed,
        "was terminated by the agent: DeadlineExceeded.",
        &["activeDeadlineSeconds"],
    );
}

#[test]
fn explains_succeeded_and_failed_pods() {
    let status = |phase: &str, code: i32| {
        let mut status = main_is(json!({"terminated": {"exitCode": code, "finishedAt": NOW - 5}}), json!({}));
        status["phase"] = json!(phase);
        status
    };
    check(
        &case(status("Succeeded", 0)),
        PodHealth::Fine,
        "has run to its end: every container ended with exit code 0.",
        &["container main ended with exit code 0, 5 s ago"],
    );
    check(
        &case(status("Failed", 2)),
        PodHealth::Failed,
        "has failed and is not started again.",
        &["container main ended with exit code 2"],
    );
}

#[test]
fn explains_node_problems() {
    let mut it = case(waits("ContainerCreating", ""));
    it.node = NodeProblems { runtime: Some("connection refused"), ..NodeProblems::default() };
    check(
        &it,
        PodHealth::Blocked,
        "waits for the container runtime, which is not ready.",
        &["connection refused", "is its service running?"],
    );
    it.node = NodeProblems { network: Some("cni plugin not initialized"), ..NodeProblems::default() };
    check(&it, PodHealth::Blocked, "waits for the network of the container runtime.", &["/etc/cni/net.d"]);
    it.spec["hostNetwork"] = json!(true);
    assert_eq!(run(&it).health, PodHealth::Starting, "a host network pod needs no pod network");
    it.node = NodeProblems { agent: Some("sync loop took longer"), ..NodeProblems::default() };
    check(&it, PodHealth::Blocked, "waits for the agent, which is not healthy.", &["sync loop"]);
    it.node = NodeProblems::default();
    it.observed = Some(ObservedPod {
        observation: Observation::Failed("no answer within 10 s".to_owned()),
        ..ObservedPod::absent(
            "u".into(),
            model::PodFullName { namespace: "default".into(), name: "web".into() },
            model::Moment::START,
        )
    });
    check(
        &it,
        PodHealth::Blocked,
        "cannot be observed: the container runtime does not answer for it.",
        &["no answer"],
    );
}

#[test]
fn explains_start_step_in_progress() {
    let mut it = case(waits("ContainerCreating", ""));
    let open = StepSpan { started_at: Timestamp::from_secs(NOW - 30), finished_at: None, succeeded: false };
    let row = |step, container: Option<&str>| StepRecord {
        step,
        container: container.map(Box::from),
        first: open,
        last: None,
        count: 1,
    };
    let timeline = |steps| PodTimeline {
        uid: "u".into(),
        full_name: model::PodFullName { namespace: "default".into(), name: "web".into() },
        seen_at: Timestamp::ZERO,
        accepted_at: Timestamp::ZERO,
        adopted: false,
        ready_at: None,
        steps,
    };
    it.timeline = Some(timeline(vec![row(StartStep::Image, Some("main"))]));
    it.events = vec![("spec.containers{main}", "Pulling", "Pulling image", NOW - 30)];
    check(
        &it,
        PodHealth::Starting,
        "is starting: the image of container main is being pulled, for 30 s now.",
        &[],
    );
    it.timeline = Some(timeline(vec![row(StartStep::Volumes, None)]));
    check(&it, PodHealth::Starting, "is starting: its volumes are being set up, for 30 s now.", &[]);
    it.timeline = Some(timeline(vec![row(StartStep::Sandbox, None)]));
    check(
        &it,
        PodHealth::Starting,
        "is starting: its sandbox and network are being created, for 30 s now.",
        &[],
    );
}

#[test]
fn explains_terminating_pod() {
    let mut it = case(json!({"phase": "Running"}));
    it.worker.as_mut().unwrap().phase = WorkerPhase::Terminating;
    it.worker.as_mut().unwrap().restart_requested = true;
    check(&it, PodHealth::Stopping, "is being stopped.", &["desired again"]);
}

#[test]
fn explains_ready_pod() {
    let mut status =
        main_is(json!({"running": {"startedAt": NOW - 9}}), json!({"ready": true, "started": true}));
    status["phase"] = json!("Running");
    status["conditions"] = json!([{"type": "Ready", "status": "True"}]);
    let mut it = case(status);
    check(&it, PodHealth::Fine, "is running and ready.", &[]);
    it.status["containerStatuses"][0]["restartCount"] = json!(2);
    it.status["containerStatuses"][0]["lastState"] =
        json!({"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": NOW - 10}});
    check(
        &it,
        PodHealth::Fine,
        "is running and ready, but containers of it have restarted.",
        &[
            "container main restarted twice; container main was killed because memory ran out (OOMKilled), 10 s ago",
        ],
    );
}

#[test]
fn explains_unset_readiness_gate() {
    let mut it =
        case(main_is(json!({"running": {"startedAt": NOW}}), json!({"ready": true, "started": true})));
    it.spec["readinessGates"] = json!([{"conditionType": "lb.example/attached"}]);
    check(
        &it,
        PodHealth::Blocked,
        "runs but is not ready: its readiness gate lb.example/attached is not set.",
        &[],
    );
}

#[test]
fn explains_pod_without_worker() {
    let mut it = case(json!({}));
    it.worker = None;
    check(&it, PodHealth::Starting, "has not been synced yet.", &[]);
}
