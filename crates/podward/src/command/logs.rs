//! `podward logs`: the output of a container.

use std::io::Write;
use std::process::ExitCode;

use super::arguments::LogArguments;
use super::client::Client;
use super::pod_names::{container, find, name_of};

pub(super) async fn run(arguments: LogArguments) -> anyhow::Result<ExitCode> {
    let client = Client::from_flags(&arguments.connection);
    let pod = find(&client, &arguments.pod, arguments.scope.namespace.as_deref()).await?;
    let requested = arguments.container_flag.as_deref().or(arguments.container.as_deref());
    let container = container(&pod, requested)?;
    let (namespace, name) = name_of(&pod);
    let path = format!("/containerLogs/{namespace}/{name}/{container}{}", query(&arguments));
    let mut log = client.open(&path).await?;
    let mut out = std::io::stdout().lock();
    while let Some(chunk) = log.next().await? {
        let written = out.write_all(&chunk).and_then(|()| out.flush());
        match written {
            // The reader, such as `head`, has closed the pipe.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => break,
            other => other?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The query of the kubelet's API.
fn query(arguments: &LogArguments) -> String {
    let mut pairs = Vec::new();
    for (is_set, name) in
        [(arguments.follow, "follow"), (arguments.previous, "previous"), (arguments.timestamps, "timestamps")]
    {
        if is_set {
            pairs.push(format!("{name}=true"));
        }
    }
    // As in kubectl, -1 means all lines.
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
    fn flags_map_to_kubelet_query() {
        let query_of = |line: &str| match CommandLine::try_parse_from(line.split(' ')).unwrap().command {
            Command::Logs(logs) => query(&logs),
            _ => panic!(),
        };
        assert_eq!(query_of("podward logs web"), "");
        assert_eq!(query_of("podward logs web --tail=-1"), "");
        assert_eq!(
            query_of("podward logs web -c main -f -p --timestamps --tail 20 --since 5m"),
            "?follow=true&previous=true&timestamps=true&tailLines=20&sinceSeconds=300"
        );
    }
}
