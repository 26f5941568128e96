//! Creation, start, output, exit and exec.

use std::fs;
use std::time::{Duration, Instant};

use runtime::keeper::protocol::{FailureKind, Request, Response, Stage};
use runtime::keeper::read_exit;
use runtime::launcher::PidNamespace;

use crate::pod::{Pod, process};

fn failure(response: Response) -> (FailureKind, String) {
    match response {
        Response::Failed { kind, message } => (kind, message),
        other => panic!("{other:?}"),
    }
}

#[test]
#[ignore = "needs root"]
fn container_writes_its_log_and_its_exit_code_reaches_the_disk() {
    let mut pod = Pod::new();
    let spec = pod.spec("echo out; echo err >&2; exit 3");
    assert_eq!(pod.output(&spec), (3, "out\nE err\n".to_owned()));
    let exit = read_exit(pod.folder.path(), &spec.id).unwrap().unwrap();
    assert_eq!((exit.code, exit.signal, exit.oom_killed), (3, None, false));
    assert!(exit.started_at > 0 && exit.finished_at >= exit.started_at);
}

#[test]
#[ignore = "needs root"]
fn created_container_runs_nothing_before_start() {
    let mut pod = Pod::new();
    let spec = pod.spec("touch /ran");
    assert_eq!(pod.create(&spec), Response::Done);
    let state = pod.ask(&Request::List);
    assert!(matches!(&state, Response::Containers(list) if list[0].stage == Stage::Created), "{state:?}");
    assert!(!spec.root.join("ran").exists());
    assert!(matches!(pod.start(&spec.id), Response::Started { .. }));
    assert_eq!(pod.exit(&spec.id).code, 0);
    assert!(spec.root.join("ran").exists());
}

#[test]
#[ignore = "needs root"]
fn set_up_error_is_reported_by_create() {
    let mut pod = Pod::new();
    let mut spec = pod.spec("true");
    spec.process.directory = "/bin/sh".into();
    let (kind, message) = failure(pod.create(&spec));
    assert_eq!(kind, FailureKind::Launch);
    assert!(message.contains("working directory"), "{message}");
    assert_eq!(pod.ask(&Request::List), Response::Containers(Vec::new()));
}

#[test]
#[ignore = "needs root"]
fn missing_program_is_reported_by_start_and_recorded() {
    let mut pod = Pod::new();
    for (program, expected) in [
        ("no-such-program", "executable file not found in $PATH"),
        ("/no/such", "no such file or directory"),
        ("/etc", "permission denied"),
    ] {
        let mut spec = pod.spec("");
        spec.process.arguments = vec![program.to_owned()];
        assert_eq!(pod.create(&spec), Response::Done);
        let (kind, message) = failure(pod.start(&spec.id));
        assert_eq!(kind, FailureKind::Launch);
        assert!(message.contains(expected), "{message}");
        let exit = pod.exit(&spec.id);
        assert_eq!((exit.code, exit.started_at), (128, 0));
        assert!(exit.start_error.unwrap().contains(expected));
        assert_eq!(failure(pod.start(&spec.id)).0, FailureKind::WrongState);
    }
}

#[test]
#[ignore = "needs root"]
fn signal_ends_container_with_its_number() {
    let mut pod = Pod::new();
    // The first process of a PID namespace ignores signals without a handler.
    let spec = pod.spec("trap 'exit 7' TERM; echo ready; while true; do sleep 0.1; done");
    pod.run(&spec);
    while fs::read_to_string(pod.log_path(&spec.id)).unwrap().is_empty() {
        std::thread::yield_now();
    }
    pod.ask(&Request::Signal { container: spec.id.clone(), signal: libc::SIGTERM });
    assert_eq!(pod.exit(&spec.id).code, 7);
    let spec = pod.spec("sleep 100");
    pod.run(&spec);
    pod.ask(&Request::Signal { container: spec.id.clone(), signal: libc::SIGKILL });
    let exit = pod.exit(&spec.id);
    assert_eq!((exit.code, exit.signal), (137, Some(9)));
}

#[test]
#[ignore = "needs root"]
fn long_line_is_split_and_log_survives_rotation() {
    let mut pod = Pod::new();
    let spec = pod.spec("head -c 20000 /dev/zero; echo; echo first; cat /pipe; echo second");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        spec.root.join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    pod.run(&spec);
    let log = pod.log_path(&spec.id);
    while !fs::read_to_string(&log).unwrap().ends_with("first\n") {
        std::thread::yield_now();
    }
    let rotated = log.with_extension("1");
    fs::rename(&log, &rotated).unwrap();
    assert_eq!(pod.ask(&Request::ReopenLog { container: spec.id.clone() }), Response::Done);
    fs::write(spec.root.join("pipe"), "x\n").unwrap();
    assert_eq!(pod.exit(&spec.id).code, 0);
    assert_eq!(pod.log(&spec.id), "x\nsecond\n");
    let old = fs::read_to_string(rotated).unwrap();
    let records: Vec<(&str, usize)> = old
        .lines()
        .map(|line| {
            let mut fields = line.splitn(4, ' ').skip(2);
            (fields.next().unwrap(), fields.next().unwrap().len())
        })
        .collect();
    assert_eq!(records, [("P", 16384), ("F", 3616), ("F", 5)]);
}

#[test]
#[ignore = "needs root"]
fn memory_limit_kill_is_recorded() {
    let mut pod = Pod::new();
    let spec = pod
        .spec("head -c 100000000 /dev/zero | dd of=/dev/null bs=90000000 count=1 iflag=fullblock; exit $?");
    let memory = spec.cgroups.iter().find(|folder| folder.join("memory.oom_control").exists()).unwrap();
    fs::write(memory.join("memory.limit_in_bytes"), "16777216").unwrap();
    let _ = fs::write(memory.join("memory.memsw.limit_in_bytes"), "16777216");
    pod.run(&spec);
    assert!(pod.exit(&spec.id).oom_killed);
}

#[test]
#[ignore = "needs root"]
fn exec_joins_namespaces_and_reports_exit_code() {
    let mut pod = Pod::new();
    let spec = pod.spec("sleep 100");
    pod.run(&spec);
    let (exit, output) = pod.exec(&spec.id, process("echo in; cat /proc/1/cmdline; exit 5")).unwrap();
    assert_eq!(exit.code, 5);
    assert_eq!(output, "in\nsleep\u{0}100\u{0}");
    let mut missing = process("");
    missing.arguments = vec!["nothing".to_owned()];
    let (kind, message) = failure(pod.exec(&spec.id, missing).unwrap_err());
    assert_eq!(kind, FailureKind::Launch);
    assert!(message.contains("executable file not found in $PATH"), "{message}");
}

#[test]
#[ignore = "needs root"]
fn killing_an_exec_kills_everything_it_started() {
    let mut pod = Pod::new();
    let spec = pod.spec("sleep 100");
    pod.run(&spec);
    let script = "sh -c 'sh -c \"sleep 77 & sleep 78\" & sleep 79' & sleep 80 & echo up; sleep 81";
    let (exec, mut output) = pod.start_exec(&spec.id, process(script)).unwrap();
    let mut up = [0; 3];
    std::io::Read::read_exact(&mut output, &mut up).unwrap();
    std::thread::park_timeout(Duration::from_millis(200));
    pod.ask(&Request::KillExec { container: spec.id.clone(), exec: exec.clone() });
    assert_eq!(pod.exec_exit(&exec).signal, Some(9));
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let (_, left) = pod.exec(&spec.id, process("ps | grep -c '[s]leep [78]'")).unwrap();
        if left == "0\n" {
            break;
        }
        assert!(Instant::now() < deadline, "{left}");
    }
}

#[test]
#[ignore = "needs root"]
fn background_process_of_exec_continues_after_it() {
    let mut pod = Pod::new();
    let spec = pod.spec("sleep 100");
    pod.run(&spec);
    let (exit, _) = pod.exec(&spec.id, process("sleep 66 >/dev/null 2>&1 & exit 0")).unwrap();
    assert_eq!(exit.code, 0);
    let (_, left) = pod.exec(&spec.id, process("ps | grep -c '[s]leep 66'")).unwrap();
    assert_eq!(left, "1\n");
}

#[test]
#[ignore = "needs root"]
fn container_in_the_hosts_pid_namespace_leaves_no_process() {
    let mut pod = Pod::new();
    let mut spec = pod.spec("sleep 4711 & sleep 4712 & exit 0");
    spec.namespaces.pid = PidNamespace::Host;
    pod.run(&spec);
    assert_eq!(pod.exit(&spec.id).code, 0);
    let deadline = Instant::now() + Duration::from_secs(5);
    while !fs::read_to_string(spec.cgroups[0].join("cgroup.procs")).unwrap().is_empty() {
        assert!(Instant::now() < deadline);
    }
}

#[test]
#[ignore = "needs root"]
fn container_continues_without_a_connection_and_the_exit_is_kept() {
    let mut pod = Pod::new();
    let spec = pod.spec("sleep 0.3; echo done; exit 4");
    pod.run(&spec);
    pod.reconnect();
    assert_eq!(pod.exit(&spec.id).code, 4);
    let state = pod.ask(&Request::List);
    assert!(
        matches!(&state, Response::Containers(list) if matches!(&list[0].stage, Stage::Exited(exit) if exit.code == 4)),
        "{state:?}"
    );
    assert_eq!(pod.ask(&Request::Remove { container: spec.id.clone() }), Response::Done);
    assert_eq!(failure(pod.start(&spec.id)).0, FailureKind::NotFound);
    assert_eq!(pod.ask(&Request::Shutdown), Response::Done);
}

#[test]
#[ignore = "needs root"]
fn keeper_needs_less_than_a_mebibyte_of_private_memory() {
    // The program's pages are shared by all keepers.
    let _other = Pod::new();
    let mut pod = Pod::new();
    let specs: Vec<_> = (0..3).map(|_| pod.spec("sleep 100")).collect();
    for spec in &specs {
        pod.run(spec);
    }
    let rollup = fs::read_to_string(format!("/proc/{}/smaps_rollup", pod.keeper_pid())).unwrap();
    let private: u64 = rollup
        .lines()
        .filter(|line| line.starts_with("Private_Dirty:") || line.starts_with("Private_Clean:"))
        .map(|line| line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap())
        .sum();
    println!("private memory of the keeper: {private} KiB");
    assert!(private < 1024, "{rollup}");
}
