//! `podward run`: pods in the foreground, with their exit code, and nothing left afterwards.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use scenarios::{Agent, podward_only};
use testkit::images;
use testkit::instance::{Instance, kill};
use testkit::poll::eventually;
use testkit::process::{cgroup_mounts, mount_points};
use tokio::sync::{Mutex, MutexGuard};

podward_only!(
    job_runs_with_its_objects_and_returns_its_exit_code,
    interrupt_ends_pods_within_their_grace_period,
    second_interrupt_kills_pods,
    killed_run_is_removed_by_the_next_one,
    manifest_problems_name_file_line_and_field,
    run_once_in_a_configuration_runs_pods_to_their_end,
);

const TIMEOUT: Duration = Duration::from_secs(60);

const JOB: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {greeting: hello}
---
apiVersion: v1
kind: Pod
metadata: {name: job}
spec:
  restartPolicy: Never
  initContainers: [{name: setup, image: "podward.test/demo:1", args: [print, from init]}]
  containers:
    - name: main
      image: podward.test/demo:1
      args: [cat, /settings/greeting, --, exit, "7"]
      volumeMounts: [{name: s, mountPath: /settings}]
  volumes: [{name: s, configMap: {name: settings}}]
"#;

/// A run removes the remains of others, so one test runs at a time.
static TURN: Mutex<()> = Mutex::const_new(());

/// A folder with the demo image in a store.
struct Fixture {
    instance: Instance,
    _turn: MutexGuard<'static, ()>,
}

impl Fixture {
    async fn new() -> Result<Self> {
        let own = Self { _turn: TURN.lock().await, instance: Instance::create()? };
        let archive = images::write_demo_image(&images::workspace().join("target/demo-image"))?;
        let imported =
            podward()?.args(["image", "import", "--store"]).args([own.store(), archive]).output()?;
        ensure!(imported.status.success(), "{imported:?}");
        Ok(own)
    }

    fn store(&self) -> std::path::PathBuf {
        self.instance.path("images")
    }

    fn write(&self, name: &str, manifest: &str) -> Result<String> {
        let path = self.instance.path(name);
        std::fs::write(&path, manifest).context("write a manifest")?;
        Ok(path.display().to_string())
    }

    fn command(&self, arguments: &[&str]) -> Result<Command> {
        let mut command = podward()?;
        command.args(["run", "--image-store"]).arg(self.store()).args(arguments).stdin(Stdio::null());
        Ok(command)
    }

    fn run(&self, arguments: &[&str]) -> Result<Output> {
        self.command(arguments)?.output().context("start podward run")
    }

    /// Starts a run and waits until it prints this text.
    async fn start_until(&self, arguments: &[&str], text: &str) -> Result<Child> {
        let output = self.instance.path("output");
        let file = std::fs::File::create(&output).context("create the output file")?;
        let child = self.command(arguments)?.stdout(file).spawn().context("start podward run")?;
        eventually(&format!("{text} in the output"), TIMEOUT, async || {
            let shown = std::fs::read_to_string(&output)?;
            ensure!(shown.contains(text), "{shown}");
            Ok(())
        })
        .await?;
        Ok(child)
    }
}

fn podward() -> Result<Command> {
    Ok(Command::new(Agent::Podward.program()?))
}

/// The remains of runs: folders, mounts, cgroups and bridges of these ids.
fn remains(ids: &[String]) -> Vec<String> {
    let mut found: Vec<String> = mount_points();
    for mount in cgroup_mounts() {
        found.extend(names(&mount));
    }
    found.extend(names(Path::new("/sys/class/net")));
    found.extend(names(Path::new("/var/lib/podward/run")));
    found.retain(|name| ids.iter().any(|id| name.contains(id.as_str())));
    found
}

/// Ids of the temporary runs of this machine.
fn runs() -> Vec<String> {
    names(Path::new("/var/lib/podward/run"))
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn sleeper() -> &'static str {
    "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  terminationGracePeriodSeconds: 30\n  containers:\n    - \
     {name: main, image: 'podward.test/demo:1', args: [serve]}\n"
}

async fn job_runs_with_its_objects_and_returns_its_exit_code(_: Agent) -> Result<()> {
    let own = Fixture::new().await?;
    let root = own.instance.path("kept");
    let root = root.to_str().context("a path of text")?;
    let output = own.run(&["--logs", "--root-dir", root, &own.write("job.yaml", JOB)?])?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.code() == Some(7), "{output:?}");
    for line in ["job/setup | from init", "job/setup (init): completed", "job/main | hello", "job: Failed"] {
        ensure!(text.lines().any(|own| own == line), "{line:?} is missing in\n{text}");
    }
    ensure!(Path::new(root).join("podward.log").exists(), "no log in the folder that is kept");
    let mounts: Vec<String> = mount_points().into_iter().filter(|point| point.starts_with(root)).collect();
    ensure!(mounts.is_empty(), "{mounts:?}");
    let again = own.run(&["--quiet", "--root-dir", root, &own.write("job.yaml", JOB)?])?;
    let text = String::from_utf8_lossy(&again.stdout).into_owned();
    ensure!(
        again.status.code() == Some(7) && text == "job/setup | from init\njob/main | hello\n",
        "{again:?}"
    );
    ensure!(names(&own.store().join("roots")).is_empty(), "root file systems are left");
    Ok(())
}

async fn interrupt_ends_pods_within_their_grace_period(_: Agent) -> Result<()> {
    let own = Fixture::new().await?;
    let before = runs();
    let mut run = own.start_until(&[&own.write("web.yaml", sleeper())?], "web/main: running, ready").await?;
    let ids: Vec<String> = runs().into_iter().filter(|id| !before.contains(id)).collect();
    ensure!(!ids.is_empty() && !remains(&ids).is_empty(), "{ids:?}");
    kill(run.id(), Signal::INT)?;
    let status = run.wait()?;
    ensure!(status.code() == Some(130), "{status}");
    let left = remains(&ids);
    ensure!(left.is_empty(), "{left:?}");
    Ok(())
}

async fn second_interrupt_kills_pods(_: Agent) -> Result<()> {
    let own = Fixture::new().await?;
    // It ignores the stop signal.
    let stubborn = sleeper()
        .replace("args: [serve]", "args: [sleep, forever, --ignore-term]")
        .replace("Seconds: 30", "Seconds: 3600");
    let file = own.write("web.yaml", &stubborn)?;
    let mut run = own.start_until(&[&file], "web/main: running, ready").await?;
    kill(run.id(), Signal::INT)?;
    eventually("the pod is stopping", TIMEOUT, async || {
        ensure!(
            std::fs::read_to_string(own.instance.path("output"))?.contains("stopping the pods"),
            "not yet"
        );
        Ok(())
    })
    .await?;
    kill(run.id(), Signal::INT)?;
    let status = run.wait()?;
    ensure!(status.code() == Some(130), "{status}");
    ensure!(names(&own.store().join("roots")).is_empty(), "root file systems are left");
    Ok(())
}

async fn killed_run_is_removed_by_the_next_one(_: Agent) -> Result<()> {
    let own = Fixture::new().await?;
    let before = runs();
    let mut run = own.start_until(&[&own.write("web.yaml", sleeper())?], "web/main: running, ready").await?;
    let ids: Vec<String> = runs().into_iter().filter(|id| !before.contains(id)).collect();
    kill(run.id(), Signal::KILL)?;
    run.wait()?;
    ensure!(!remains(&ids).is_empty(), "the kill left nothing: {ids:?}");
    let output = own.run(&[&own.write("job.yaml", JOB)?])?;
    ensure!(output.status.code() == Some(7), "{output:?}");
    let left = remains(&ids);
    ensure!(left.is_empty(), "{left:?}");
    ensure!(names(&own.store().join("roots")).is_empty(), "root file systems are left");
    Ok(())
}

async fn manifest_problems_name_file_line_and_field(_: Agent) -> Result<()> {
    let own = Fixture::new().await?;
    let bad = own.write("bad.yaml", &JOB.replace("      image: podward.test/demo:1\n", ""))?;
    let output = own.run(&[&bad])?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.code() == Some(1), "{output:?}");
    ensure!(text.contains(&format!("{bad}: line 14: spec.containers[0].image: Required value")), "{text}");
    Ok(())
}

async fn run_once_in_a_configuration_runs_pods_to_their_end(_: Agent) -> Result<()> {
    let own = Fixture::new().await?;
    let options = scenarios::AgentOptions {
        overlay: serde_json::json!({"runOnce": true}),
        runtime: testkit::node_runtime::RuntimeKind::Inside,
        ..scenarios::AgentOptions::default()
    };
    let mut agent = testkit::agent_process::AgentProcess::prepare(Agent::Podward, &own.instance, &options)?;
    std::fs::write(agent.manifests().join("job.yaml"), JOB)?;
    let store = agent.root().join("podward/runtime/images");
    let archive = images::workspace().join("target/demo-image/demo.tar");
    let imported = podward()?.args(["image", "import", "--store"]).args([store, archive]).output()?;
    ensure!(imported.status.success(), "{imported:?}");
    agent.start()?;
    let status = agent.wait().await?;
    ensure!(status.code() == Some(7), "{status}\n{}", agent.log_tail(20));
    ensure!(agent.log_tail(100).contains("job/main: ended with exit code 7"), "{}", agent.log_tail(100));
    Ok(())
}
