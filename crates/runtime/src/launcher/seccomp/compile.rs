//! Compiles a profile to a classic BPF program for the kernel.
//!
//! ```text
//! load architecture ── one section per architecture; any other: kill the thread
//! section: load number ── x32 number: ENOSYS ── above the highest number that the profile names: ENOSYS
//!                      └─ binary search over ranges of numbers with the same result
//! ```
//!
//! Calls that are newer than the profile return ENOSYS, because C libraries fall back to older calls only then.

use std::collections::BTreeMap;

use thiserror::Error;

use super::action::Action;
use super::architecture::Architecture;
use super::condition::Condition;
use super::conditional_code::conditional_code;
use super::instruction::{Instruction, MAX_INSTRUCTIONS, OFFSET_ARCHITECTURE, OFFSET_NUMBER};
use super::profile::Profile;

const ENOSYS: u16 = 38;
/// Numbers of x32 calls have this bit, with the audit architecture of x86_64.
const X32_BIT: u32 = 0x4000_0000;

/// Why there is no filter for a profile.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum CompileError {
    #[error("the seccomp profile needs {0} instructions, the kernel accepts {MAX_INSTRUCTIONS}")]
    TooLong(usize),
    #[error("seccomp filters are not supported on this processor architecture")]
    Architecture,
}

/// Compiles for `architectures`.
pub(super) fn compile(
    profile: &Profile,
    architectures: &[Architecture],
) -> Result<Vec<Instruction>, CompileError> {
    if architectures.is_empty() {
        return Err(CompileError::Architecture);
    }
    let mut program = vec![Instruction::load(OFFSET_ARCHITECTURE)];
    for architecture in architectures {
        let section = section(profile, *architecture);
        program.push(Instruction::if_equal(architecture.audit_number(), 1, 0));
        program.push(Instruction::jump(section.len()));
        program.extend(section);
    }
    program.push(Instruction::give(Action::KillThread));
    if program.len() > MAX_INSTRUCTIONS {
        return Err(CompileError::TooLong(program.len()));
    }
    Ok(program)
}

fn section(profile: &Profile, architecture: Architecture) -> Vec<Instruction> {
    let numbers = architecture.system_calls();
    let mut calls: BTreeMap<u32, CallRules<'_>> = BTreeMap::new();
    let mut highest = None;
    for rule in &profile.rules {
        for number in rule.names.iter().filter_map(|name| numbers.get(name.as_str())) {
            highest = highest.max(Some(*number));
            if rule.action != profile.default_action {
                calls.entry(*number).or_default().add(rule.action, &rule.conditions);
            }
        }
    }
    let mut code = vec![Instruction::load(OFFSET_NUMBER)];
    if architecture == Architecture::X86_64 {
        code.push(Instruction::if_greater_or_equal(X32_BIT, 0, 1));
        code.push(Instruction::give(Action::Errno(ENOSYS)));
    }
    let newer_calls_fail =
        !profile.default_action.lets_pass() && profile.default_action != Action::Errno(ENOSYS);
    if let Some(highest) = highest.filter(|_| newer_calls_fail) {
        code.push(Instruction::if_greater(highest, 0, 1));
        code.push(Instruction::give(Action::Errno(ENOSYS)));
    }
    code.extend(search(&ranges(calls, profile.default_action)));
    code
}

/// The rules of one system call.
#[derive(Default, PartialEq)]
struct CallRules<'a> {
    unconditional: Option<Action>,
    conditional: Vec<(Action, &'a [Condition])>,
}

impl<'a> CallRules<'a> {
    /// An unconditional rule replaces conditional ones. If rules overlap, the most restrictive action is taken.
    fn add(&mut self, action: Action, conditions: &'a [Condition]) {
        if conditions.is_empty() {
            self.unconditional = Some(self.unconditional.map_or(action, |other| other.min(action)));
        } else {
            self.conditional.push((action, conditions));
        }
    }

    fn code(mut self, default: Action) -> Vec<Instruction> {
        if let Some(action) = self.unconditional {
            return vec![Instruction::give(action)];
        }
        self.conditional.sort_by_key(|(action, _)| *action);
        conditional_code(&self.conditional, default)
    }
}

/// Code that is valid from a number on, up to the start of the next range.
struct Range {
    start: u32,
    code: Vec<Instruction>,
}

fn ranges(calls: BTreeMap<u32, CallRules<'_>>, default: Action) -> Vec<Range> {
    let mut ranges = vec![Range { start: 0, code: vec![Instruction::give(default)] }];
    let mut append = |start: u32, code: Vec<Instruction>| {
        match ranges.last_mut() {
            Some(last) if last.code == code => return,
            Some(last) if last.start == start => last.code = code,
            Some(_) | None => ranges.push(Range { start, code }),
        }
        merge_last_two(&mut ranges);
    };
    for (number, rules) in calls {
        append(number, rules.code(default));
        append(number + 1, vec![Instruction::give(default)]);
    }
    ranges
}

/// Joins the last two ranges if their code became equal.
fn merge_last_two(ranges: &mut Vec<Range>) {
    if let [.., before, last] = ranges.as_slice()
        && before.code == last.code
    {
        ranges.pop();
    }
}

/// A binary search for the range of the loaded number. Every path ends with a return.
fn search(ranges: &[Range]) -> Vec<Instruction> {
    let middle = ranges.len() / 2;
    let (left, right) = ranges.split_at(middle);
    let Some(first) = right.first() else { return Vec::new() };
    if left.is_empty() {
        return first.code.clone();
    }
    let left = search(left);
    let mut code = match u8::try_from(left.len()) {
        Ok(length) => vec![Instruction::if_greater_or_equal(first.start, length, 0)],
        Err(_) => vec![Instruction::if_greater_or_equal(first.start, 0, 1), Instruction::jump(left.len())],
    };
    code.extend(left);
    code.extend(search(right));
    code
}
