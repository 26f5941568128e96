//! `podward logs`: what a container wrote.

use std::io::Write;
use std::process::ExitCode;

use super::arguments::LogArguments;
use super::client::Client;
use super::names::{container, find, name_of};

/// Runs the command.
pub(super) async fn run(arguments: LogArguments) -> anyhow::Result<ExitCode> {
    let client = Client::of(&arguments.connection);
    let pod = find(&client, &arguments.pod, arguments.scope.namespace.as_deref()).await?;
    let wanted = arguments.named.as_deref().or(arguments.container.as_deref());
    let container = container(&pod, wanted)?;
    let (namespace, name) = name_of(&pod);
    let path = format!("/containerLogs/{namespace}/{name}/{container}{}", query(&arguments));
    let mut answer = client.open(&path).await?;
    let mut out = std::io::stdout().lock();
    while let Some(piece) = answer.next().await? {
        let written = out.write_all(&piece).and_then(|()| out.flush());
        match written {
            // Whoever read has seen enough.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => break,
            other => other?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The question in the words of the kubelet's API.
fn query(arguments: &LogArguments) -> String {
    let mut pairs = Vec::new();
    for (is_set, name) in
        [(arguments.follow, "follow"), (arguments.previous, "previous"), (arguments.timestamps, "timestamps")]
    {
        if is_set {
            pairs.push(format!("{name}=true"));
        }
    }
    // kubectl's -1 means all lines.
    pairs.extend(arguments.tail.filter(|lines| *lines >= 0).map(|lines| format!("tailLines={lines}")));
    pairs.extend(arguments.since.map(|seconds| format!("sinceSeconds={seconds}")));
    if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::command::arguments::{Command, CommandLine};

    #[test]
    fn flags_become_the_kubelets_query() {
        let asked = |line: &str| match CommandLine::try_parse_from(line.split(' ')).unwrap().command {
            Command::Logs(logs) => query(&logs),
            _ => panic!(),
        };
        assert_eq!(asked("podward logs web"), "");
        assert_eq!(asked("podward logs web --tail=-1"), "");
        assert_eq!(
            asked("podward logs web -c main -f -p --timestamps --tail 20 --since 5m"),
            "?follow=true&previous=true&timestamps=true&tailLines=20&sinceSeconds=300"
        );
    }
}
