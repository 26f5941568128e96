//! kubectl exec, attach, cp and debug.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use scenarios::{Agent, ClusterNode, pod, scenarios};
use serde_json::json;
use testkit::images::BUSYBOX;

use crate::support::{StreamProtocol, pump, random_file, run, same, sh, start, start_waiting};

scenarios!(
    exec_runs_commands_and_returns_exit_codes,
    exec_works_with_spdy_only_client,
    terminal_follows_window_size,
    exec_transfers_100_mb_in_both_directions,
    attach_connects_to_the_main_process,
    cp_copies_files_in_both_directions,
    debug_adds_ephemeral_container,
);

async fn exec_runs_commands_and_returns_exit_codes(agent: Agent) -> Result<()> {
    let node = ClusterNode::start(agent).await?;
    start_waiting(&node, "web").await?;
    commands(&node, StreamProtocol::WebSocket).await?;
    let answer =
        run(&node, StreamProtocol::WebSocket, &["exec", "web", "-c", "nope", "--", "true"], "").await?;
    ensure!(!answer.status.success(), "{answer:?}");
    let answer =
        run(&node, StreamProtocol::WebSocket, &["exec", "web", "--", "/no/such/program"], "").await?;
    ensure!(!answer.status.success() && answer.stderr.contains("no such file"), "{answer:?}");
    // The node's path for a command without streams.
    let path =
        format!("/api/v1/nodes/{}/proxy/run/{}/web/main?cmd=echo%20hi%20there", node.name, node.namespace);
    let answer = run(&node, StreamProtocol::WebSocket, &["create", "--raw", &path, "-f", "-"], "").await?;
    ensure!(answer.stdout == "hi there\n", "{answer:?}");
    for (pod, command, reason) in [("web", "false", "InternalError"), ("none", "true", "NotFound")] {
        let path =
            format!("/api/v1/nodes/{}/proxy/run/{}/{pod}/main?cmd={command}", node.name, node.namespace);
        let answer =
            run(&node, StreamProtocol::WebSocket, &["create", "--raw", &path, "-f", "-"], "").await?;
        ensure!(!answer.status.success() && answer.stderr.contains(reason), "{command} in {pod}: {answer:?}");
    }
    node.end()
}

async fn exec_works_with_spdy_only_client(agent: Agent) -> Result<()> {
    let node = ClusterNode::start(agent).await?;
    start_waiting(&node, "web").await?;
    commands(&node, StreamProtocol::Spdy).await?;
    echo(&node, StreamProtocol::Spdy, 8 << 20).await?;
    node.end()
}

async fn commands(node: &ClusterNode, protocol: StreamProtocol) -> Result<()> {
    let script = "echo out; echo err >&2; exit 7";
    let answer = run(node, protocol, &["exec", "web", "--", "sh", "-c", script], "").await?;
    ensure!(answer.status.code() == Some(7), "{answer:?}");
    ensure!(answer.stdout == "out\n" && answer.stderr.starts_with("err\n"), "{answer:?}");
    let answer =
        run(node, protocol, &["exec", "-i", "web", "--", "sh", "-c", "wc -c; echo done"], "hello").await?;
    ensure!(answer.stdout == "5\ndone\n", "the end of the input did not arrive: {answer:?}");
    let answer = run(node, protocol, &["exec", "web", "--", "true"], "").await?;
    ensure!(answer.status.success() && answer.stdout.is_empty(), "{answer:?}");
    Ok(())
}

async fn terminal_follows_window_size(agent: Agent) -> Result<()> {
    let node = ClusterNode::start(agent).await?;
    start_waiting(&node, "web").await?;
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).context("open a terminal")?;
    grantpt(&terminal)?;
    unlockpt(&terminal)?;
    let name = ptsname(&terminal, Vec::new())?.into_string()?;
    resize(&terminal, 24, 80)?;
    let side = File::options().read(true).write(true).open(&name).context("open the terminal's side")?;
    let bare = node.plane.kubectl_command();
    let mut command = Command::new("setsid");
    // A separate session, so that it receives window size changes.
    command.args(["--ctty", "--wait"]).arg(bare.get_program()).args(bare.get_args());
    command.args(["--namespace", &node.namespace, "exec", "-it", "web", "--", "sh"]);
    let mut child = command
        .stdin(side.try_clone()?)
        .stdout(side.try_clone()?)
        .stderr(side)
        .spawn()
        .context("start kubectl")?;
    let talk = tokio::task::spawn_blocking(move || {
        let mut screen = Screen { file: File::from(terminal.try_clone()?), text: String::new() };
        screen.wait("# ").or_else(|_| screen.wait("$ "))?;
        screen.write("stty size; tty\n")?;
        screen.wait("24 80")?;
        screen.wait("/dev/pts/")?;
        resize(&terminal, 50, 132)?;
        let start = Instant::now();
        loop {
            screen.write("stty size\n")?;
            if screen.wait_for("50 132", Duration::from_secs(2)).is_ok() {
                break;
            }
            ensure!(
                start.elapsed() < Duration::from_secs(60),
                "the new size did not arrive: {}",
                screen.text
            );
        }
        screen.write("exit 3\n")?;
        anyhow::Ok(())
    });
    talk.await??;
    let end = tokio::task::spawn_blocking(move || child.wait());
    let status = tokio::time::timeout(Duration::from_secs(60), end).await.context("no end")???;
    ensure!(status.code() == Some(3), "{status}");
    node.end()
}

fn resize(terminal: &OwnedFd, rows: u16, columns: u16) -> Result<()> {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(terminal, size).context("resize the terminal")
}

/// The output of a terminal.
struct Screen {
    file: File,
    text: String,
}

impl Screen {
    fn write(&mut self, keys: &str) -> Result<()> {
        self.text.clear();
        self.file.write_all(keys.as_bytes()).context("type")
    }

    fn wait(&mut self, expected: &str) -> Result<()> {
        self.wait_for(expected, Duration::from_secs(60))
    }

    fn wait_for(&mut self, expected: &str, limit: Duration) -> Result<()> {
        let start = Instant::now();
        while !self.text.contains(expected) {
            if start.elapsed() > limit {
                bail!("{expected:?} does not appear in {:?}", self.text);
            }
            let mut wait = [rustix::event::PollFd::new(&self.file, rustix::event::PollFlags::IN)];
            let step = rustix::event::Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
            if rustix::event::poll(&mut wait, Some(&step))? == 0 {
                continue;
            }
            let mut bytes = [0; 1024];
            let count = self.file.read(&mut bytes).context("read the terminal")?;
            self.text += &String::from_utf8_lossy(&bytes[..count]);
        }
        Ok(())
    }
}

async fn exec_transfers_100_mb_in_both_directions(agent: Agent) -> Result<()> {
    let node = ClusterNode::start(agent).await?;
    start_waiting(&node, "web").await?;
    echo(&node, StreamProtocol::WebSocket, 100 << 20).await?;
    node.end()
}

/// Sends this many bytes through a command that echoes them.
async fn echo(node: &ClusterNode, protocol: StreamProtocol, bytes: u64) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (there, back) = (folder.path().join("there"), folder.path().join("back"));
    random_file(&there, bytes)?;
    pump(node, protocol, &["exec", "-i", "web", "--", "cat"], &there, &back).await?;
    same(&there, &back)
}

async fn attach_connects_to_the_main_process(agent: Agent) -> Result<()> {
    let node = ClusterNode::start(agent).await?;
    let mut main = sh("main", "while read line; do echo got $line; done");
    main["stdin"] = json!(true);
    node.apply(&pod("web", [main])).await?;
    node.wait_running("web").await?;
    for protocol in [StreamProtocol::WebSocket, StreamProtocol::Spdy] {
        let mut child = start(&node, protocol, &["attach", "-i", "web"])?;
        let mut input = child.stdin.take().context("its input")?;
        let mut output = child.stdout.take().context("its output")?;
        let talk = async {
            // The process may not have read anything when the client is connected.
            let mut text = String::new();
            let mut bytes = [0; 1024];
            while !text.contains("got hello") {
                tokio::io::AsyncWriteExt::write_all(&mut input, b"hello\n").await?;
                let read = tokio::io::AsyncReadExt::read(&mut output, &mut bytes);
                if let Ok(count) = tokio::time::timeout(Duration::from_secs(1), read).await {
                    text += &String::from_utf8_lossy(&bytes[..count?]);
                }
            }
            anyhow::Ok(())
        };
        tokio::time::timeout(Duration::from_secs(60), talk).await.context("no answer")??;
        child.kill().await?;
    }
    node.end()
}

async fn cp_copies_files_in_both_directions(agent: Agent) -> Result<()> {
    let node = ClusterNode::start(agent).await?;
    start_waiting(&node, "web").await?;
    let folder = tempfile::tempdir()?;
    let (there, back) = (folder.path().join("there"), folder.path().join("back"));
    random_file(&there, 3 << 20)?;
    let place = format!("{}/web:/there", node.namespace);
    run(&node, StreamProtocol::WebSocket, &["cp", &there.display().to_string(), &place], "")
        .await?
        .success()?;
    run(&node, StreamProtocol::WebSocket, &["cp", &place, &back.display().to_string()], "")
        .await?
        .success()?;
    same(&there, &back)?;
    node.end()
}

async fn debug_adds_ephemeral_container(agent: Agent) -> Result<()> {
    let node = ClusterNode::start(agent).await?;
    start_waiting(&node, "web").await?;
    let image = format!("--image={BUSYBOX}");
    let debug =
        ["debug", "web", "-i", "-c", "look", &image, "--image-pull-policy=IfNotPresent", "--target=main"];
    let script = ["--", "sh", "-c", "ps; echo seen; sleep 1"];
    let answer = run(&node, StreamProtocol::WebSocket, &[&debug[..], &script[..]].concat(), "").await?;
    ensure!(answer.status.success(), "{answer:?}");
    node.wait("the debug container has ended", async || {
        let pod = node.get(&["pod", "web"]).await?;
        let state = &pod["status"]["ephemeralContainerStatuses"][0]["state"];
        ensure!(state["terminated"]["exitCode"] == 0, "{state}");
        Ok(())
    })
    .await?;
    let text = run(&node, StreamProtocol::WebSocket, &["logs", "web", "-c", "look"], "").await?.success()?;
    ensure!(text.contains("while true") && text.ends_with("seen\n"), "it does not see the target: {text}");
    node.end()
}
