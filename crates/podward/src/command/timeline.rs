//! `podward timeline`: where the time of a pod's start went.

use std::process::ExitCode;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use model::Timestamp;
use serde_json::Value;

use super::arguments::{Output, PodArguments};
use super::client::Client;
use super::get::print;
use super::names::{find, name_of};
use super::table::{Table, long_time};
use super::terminal;
use model::yaml::to_yaml;

/// The narrowest and the widest bars.
const NARROW: usize = 10;
const WIDE: usize = 60;
/// Parts of a column, from an eighth to a whole.
const EIGHTHS: [&str; 9] = [" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"];

/// Runs the command.
pub(super) async fn run(arguments: PodArguments) -> anyhow::Result<ExitCode> {
    let client = Client::of(&arguments.connection);
    let pod = find(&client, &arguments.pod, arguments.scope.namespace.as_deref()).await?;
    let (namespace, name) = name_of(&pod);
    let answer = client.json(&format!("/podward/timeline/{namespace}/{name}")).await?;
    match arguments.output {
        Output::Json => print(&(serde_json::to_string_pretty(&answer)? + "\n"))?,
        Output::Yaml => print(&to_yaml(&answer))?,
        Output::Table | Output::Wide | Output::Name => print(&text(&answer, &pod, terminal::width()))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// One line of the picture.
struct Line {
    step: String,
    container: String,
    from: Duration,
    /// `None` for a moment, and for a step that is not over.
    took: Option<Duration>,
    note: String,
}

fn text(answer: &Value, pod: &Pod, width: Option<usize>) -> String {
    let (namespace, name) = name_of(pod);
    let (Some(seen), Some(accepted)) = (time(&answer["seenAt"]), time(&answer["acceptedAt"])) else {
        return "The agent's answer has no times.\n".to_owned();
    };
    let ready = time(&answer["readyAt"]);
    let steps = answer["steps"].as_array().cloned().unwrap_or_default();
    let mut text = format!("Pod:        {namespace}/{name}\nSeen:       {}\n", long_time(seen));
    if steps.is_empty() && (answer["ranBefore"] == true || ready.is_some()) {
        text.push_str("\nIt ran already when this agent started, so how it started is not known.\n");
        return text;
    }
    match ready {
        Some(ready) => text.push_str(&format!("Ready:      after {}\n", short(ready.since(seen)))),
        None => text.push_str("Ready:      not yet\n"),
    }
    let mut lines = vec![Line {
        step: "accepted".to_owned(),
        container: String::new(),
        from: Duration::ZERO,
        took: Some(accepted.since(seen)),
        note: String::new(),
    }];
    lines.extend(steps.iter().filter_map(|step| line(step, seen)));
    lines.sort_by_key(|line| line.from);
    if let Some(ready) = ready {
        lines.push(Line {
            step: "ready".to_owned(),
            container: String::new(),
            from: ready.since(seen),
            took: None,
            note: String::new(),
        });
    }
    text.push('\n');
    text.push_str(&picture(&lines, width));
    text.push_str(&restarts(&steps));
    text
}

fn line(step: &Value, seen: Timestamp) -> Option<Line> {
    let started = time(&step["startedAt"])?;
    let finished = time(&step["finishedAt"]);
    let name = match step["step"].as_str().unwrap_or_default() {
        "firstProbe" => "first probe",
        other => other,
    };
    let note = match (finished, step["succeeded"].as_bool()) {
        (None, _) => "under way",
        (Some(_), Some(true)) => "",
        (Some(_), _) => "failed",
    };
    Some(Line {
        step: name.to_owned(),
        container: step["container"].as_str().unwrap_or_default().to_owned(),
        from: started.since(seen),
        took: finished.map(|finished| finished.since(started)),
        note: note.to_owned(),
    })
}

/// A table, with bars behind it where there is a terminal.
fn picture(lines: &[Line], width: Option<usize>) -> String {
    let has_notes = lines.iter().any(|line| !line.note.is_empty());
    let mut table = Table::bare();
    let mut row = |cells: [&str; 5]| {
        let count = if has_notes { 5 } else { 4 };
        table.add_row(cells.into_iter().take(count).map(str::to_owned).collect());
    };
    row(["STEP", "CONTAINER", "FROM", "TOOK", "NOTE"]);
    for line in lines {
        let took = line.took.map(short).unwrap_or_default();
        row([&line.step, &line.container, &short(line.from), &took, &line.note]);
    }
    let plain = table.take_text();
    let Some(width) = width else { return plain };
    let columns = plain.lines().map(|line| line.chars().count()).max().unwrap_or(0) + 2;
    let room = width.saturating_sub(columns + 2).min(WIDE);
    if room < NARROW {
        return plain;
    }
    let end = lines.iter().map(|line| line.from + line.took.unwrap_or_default()).max().unwrap_or_default();
    let mut text = String::new();
    for (row, shown) in plain.lines().enumerate() {
        let line = row.checked_sub(1).and_then(|at| lines.get(at));
        let bar = line.map(|line| format!("|{}|", bar(line, end, room))).unwrap_or_default();
        let pad = columns.saturating_sub(shown.chars().count());
        let whole = format!("{shown}{}{bar}", " ".repeat(pad));
        text.push_str(whole.trim_end());
        text.push('\n');
    }
    text
}

/// A bar that begins and ends at the right eighth of a column; the smallest step still shows.
fn bar(line: &Line, end: Duration, room: usize) -> String {
    let scale = |time: Duration| {
        let share = if end.is_zero() { 0.0 } else { time.as_secs_f64() / end.as_secs_f64() };
        // At most a few hundred eighths, so nothing is lost.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "small and positive"
        )]
        let eighths = (share.clamp(0.0, 1.0) * (room * 8) as f64).round() as usize;
        eighths
    };
    let from = scale(line.from).min(room * 8 - 1) / 8 * 8;
    let until = match line.took {
        Some(took) => scale(line.from + took).max(from + 1),
        // What has no end yet reaches to the edge; a moment is a mark.
        None if line.note == "under way" => room * 8,
        None => from + 2,
    };
    let mut text = String::new();
    for column in 0..room {
        let filled = until.saturating_sub((column * 8).max(from)).min(8);
        let begun = column * 8 >= from;
        text.push_str(EIGHTHS.get(if begun { filled } else { 0 }).copied().unwrap_or(" "));
    }
    text
}

/// What was done again, and how the last time went.
fn restarts(steps: &[Value]) -> String {
    let mut text = String::new();
    for step in steps {
        let count = step["count"].as_u64().unwrap_or(1);
        if step["step"] != "start" || count < 2 {
            continue;
        }
        let container = step["container"].as_str().unwrap_or_default();
        let last = time(&step["last"]["startedAt"]).map(long_time).unwrap_or_default();
        text.push_str(&format!(
            "\nContainer {container} was started {count} times, last at {last}; shown is the first start.\n"
        ));
    }
    text
}

fn time(value: &Value) -> Option<Timestamp> {
    let time: Time = serde_json::from_value(value.clone()).ok()?;
    Some(Timestamp::from_api_time(&time))
}

/// `3ms`, `0.42s`, `12.3s`, `4m10s`.
fn short(duration: Duration) -> String {
    let millis = duration.as_millis();
    match millis {
        0..100 => format!("{millis}ms"),
        100..10_000 => format!("{:.2}s", duration.as_secs_f64()),
        10_000..120_000 => format!("{:.1}s", duration.as_secs_f64()),
        _ => super::table::age(duration),
    }
}

#[cfg(test)]
mod tests;
