use model::{ContainerProblems, EventSubject, EventType, PodSource, StepRecord, StepSpan};
use serde_json::{Value, json};

use super::*;

const NOW: i64 = 1_000;

/// A pod with one container `main`, as it is reported.
#[derive(Clone)]
struct Case {
    spec: Value,
    status: Value,
    worker: Option<WorkerView>,
    events: Vec<(&'static str, &'static str, &'static str, i64)>,
    observed: Option<ObservedPod>,
    timeline: Option<PodTimeline>,
    node: NodeProblems<'static>,
    next_pass: Option<i64>,
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
        next_pass: None,
    }
}

fn worker() -> WorkerView {
    WorkerView {
        uid: "u".into(),
        full_name: model::PodFullName { namespace: "default".into(), name: "web".into() },
        phase: WorkerPhase::Syncing,
        started: true,
        passed: true,
        restart_requested: false,
        orphan: false,
        is_static: false,
        problems: ContainerProblems::new(),
        last_error: None,
        rejection: None,
    }
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
    // Tests write seconds, the API has times.
    times(&mut object);
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
    explain(&Situation {
        pod: &pod,
        status: &status,
        observed: case.observed.as_ref(),
        worker: case.worker.as_ref(),
        timeline: case.timeline.as_ref(),
        events: &events,
        next_pass: case.next_pass.map(Timestamp::from_secs),
        node: case.node,
        now: Timestamp::from_secs(NOW),
    })
}

fn times(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                match field.as_i64() {
                    Some(seconds) if name.ends_with("At") => {
                        *field = json!(Timestamp::from_secs(seconds).to_rfc3339());
                    }
                    Some(_) | None => times(field),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(times),
        _ => {}
    }
}

fn check(case: &Case, verdict: Verdict, sentence: &str, causes: &[&str]) -> Explanation {
    let found = run(case);
    assert_eq!(found.sentence, format!("Pod default/web {sentence}"));
    assert_eq!(found.verdict, verdict, "{found:?}");
    for cause in causes {
        assert!(found.causes.iter().any(|found| found.contains(cause)), "no {cause:?} in {found:#?}");
    }
    found
}

#[test]
fn an_image_that_cannot_be_pulled() {
    let message = "Back-off pulling image \"app:1\": ErrImagePull: rpc error: app:1: not found";
    let mut it = case(waits("ImagePullBackOff", message));
    it.next_pass = Some(NOW + 12);
    let found = check(
        &it,
        Verdict::Blocked,
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
        Verdict::Blocked,
        "is not ready: the image \"app:1\" of container main is not on this node, and may not be pulled.",
        &["imagePullPolicy is Never"],
    );
}

#[test]
fn a_crash_loop_with_its_exit_code_and_its_next_start() {
    let status = main_is(
        json!({"waiting": {"reason": "CrashLoopBackOff",
            "message": "back-off 40s restarting failed container=main pod=web_default(u)"}}),
        json!({"restartCount": 3, "lastState": {"terminated": {"exitCode": 3, "reason": "Error",
            "message": "no database", "finishedAt": NOW - 15}}}),
    );
    let found = check(
        &case(status),
        Verdict::Blocked,
        "keeps restarting: container main ended with exit code 3, saying: no database; it has been restarted 3 times.",
        &["15 s ago", "podward logs web -c main"],
    );
    assert_eq!(found.next_try, Some(Timestamp::from_secs(NOW + 25)));
}

#[test]
fn out_of_memory_and_signals_are_named() {
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
fn a_container_that_ends_well_and_is_restarted() {
    let status = main_is(
        json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting"}}),
        json!({"restartCount": 2, "lastState": {"terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": NOW}}}),
    );
    let found = run(&case(status));
    assert!(found.causes.iter().any(|cause| cause.contains("restartPolicy")), "{found:?}");
}

#[test]
fn a_probe_that_fails_with_its_last_output() {
    let running = json!({"running": {"startedAt": NOW - 60}});
    let mut it = case(main_is(running.clone(), json!({"started": true})));
    it.spec["containers"][0]["readinessProbe"] = json!({"httpGet": {"port": 80}});
    check(
        &it,
        Verdict::Starting,
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
        Verdict::Blocked,
        "is not ready: the readiness probe of container main fails.",
        &["statuscode: 503 (4 s ago)"],
    );
    it.status = main_is(running, json!({"started": false}));
    it.events = vec![("spec.containers{main}", "Unhealthy", "Startup probe failed: no", NOW)];
    it.spec["containers"][0]["startupProbe"] = json!({"httpGet": {"port": 80}});
    check(
        &it,
        Verdict::Blocked,
        "is not ready: the startup probe of container main fails.",
        &["Startup probe failed: no"],
    );
}

#[test]
fn an_init_container_that_does_not_end() {
    let mut it = case(json!({"phase": "Pending",
        "initContainerStatuses": [{"name": "db", "image": "x", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"running": {"startedAt": NOW - 200}}}],
        "containerStatuses": [{"name": "main", "image": "x", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"waiting": {"reason": "PodInitializing"}}}]}));
    it.spec =
        json!({"initContainers": [{"name": "db"}, {"name": "later"}], "containers": [{"name": "main"}]});
    check(
        &it,
        Verdict::Starting,
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
fn objects_and_volumes_that_are_missing() {
    let mut it = case(waits("CreateContainerConfigError", "configmap \"settings\" not found"));
    it.next_pass = Some(NOW + 60);
    check(
        &it,
        Verdict::Blocked,
        "is not ready: ConfigMap \"settings\", which container main needs, does not exist.",
        &["as soon as ConfigMap \"settings\" is there"],
    );
    let mut it = case(waits("ContainerCreating", ""));
    let error = "MountVolume.SetUp failed for volume \"keys\" : secret \"keys\" not found";
    it.worker.as_mut().unwrap().last_error = Some(error.to_owned());
    check(&it, Verdict::Blocked, "cannot start: Secret \"keys\" does not exist.", &[error]);
    it.worker.as_mut().unwrap().last_error = Some("MountVolume.SetUp failed: no such device".to_owned());
    it.events = vec![("", "FailedMount", "MountVolume.SetUp failed: no such device", NOW)];
    check(&it, Verdict::Blocked, "cannot start: a volume cannot be set up.", &["no such device"]);
    it.worker.as_mut().unwrap().last_error = Some("create the pod's sandbox: no network".to_owned());
    it.events.clear();
    check(&it, Verdict::Blocked, "cannot start: its sandbox cannot be made.", &["no network"]);
}

#[test]
fn a_pod_that_was_refused() {
    let mut it = case(json!({"phase": "Failed", "reason": "OutOfcpu"}));
    let rejection =
        Rejection { reason: "OutOfcpu".into(), message: "Node didn't have enough resource: cpu".into() };
    it.worker.as_mut().unwrap().rejection = Some(rejection.at_admission());
    check(
        &it,
        Verdict::Failed,
        "was refused by this node: OutOfcpu.",
        &["Node didn't have enough resource: cpu", "lower the request"],
    );
    it.worker = None;
    it.status = json!({"phase": "Failed", "reason": "NodeAffinity", "message": "Pod was rejected: Predicate NodeAffinity failed"});
    check(&it, Verdict::Failed, "was refused by this node: NodeAffinity.", &["spec.nodeSelector"]);
    it.status = json!({"phase": "Failed", "reason": "DeadlineExceeded", "message": "too long"});
    check(&it, Verdict::Failed, "was ended by the agent: DeadlineExceeded.", &["activeDeadlineSeconds"]);
}

#[test]
fn pods_that_are_over() {
    let status = |phase: &str, code: i32| {
        let mut status = main_is(json!({"terminated": {"exitCode": code, "finishedAt": NOW - 5}}), json!({}));
        status["phase"] = json!(phase);
        status
    };
    check(
        &case(status("Succeeded", 0)),
        Verdict::Fine,
        "has run to its end: every container ended with exit code 0.",
        &["container main ended with exit code 0, 5 s ago"],
    );
    check(
        &case(status("Failed", 2)),
        Verdict::Failed,
        "has failed and is not started again.",
        &["container main ended with exit code 2"],
    );
}

#[test]
fn a_node_that_is_not_ready() {
    let mut it = case(waits("ContainerCreating", ""));
    it.node = NodeProblems { runtime: Some("connection refused"), ..NodeProblems::default() };
    check(
        &it,
        Verdict::Blocked,
        "waits for the container runtime, which is not ready.",
        &["connection refused", "is its service running?"],
    );
    it.node = NodeProblems { network: Some("cni plugin not initialized"), ..NodeProblems::default() };
    check(&it, Verdict::Blocked, "waits for the network of the container runtime.", &["/etc/cni/net.d"]);
    it.spec["hostNetwork"] = json!(true);
    assert_eq!(run(&it).verdict, Verdict::Starting, "a pod of the host's network needs none");
    it.node = NodeProblems { agent: Some("sync loop took longer"), ..NodeProblems::default() };
    check(&it, Verdict::Blocked, "waits for the agent, which is not well.", &["sync loop"]);
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
        Verdict::Blocked,
        "cannot be looked at: the container runtime does not answer for it.",
        &["no answer"],
    );
}

#[test]
fn a_step_that_is_under_way() {
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
        Verdict::Starting,
        "is starting: the image of container main is being pulled, for 30 s now.",
        &[],
    );
    it.timeline = Some(timeline(vec![row(StartStep::Volumes, None)]));
    check(&it, Verdict::Starting, "is starting: its volumes are being set up, for 30 s now.", &[]);
    it.timeline = Some(timeline(vec![row(StartStep::Sandbox, None)]));
    check(&it, Verdict::Starting, "is starting: its sandbox and network are being made, for 30 s now.", &[]);
}

#[test]
fn a_pod_that_is_being_stopped() {
    let mut it = case(json!({"phase": "Running"}));
    it.worker.as_mut().unwrap().phase = WorkerPhase::Terminating;
    it.worker.as_mut().unwrap().restart_requested = true;
    check(&it, Verdict::Stopping, "is being stopped.", &["wanted again"]);
}

#[test]
fn a_pod_that_is_ready() {
    let mut status =
        main_is(json!({"running": {"startedAt": NOW - 9}}), json!({"ready": true, "started": true}));
    status["phase"] = json!("Running");
    status["conditions"] = json!([{"type": "Ready", "status": "True"}]);
    let mut it = case(status);
    check(&it, Verdict::Fine, "is running and ready.", &[]);
    it.status["containerStatuses"][0]["restartCount"] = json!(2);
    it.status["containerStatuses"][0]["lastState"] =
        json!({"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": NOW - 10}});
    check(
        &it,
        Verdict::Fine,
        "is running and ready, but containers of it have restarted.",
        &[
            "container main restarted twice; container main was killed because memory ran out (OOMKilled), 10 s ago",
        ],
    );
}

#[test]
fn a_readiness_gate_that_nobody_set() {
    let mut it =
        case(main_is(json!({"running": {"startedAt": NOW}}), json!({"ready": true, "started": true})));
    it.spec["readinessGates"] = json!([{"conditionType": "lb.example/attached"}]);
    check(
        &it,
        Verdict::Blocked,
        "runs but is not ready: its readiness gate lb.example/attached is not set.",
        &[],
    );
}

#[test]
fn a_pod_that_nobody_has_begun_with() {
    let mut it = case(json!({}));
    it.worker = None;
    check(&it, Verdict::Starting, "is known, but nothing was done for it yet.", &[]);
}
