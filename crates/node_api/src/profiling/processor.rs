//! Processor time as pprof reads it.

use std::collections::HashMap;

use model::Timestamp;
use ports::profiler::{Frame, Function, ModuleFacts, ProcessorProfile, Stack};

use super::encoding::{Texts, nanoseconds, proto};

/// The profile that began then.
pub(super) fn profile(taken: &ProcessorProfile, began: Timestamp) -> proto::Profile {
    let mut texts = Texts::new();
    let sample_type = vec![texts.value_type("samples", "count"), texts.value_type("cpu", "nanoseconds")];
    let period_type = Some(texts.value_type("cpu", "nanoseconds"));
    let period = nanoseconds(taken.period);
    let sample = taken.stacks.iter().map(|stack| sample(stack, period, &mut texts)).collect();
    let mapping = (1..).zip(&taken.modules).map(|(id, module)| mapping(id, module, &mut texts)).collect();
    let mut functions = Functions::default();
    let locations = (1..).zip(&taken.frames);
    let location = locations.map(|(id, frame)| location(id, frame, &mut functions, &mut texts)).collect();
    let comment = comments(taken).iter().map(|text| texts.index(text)).collect();
    proto::Profile {
        sample_type,
        sample,
        mapping,
        location,
        function: functions.all,
        time_nanos: began.as_nanos(),
        duration_nanos: nanoseconds(taken.sampled),
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

/// Where names were not to be had, file and build id let the reader look for them.
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

/// Each function once.
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

/// What the reader should know of what is not in the profile.
fn comments(taken: &ProcessorProfile) -> Vec<String> {
    let lost = (taken.lost > 0).then(|| format!("{} samples were lost", taken.lost));
    let unseen = (taken.unseen_threads > 0).then(|| {
        format!(
            "{} threads were not sampled: there were too many, or the kernel refused",
            taken.unseen_threads
        )
    });
    lost.into_iter().chain(unseen).collect()
}
