//! `podward timeline`: how long each step of a pod's start took.

use std::process::ExitCode;
use std::time::Duration;

use model::local_api::{Timeline, TimelineStep, paths};
use model::{StartStep, Timestamp};

use super::arguments::{Output, PodArguments};
use super::client::Client;
use super::get::{print, print_document};
use super::pod_names::{find, name_of};
use super::table::{Table, long_time};
use super::terminal;

const MIN_BAR_WIDTH: usize = 10;
const MAX_BAR_WIDTH: usize = 60;
/// Blocks that fill zero to eight eighths of a column.
const EIGHTHS: [&str; 9] = [" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"];

pub(super) async fn run(arguments: PodArguments) -> anyhow::Result<ExitCode> {
    let client = Client::from_flags(&arguments.connection);
    let pod = find(&client, &arguments.pod, arguments.scope.namespace.as_deref()).await?;
    let (namespace, name) = name_of(&pod);
    let timeline: Timeline = client.get(&format!("{}/{namespace}/{name}", paths::TIMELINE)).await?;
    match arguments.format.output {
        Output::Json | Output::Yaml => print_document(arguments.format.output, &timeline)?,
        Output::Table | Output::Wide | Output::Name => print(&text(&timeline, terminal::width()))?,
    }
    Ok(ExitCode::SUCCESS)
}

struct Line {
    step: &'static str,
    container: String,
    /// Since the pod was first seen.
    from: Duration,
    /// `None` for an instant, and for a step that is still running.
    took: Option<Duration>,
    note: Note,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Note {
    None,
    Running,
    Failed,
}

impl Note {
    fn as_str(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Running => "under way",
            Self::Failed => "failed",
        }
    }
}

fn text(timeline: &Timeline, width: Option<usize>) -> String {
    let Timeline { namespace, pod, seen_at: seen, ready_at: ready, steps, .. } = timeline;
    let mut text = format!("Pod:        {namespace}/{pod}\nSeen:       {}\n", long_time(*seen));
    if steps.is_empty() && (timeline.ran_before || ready.is_some()) {
        text.push_str("\nThe pod ran already when this agent started, so its start is unknown.\n");
        return text;
    }
    match ready {
        Some(ready) => text.push_str(&format!("Ready:      after {}\n", short(ready.since(*seen)))),
        None => text.push_str("Ready:      not yet\n"),
    }
    let mut lines = vec![Line {
        step: "accepted",
        container: String::new(),
        from: Duration::ZERO,
        took: Some(timeline.accepted_at.since(*seen)),
        note: Note::None,
    }];
    lines.extend(steps.iter().map(|step| line(step, *seen)));
    lines.sort_by_key(|line| line.from);
    if let Some(ready) = ready {
        lines.push(Line {
            step: "ready",
            container: String::new(),
            from: ready.since(*seen),
            took: None,
            note: Note::None,
        });
    }
    text.push('\n');
    text.push_str(&table_with_bars(&lines, width));
    text.push_str(&restarts(steps));
    text
}

fn line(step: &TimelineStep, seen: Timestamp) -> Line {
    let note = match (step.finished_at, step.succeeded) {
        (None, _) => Note::Running,
        (Some(_), true) => Note::None,
        (Some(_), false) => Note::Failed,
    };
    Line {
        step: step_name(step.step),
        container: step.container.clone().unwrap_or_default(),
        from: step.started_at.since(seen),
        took: step.finished_at.map(|finished| finished.since(step.started_at)),
        note,
    }
}

fn step_name(step: StartStep) -> &'static str {
    match step {
        StartStep::FirstProbe => "first probe",
        other => other.as_str(),
    }
}

/// A table, with bars at the right if the output goes to a terminal that is wide enough.
fn table_with_bars(lines: &[Line], width: Option<usize>) -> String {
    let has_notes = lines.iter().any(|line| line.note != Note::None);
    let mut table = Table::without_headings();
    let mut row = |cells: [&str; 5]| {
        let count = if has_notes { 5 } else { 4 };
        table.add_row(cells.into_iter().take(count).map(str::to_owned).collect());
    };
    row(["STEP", "CONTAINER", "FROM", "TOOK", "NOTE"]);
    for line in lines {
        let took = line.took.map(short).unwrap_or_default();
        row([line.step, &line.container, &short(line.from), &took, line.note.as_str()]);
    }
    let plain = table.take_text();
    let Some(width) = width else { return plain };
    let columns = plain.lines().map(|line| line.chars().count()).max().unwrap_or(0) + 2;
    let bar_width = width.saturating_sub(columns + 2).min(MAX_BAR_WIDTH);
    if bar_width < MIN_BAR_WIDTH {
        return plain;
    }
    let end = lines.iter().map(|line| line.from + line.took.unwrap_or_default()).max().unwrap_or_default();
    let mut text = String::new();
    for (row, table_row) in plain.lines().enumerate() {
        let line = row.checked_sub(1).and_then(|index| lines.get(index));
        let bar = line.map(|line| format!("|{}|", bar(line, end, bar_width))).unwrap_or_default();
        let pad = columns.saturating_sub(table_row.chars().count());
        let padded = format!("{table_row}{}{bar}", " ".repeat(pad));
        text.push_str(padded.trim_end());
        text.push('\n');
    }
    text
}

/// A bar with a resolution of an eighth of a column at its end. Even the shortest step is visible.
fn bar(line: &Line, end: Duration, width: usize) -> String {
    let scale = |time: Duration| {
        let share = if end.is_zero() { 0.0 } else { time.as_secs_f64() / end.as_secs_f64() };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "between 0 and a few hundred"
        )]
        let eighths = (share.clamp(0.0, 1.0) * (width * 8) as f64).round() as usize;
        eighths
    };
    let from = scale(line.from).min(width * 8 - 1) / 8 * 8;
    let until = match line.took {
        Some(took) => scale(line.from + took).max(from + 1),
        // A running step reaches to the edge.
        None if line.note == Note::Running => width * 8,
        // An instant is a thin mark.
        None => from + 2,
    };
    let mut text = String::new();
    for column in 0..width {
        let filled = until.saturating_sub((column * 8).max(from)).min(8);
        let is_started = column * 8 >= from;
        text.push_str(EIGHTHS.get(if is_started { filled } else { 0 }).copied().unwrap_or(" "));
    }
    text
}

/// A sentence per container that was started more than once.
fn restarts(steps: &[TimelineStep]) -> String {
    let mut text = String::new();
    for step in steps.iter().filter(|step| step.step == StartStep::Start && step.count > 1) {
        let container = step.container.as_deref().unwrap_or_default();
        let last = step.last.as_ref().map(|last| long_time(last.started_at)).unwrap_or_default();
        let count = step.count;
        text.push_str(&format!(
            "\nContainer {container} was started {count} times, last at {last}; shown is the first start.\n"
        ));
    }
    text
}

/// For example `3ms`, `0.42s`, `12.3s`, `4m10s`.
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
