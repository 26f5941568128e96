//! The manifests of the corpus and the settings in their headers.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

#[derive(Clone, Debug)]
pub(crate) struct Manifest {
    /// File name without extension; also the pod's name.
    pub(crate) name: String,
    pub(crate) text: String,
    /// The state in which it is compared.
    pub(crate) settles: Settles,
    pub(crate) within: Duration,
    /// Whether its events are compared as well.
    pub(crate) events: bool,
    /// Whether it is in a crash loop: the number of restarts and whether the backoff is already shown vary.
    pub(crate) crashes: bool,
}

/// The state that a pod reaches and stays in.
#[derive(Clone, Debug)]
pub(crate) enum Settles {
    /// Neither agent accepts it.
    Absent,
    /// All of these conditions are met.
    When(Vec<(String, String)>),
}

impl Settles {
    pub(crate) fn reached(&self, pod: &Value) -> bool {
        match self {
            Self::Absent => false,
            Self::When(terms) => terms.iter().all(|(key, value)| holds(pod, key, value)),
        }
    }
}

/// Reads the corpus; `words` select manifests by a part of their name.
pub(crate) fn read(folder: &Path, words: &[String]) -> Result<Vec<Manifest>> {
    let mut manifests = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_none_or(|ending| ending != "yaml") {
            continue;
        }
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if words.is_empty() || words.iter().any(|word| name.contains(word)) {
            let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
            manifests.push(parse(name, text).with_context(|| path.display().to_string())?);
        }
    }
    manifests.sort_by(|a, b| a.name.cmp(&b.name));
    ensure!(!manifests.is_empty(), "no manifest name contains {words:?}");
    Ok(manifests)
}

fn parse(name: String, text: String) -> Result<Manifest> {
    let head = |key: &str| {
        text.lines()
            .take_while(|line| line.starts_with('#'))
            .find_map(|line| line.strip_prefix(&format!("# {key}:")).map(str::trim))
    };
    let settles = match head("settles").context("no line '# settles: ...' in the header")? {
        "absent" => Settles::Absent,
        terms => Settles::When(terms.split_whitespace().map(term).collect::<Result<_>>()?),
    };
    let within = head("within").map_or(Ok(60), str::parse).context("# within: seconds")?;
    let events = match head("events") {
        None => true,
        Some("differ") => false,
        Some(other) => bail!("# events: {other:?}; only 'differ' is supported"),
    };
    let crashes = head("crashes").is_some();
    Ok(Manifest { crashes, name, text, settles, within: Duration::from_secs(within), events })
}

fn term(text: &str) -> Result<(String, String)> {
    let (key, value) = text.split_once('=').with_context(|| format!("{text:?} is not key=value"))?;
    Ok((key.to_owned(), value.to_owned()))
}

/// `phase`, `reason`, a condition by its type, `<container>`, `<container>.restarts` (at least), `<container>.ready`.
fn holds(pod: &Value, key: &str, expected: &str) -> bool {
    let text = |pointer: &str| pod.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    if matches!(key, "phase" | "reason") {
        return text(&format!("/status/{key}")) == expected;
    }
    if key.starts_with(char::is_uppercase) {
        let conditions = pod.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
        let kind = |condition: &&Value| condition.get("type").and_then(Value::as_str) == Some(key);
        let found = conditions.filter(kind).find_map(|condition| condition.get("status")?.as_str());
        return found == Some(expected);
    }
    let (name, field) = key.split_once('.').unwrap_or((key, "state"));
    let Some(container) = container(pod, name) else { return false };
    match field {
        "restarts" => {
            let count = container.get("restartCount").and_then(Value::as_u64);
            count >= expected.parse().ok()
        }
        "ready" => container.get("ready").and_then(Value::as_bool) == expected.parse().ok(),
        _ if expected == "ended" => {
            let words = state(container);
            words.contains("terminated") || words.contains("waiting/CrashLoopBackOff")
        }
        _ => state(container).contains(expected),
    }
}

fn container<'a>(pod: &'a Value, name: &str) -> Option<&'a Value> {
    ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"]
        .iter()
        .filter_map(|list| pod.pointer(&format!("/status/{list}"))?.as_array())
        .flatten()
        .find(|status| status.get("name").and_then(Value::as_str) == Some(name))
}

/// `running`, `waiting`, `terminated`, and the latter two with their reasons.
fn state(container: &Value) -> BTreeSet<String> {
    let state = container.get("state").and_then(Value::as_object);
    let mut words = BTreeSet::new();
    for (word, detail) in state.into_iter().flatten() {
        words.insert(word.clone());
        if let Some(reason) = detail.get("reason").and_then(Value::as_str) {
            words.insert(format!("{word}/{reason}"));
        }
    }
    words
}
