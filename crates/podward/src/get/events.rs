use std::process::ExitCode;

use anyhow::{Context, bail};
use k8s_openapi::api::core::v1::Event;
use model::Timestamp;
use ports::clock::{Clock, SystemClock};
use serde_json::{Value, json};

use super::{DEFAULT_SERVER, age, fetch, row, table};

const USAGE: &str = "usage: podward events [POD] [-n NAMESPACE] [-o json] [--server HOST:PORT]";

/// What is asked for.
#[derive(Debug, Default, PartialEq)]
struct Question {
    pod: Option<String>,
    namespace: Option<String>,
    json: bool,
    server: Option<String>,
}

/// Runs `podward events`.
///
/// # Errors
/// When the agent cannot be asked.
pub fn run(arguments: &[String]) -> anyhow::Result<ExitCode> {
    let question = parse(arguments)?;
    let server = question.server.as_deref().unwrap_or(DEFAULT_SERVER);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let body = runtime.block_on(fetch(server, "/podward/events"))?;
    print!("{}", answer(&body, &question, SystemClock.now())?);
    Ok(ExitCode::SUCCESS)
}

fn parse(arguments: &[String]) -> anyhow::Result<Question> {
    let mut question = Question::default();
    let mut rest = arguments.iter().map(String::as_str);
    while let Some(argument) = rest.next() {
        let (name, mut inline) = match argument.split_once('=') {
            Some((name, value)) if name.starts_with('-') => (name, Some(value)),
            _ => (argument, None),
        };
        let mut value =
            || inline.take().or_else(|| rest.next()).with_context(|| format!("{name} needs a value"));
        match name {
            "--server" => question.server = Some(value()?.to_owned()),
            "-n" | "--namespace" => question.namespace = Some(value()?.to_owned()),
            "-o" | "--output" => match value()? {
                "json" => question.json = true,
                other => bail!("-o {other:?}; only json is known"),
            },
            _ if name.starts_with('-') || question.pod.is_some() => {
                bail!("unexpected argument {argument:?}; {USAGE}")
            }
            _ => question.pod = Some(argument.to_owned()),
        }
    }
    Ok(question)
}

fn answer(body: &[u8], question: &Question, now: Timestamp) -> anyhow::Result<String> {
    let list: Value = serde_json::from_slice(body).context("read the agent's answer")?;
    let items = list.get("items").cloned().unwrap_or_default();
    let mut events: Vec<Event> = serde_json::from_value(items).context("read the agent's events")?;
    events.retain(|event| {
        let subject = &event.involved_object;
        let is = |wanted: &Option<String>, found: &Option<String>| wanted.is_none() || wanted == found;
        is(&question.pod, &subject.name) && is(&question.namespace, &subject.namespace)
    });
    if question.json {
        let list = json!({"kind": "List", "apiVersion": "v1", "metadata": {}, "items": events});
        return Ok(serde_json::to_string_pretty(&list)? + "\n");
    }
    if events.is_empty() {
        return Ok("No events.\n".to_owned());
    }
    let mut rows = vec![row(["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"])];
    rows.extend(events.iter().map(|event| event_row(event, now)));
    Ok(table(&rows))
}

fn event_row(event: &Event, now: Timestamp) -> Vec<String> {
    let since = |time: Option<&k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>| {
        time.map(|time| age(now.since(Timestamp::from_api_time(time)))).unwrap_or_default()
    };
    let last = since(event.last_timestamp.as_ref());
    let seen = match event.count {
        Some(count) if count > 1 => {
            format!("{last} (x{count} over {})", since(event.first_timestamp.as_ref()))
        }
        _ => last,
    };
    let subject = &event.involved_object;
    let kind = subject.kind.as_deref().unwrap_or_default().to_lowercase();
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    row([
        &seen,
        &text(&event.type_),
        &text(&event.reason),
        &format!("{kind}/{}", text(&subject.name)),
        text(&event.message).trim_end(),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body() -> Vec<u8> {
        let event = |name: &str, reason: &str, count: i32| {
            json!({"metadata": {"name": "e", "namespace": "default"}, "count": count,
                "involvedObject": {"kind": "Pod", "name": name, "namespace": "default"},
                "type": "Normal", "reason": reason, "message": "m", "firstTimestamp": "2026-01-01T00:00:00Z",
                "lastTimestamp": "2026-01-01T00:01:00Z"})
        };
        let list = json!({"items": [event("a-node", "Pulled", 1), event("b-node", "BackOff", 3)]});
        list.to_string().into_bytes()
    }

    fn ask(arguments: &[&str]) -> Question {
        parse(&arguments.iter().map(ToString::to_string).collect::<Vec<_>>()).unwrap()
    }

    fn now() -> Timestamp {
        Timestamp::from_secs(1_767_225_670)
    }

    #[test]
    fn events_are_shown_as_kubectl_would() {
        let text = answer(&body(), &ask(&[]), now()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "LAST SEEN           TYPE     REASON    OBJECT       MESSAGE");
        assert_eq!(lines[1], "10s                 Normal   Pulled    pod/a-node   m");
        assert_eq!(lines[2], "10s (x3 over 70s)   Normal   BackOff   pod/b-node   m");
    }

    #[test]
    fn one_pods_events_are_picked() {
        let text = answer(&body(), &ask(&["b-node", "-n", "default"]), now()).unwrap();
        assert!(text.contains("BackOff") && !text.contains("Pulled"));
        let json = answer(&body(), &ask(&["-o", "json", "a-node"]), now()).unwrap();
        let list: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(list["items"].as_array().unwrap().len(), 1);
        assert_eq!(answer(&body(), &ask(&["none"]), now()).unwrap(), "No events.\n");
    }

    #[test]
    fn arguments_that_are_not_known_are_refused() {
        for bad in [&["-o", "yaml"][..], &["a", "b"], &["--what"], &["-n"]] {
            let words: Vec<String> = bad.iter().map(ToString::to_string).collect();
            assert!(parse(&words).is_err(), "{bad:?}");
        }
        assert_eq!(ask(&["--server=h:1"]).server.as_deref(), Some("h:1"));
    }
}
