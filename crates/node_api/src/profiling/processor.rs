//! `profile`: CPU time by function, in the format of pprof.

use std::collections::HashMap;
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::Response;
use model::Timestamp;
use ports::host::profiler::{Frame, Function, ModuleFacts, ProcessorProfile, ProfilerError, Stack};

use super::encoding::{Texts, proto};
use super::profiles::{Profiles, error_response, protobuf};

const DEFAULT_SECONDS: i64 = 30;

/// Upstream's server times a response out after four hours.
const LIMIT_SECONDS: i64 = 4 * 60 * 60;

pub(super) async fn page(profiles: Profiles, seconds: Option<&str>) -> Response {
    let requested = seconds.and_then(|seconds| seconds.parse().ok()).filter(|seconds| *seconds > 0);
    let seconds = requested.unwrap_or(DEFAULT_SECONDS);
    let Some(length) =
        u64::try_from(seconds).ok().filter(|_| seconds < LIMIT_SECONDS).map(Duration::from_secs)
    else {
        return error_response(StatusCode::BAD_REQUEST, "profile duration exceeds server's WriteTimeout");
    };
    let start = profiles.clock.now();
    match profiles.profiler.processor_time(length).await {
        Ok(sampled) => protobuf("profile", move || profile(&sampled, start)).await,
        Err(error) => not_enabled(&error),
    }
}

fn not_enabled(error: &ProfilerError) -> Response {
    let cause = std::error::Error::source(error).map(|cause| format!(" ({cause})")).unwrap_or_default();
    let text = format!("Could not enable CPU profiling: {error}{cause}");
    error_response(StatusCode::INTERNAL_SERVER_ERROR, &text)
}

fn profile(sampled: &ProcessorProfile, start: Timestamp) -> proto::Profile {
    let mut texts = Texts::new();
    let sample_type = vec![texts.value_type("samples", "count"), texts.value_type("cpu", "nanoseconds")];
    let period_type = Some(texts.value_type("cpu", "nanoseconds"));
    let period = nanoseconds(sampled.period);
    let sample = sampled.stacks.iter().map(|stack| sample(stack, period, &mut texts)).collect();
    let mapping = (1..).zip(&sampled.modules).map(|(id, module)| mapping(id, module, &mut texts)).collect();
    let mut functions = Functions::default();
    let locations = (1..).zip(&sampled.frames);
    let location = locations.map(|(id, frame)| location(id, frame, &mut functions, &mut texts)).collect();
    let comment = comments(sampled).iter().map(|text| texts.index(text)).collect();
    proto::Profile {
        sample_type,
        sample,
        mapping,
        location,
        function: functions.all,
        time_nanos: start.as_nanos(),
        duration_nanos: nanoseconds(sampled.sampled),
        period_type,
        period,
        comment,
        string_table: texts.into_table(),
        ..proto::Profile::default()
    }
}

fn sample(stack: &Stack, period: i64, texts: &mut Texts) -> proto::Sample {
    let count = i64::try_from(stack.count).unwrap_or(i64::MAX);
    let thread = proto::Label {
        key: texts.index("thread"),
        str: texts.index(&stack.thread),
        ..proto::Label::default()
    };
    proto::Sample {
        location_id: stack.frames.iter().map(|frame| *frame as u64 + 1).collect(),
        value: vec![count, count.saturating_mul(period)],
        label: vec![thread],
    }
}

/// File and build id let the reader look up names that the profile lacks.
fn mapping(id: u64, module: &ModuleFacts, texts: &mut Texts) -> proto::Mapping {
    proto::Mapping {
        id,
        memory_start: module.start,
        memory_limit: module.end,
        file_offset: module.offset,
        filename: texts.index(&module.path),
        build_id: texts.index(&module.build_id),
        has_functions: module.is_named,
        ..proto::Mapping::default()
    }
}

fn location(id: u64, frame: &Frame, functions: &mut Functions, texts: &mut Texts) -> proto::Location {
    let function = frame.function.as_ref().map(|function| functions.id(function, texts));
    proto::Location {
        id,
        mapping_id: frame.module.map_or(0, |module| module as u64 + 1),
        address: frame.address,
        line: function.map(|function_id| proto::Line { function_id, line: 0 }).into_iter().collect(),
        is_folded: false,
    }
}

/// The function table: each function once.
#[derive(Default)]
struct Functions {
    all: Vec<proto::Function>,
    known: HashMap<i64, u64>,
}

impl Functions {
    fn id(&mut self, function: &Function, texts: &mut Texts) -> u64 {
        let (name, system_name) = (texts.index(&function.name), texts.index(&function.symbol));
        let next = self.all.len() as u64 + 1;
        *self.known.entry(system_name).or_insert_with(|| {
            self.all.push(proto::Function { id: next, name, system_name, ..proto::Function::default() });
            next
        })
    }
}

/// Notes for the reader on what the profile lacks.
fn comments(sampled: &ProcessorProfile) -> Vec<String> {
    let lost = (sampled.lost > 0).then(|| format!("{} samples were lost", sampled.lost));
    let unseen = (sampled.unseen_threads > 0).then(|| {
        format!(
            "{} threads were not sampled: there were too many, or the kernel refused",
            sampled.unseen_threads
        )
    });
    lost.into_iter().chain(unseen).collect()
}

fn nanoseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}
