//! `goroutine` and `threadcreate`: the threads of this process and the load of its runtime.

use std::collections::BTreeMap;
use std::time::Duration;

use model::Timestamp;
use ports::host::profiler::ThreadFacts;
use tokio::runtime::RuntimeMetrics;

use super::encoding::{Texts, proto};

/// The load of the tokio runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RuntimeFacts {
    workers: usize,
    tasks: usize,
    queued: usize,
}

impl RuntimeFacts {
    pub(super) fn new(metrics: &RuntimeMetrics) -> Self {
        Self {
            workers: metrics.num_workers(),
            tasks: metrics.num_alive_tasks(),
            queued: metrics.global_queue_depth(),
        }
    }

    fn text(self) -> String {
        let Self { workers, tasks, queued } = self;
        format!("tokio: {workers} workers, {tasks} tasks alive, {queued} tasks in the global queue\n")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detail {
    /// One line per thread name.
    Grouped,
    /// One line per thread.
    Each,
}

/// The threads with one name.
#[derive(Default)]
struct Group {
    count: usize,
    states: BTreeMap<char, usize>,
    user: Duration,
    system: Duration,
}

fn groups(threads: &[ThreadFacts]) -> BTreeMap<&str, Group> {
    threads.iter().fold(BTreeMap::new(), |mut groups, thread| {
        let group: &mut Group = groups.entry(thread.name.as_str()).or_default();
        group.count += 1;
        *group.states.entry(thread.state).or_default() += 1;
        group.user += thread.user;
        group.system += thread.system;
        groups
    })
}

pub(super) fn text(name: &str, detail: Detail, threads: &[ThreadFacts], runtime: RuntimeFacts) -> String {
    let mut text = format!("{name} profile: total {}\n", threads.len());
    text.push_str("This program has threads and tokio tasks instead of goroutines.\n");
    text.push_str(&runtime.text());
    text.push('\n');
    match detail {
        Detail::Grouped => text.extend(groups(threads).iter().map(|(name, group)| group_line(name, group))),
        Detail::Each => text.extend(threads.iter().map(thread_line)),
    }
    text
}

fn group_line(name: &str, group: &Group) -> String {
    let states: Vec<String> = group.states.iter().map(|(state, count)| format!("{count} {state}")).collect();
    let times = times(group.user, group.system);
    format!("{} @ {name} [{}]: {times}\n", group.count, states.join(", "))
}

fn thread_line(thread: &ThreadFacts) -> String {
    let times = times(thread.user, thread.system);
    format!("thread {} {:?} [{}]: {times}\n", thread.id, thread.name, thread.state)
}

fn times(user: Duration, system: Duration) -> String {
    format!("{:.2}s user, {:.2}s system", user.as_secs_f64(), system.as_secs_f64())
}

/// A profile with one sample per thread name.
pub(super) fn profile(
    name: &str,
    now: Timestamp,
    threads: &[ThreadFacts],
    runtime: RuntimeFacts,
) -> proto::Profile {
    let mut texts = Texts::new();
    let sample_type = vec![texts.value_type(name, "count")];
    let period_type = Some(texts.value_type(name, "count"));
    let comment = vec![texts.index(runtime.text().trim_end())];
    let mut profile = proto::Profile {
        sample_type,
        period_type,
        period: 1,
        comment,
        time_nanos: now.as_nanos(),
        ..Default::default()
    };
    for (id, (name, group)) in (1..).zip(groups(threads)) {
        let name = texts.index(name);
        profile.function.push(proto::Function { id, name, system_name: name, ..Default::default() });
        let line = vec![proto::Line { function_id: id, line: 0 }];
        profile.location.push(proto::Location { id, line, ..Default::default() });
        let value = vec![i64::try_from(group.count).unwrap_or(i64::MAX)];
        profile.sample.push(proto::Sample { location_id: vec![id], value, label: Vec::new() });
    }
    profile.string_table = texts.into_table();
    profile
}
