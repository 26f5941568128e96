//! `critest`: runs the public conformance suite of CRI on `podward runtime`, and compares with Debian's containerd.
//!
//! Every run has its own machine: new namespaces of mounts, network and IPC, in which a registry serves the
//! images of the suite under their public names. The suite mostly waits, so parts of it run at the same time, each on
//! its own runtime. Streams use SPDY in the first run and WebSocket in the second one.
//!
//! The results of containerd are in `tests/critest/containerd.txt`. A spec that it passes must pass here, and no spec may
//! fail, except those that cannot pass with our images. Arguments: `--record` runs the suite on containerd and writes that file; `--short` runs only the specs of
//! streams in the second run; words select specs by a regular expression.

mod baseline;
mod machine;
mod report;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use tokio::task::JoinSet;

use baseline::Baseline;
use report::{Report, State};

/// Source files of specs that run one after another.
const PARTS: [&[&str]; 3] = [
    &["security_context_linux.go"],
    &["container.go", "container_linux.go", "idempotence.go", "runtime_info.go", "apparmor_linux.go"],
    &[
        "image.go",
        "image_consistency.go",
        "image_id_consistency.go",
        "multi_container_linux.go",
        "networking.go",
        "pod.go",
        "pod_linux.go",
        "selinux_linux.go",
        "streaming.go",
        "streaming_linux.go",
    ],
];
const STREAMS: [&[&str]; 1] = [&["streaming.go", "streaming_linux.go"]];

/// Specs that cannot pass on any runtime with our images, and why.
const CANNOT_PASS: [(&str, &str); 1] = [(
    "runtime should support MaskedPaths",
    "the shell of Debian's busybox does not execute the masked program: it has the same command built in",
)];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runtime {
    Podward,
    Containerd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Spdy,
    WebSocket,
}

impl Runtime {
    fn name(self) -> &'static str {
        match self {
            Self::Podward => "podward",
            Self::Containerd => "containerd",
        }
    }
}

impl Transport {
    fn name(self) -> &'static str {
        match self {
            Self::Spdy => "SPDY",
            Self::WebSocket => "WebSocket",
        }
    }
}

#[derive(Debug, Default)]
struct Options {
    record: bool,
    short: bool,
    words: Vec<String>,
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let mut arguments = std::env::args().skip(1).peekable();
    if arguments.next_if(|argument| argument == machine::INSIDE).is_some() {
        return machine::run_inside(arguments.collect()).await.map(|()| ExitCode::SUCCESS);
    }
    let options = options(arguments)?;
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("critest/containerd.txt");
    if options.record {
        ensure!(options.words.is_empty(), "--record runs all specs: leave out {:?}", options.words);
        let report = run(Runtime::Containerd, Transport::Spdy, &PARTS, &[]).await?;
        print_report(Runtime::Containerd, Transport::Spdy, &report);
        std::fs::write(&recorded, Baseline::from_report(&report).to_string())
            .with_context(|| format!("write {}", recorded.display()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let baseline = Baseline::read(&recorded)?;
    println!("containerd, recorded: {}", baseline.summary());
    let mut bad = 0;
    for transport in [Transport::Spdy, Transport::WebSocket] {
        let is_short = options.short && transport == Transport::WebSocket;
        let parts: &[&[&str]] = if is_short { &STREAMS } else { &PARTS };
        let report = run(Runtime::Podward, transport, parts, &options.words).await?;
        print_report(Runtime::Podward, transport, &report);
        bad += report.in_state(State::Failed).filter(|spec| cannot_pass(&spec.name).is_none()).count();
        for spec in report.in_state(State::Skipped).filter(|spec| baseline.passes(&spec.name)) {
            bad += 1;
            println!("SKIPPED, but containerd passes it: {}", spec.name);
        }
        ensure!(!report.specs.is_empty(), "no spec was selected");
    }
    Ok(if bad == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn options(arguments: impl Iterator<Item = String>) -> Result<Options> {
    let mut options = Options::default();
    for argument in arguments {
        match argument.as_str() {
            "--record" => options.record = true,
            "--short" => options.short = true,
            flag if flag.starts_with('-') => bail!("unknown argument {flag}: --record, --short or words"),
            _ => options.words.push(argument),
        }
    }
    Ok(options)
}

/// Runs the parts of the suite at the same time and joins their reports.
async fn run(runtime: Runtime, transport: Transport, parts: &[&[&str]], words: &[String]) -> Result<Report> {
    let start = Instant::now();
    let folder = output_folder()?;
    let mut machines = JoinSet::new();
    for (number, files) in parts.iter().enumerate() {
        let name = format!("{}-{}-{}", runtime.name(), transport.name(), number + 1).to_lowercase();
        let files = files.iter().map(ToString::to_string).collect();
        let job =
            machine::Job { runtime, transport, output: folder.join(name), files, words: words.to_vec() };
        machines.spawn(async move { job.run().await });
    }
    let mut report = Report::default();
    while let Some(part) = machines.join_next().await {
        report.specs.extend(part.context("run a part of the suite")??.specs);
    }
    report.specs.sort_by(|one, other| one.name.cmp(&other.name));
    report.seconds = start.elapsed().as_secs_f64();
    Ok(report)
}

fn output_folder() -> Result<PathBuf> {
    let folder = testkit::images::workspace().join("target/critest");
    std::fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    Ok(folder)
}

fn cannot_pass(spec: &str) -> Option<&'static str> {
    CANNOT_PASS.iter().find(|(name, _)| spec.ends_with(name)).map(|(_, reason)| *reason)
}

fn print_report(runtime: Runtime, transport: Transport, report: &Report) {
    for spec in report.in_state(State::Skipped) {
        println!("skipped: {} ({})", spec.name, spec.message);
    }
    for spec in report.in_state(State::Failed) {
        match cannot_pass(&spec.name) {
            Some(reason) => println!("cannot pass: {} ({reason})", spec.name),
            None => println!("FAILED: {}\n    {}", spec.name, spec.message),
        }
    }
    println!("{}, {}: {}, {:.0} s", runtime.name(), transport.name(), report.summary(), report.seconds);
}
