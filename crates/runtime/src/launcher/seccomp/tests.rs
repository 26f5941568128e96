//! Compiled programs give the same result as the rules themselves.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::architecture::Architecture;
use super::compile::compile;
use super::instruction::{
    AND, IF_EQUAL, IF_GREATER, IF_GREATER_OR_EQUAL, Instruction, JUMP, LOAD_WORD, RETURN,
};
use super::*;
use crate::launcher::capabilities::{Capability, requested_set, set_of_mask};

const X86_64: Architecture = Architecture::X86_64;
const ALLOW: u32 = 0x7fff_0000;
const EPERM: u32 = 0x0005_0001;
const ENOSYS: u32 = 0x0005_0026;

#[derive(Clone, Copy, Debug)]
struct Call {
    architecture: u32,
    number: u32,
    arguments: [u64; 6],
}

impl Call {
    fn of(name: &str, arguments: &[u64]) -> Self {
        let mut all = [0; 6];
        all[..arguments.len()].copy_from_slice(arguments);
        let number = X86_64.system_calls()[name];
        Self { architecture: X86_64.audit_number(), number, arguments: all }
    }

    fn number(number: u32) -> Self {
        Self { architecture: X86_64.audit_number(), number, arguments: [0; 6] }
    }

    /// `struct seccomp_data`.
    fn word(&self, offset: u32) -> u32 {
        match offset {
            0 => self.number,
            4 => self.architecture,
            _ => {
                let argument = self.arguments[(offset as usize - 16) / 8];
                if offset.is_multiple_of(8) { argument as u32 } else { (argument >> 32) as u32 }
            }
        }
    }
}

fn interpret(program: &[Instruction], call: &Call) -> u32 {
    let mut accumulator = 0;
    let mut at = 0;
    loop {
        let Instruction { code, if_true, if_false, operand } = program[at];
        at += 1;
        let mut branch = |condition| at += usize::from(if condition { if_true } else { if_false });
        match code {
            LOAD_WORD => accumulator = call.word(operand),
            AND => accumulator &= operand,
            JUMP => at += operand as usize,
            IF_EQUAL => branch(accumulator == operand),
            IF_GREATER => branch(accumulator > operand),
            IF_GREATER_OR_EQUAL => branch(accumulator >= operand),
            RETURN => return operand,
            other => panic!("instruction {other:#x}"),
        }
    }
}

/// The meaning of a profile, without compilation.
fn evaluate(profile: &Profile, call: &Call) -> u32 {
    let numbers = X86_64.system_calls();
    let of_call =
        |rule: &&Rule| rule.names.iter().any(|name| numbers.get(name.as_str()) == Some(&call.number));
    let highest =
        profile.rules.iter().flat_map(|rule| &rule.names).filter_map(|name| numbers.get(name.as_str())).max();
    let strict = matches!(profile.default_action, Action::Errno(errno) if errno != 38)
        || profile.default_action < Action::Errno(0);
    if strict && highest.is_some_and(|highest| call.number > *highest) {
        return ENOSYS;
    }
    let rules = || profile.rules.iter().filter(of_call).filter(|rule| rule.action != profile.default_action);
    let unconditional = rules().filter(|rule| rule.conditions.is_empty()).map(|rule| rule.action).min();
    let holds = |rule: &&Rule| rule.conditions.iter().all(|condition| condition_holds(condition, call));
    let conditional = rules().filter(holds).map(|rule| rule.action).min();
    unconditional.or(conditional).unwrap_or(profile.default_action).return_value()
}

fn condition_holds(condition: &Condition, call: &Call) -> bool {
    let cut = |value: u64| match condition.width {
        ArgumentWidth::Full => value,
        ArgumentWidth::LowerHalf => value & 0xffff_ffff,
    };
    let argument = cut(call.arguments[usize::from(condition.index)]);
    match condition.comparison {
        Comparison::NotEqual(value) => argument != cut(value),
        Comparison::Less(value) => argument < cut(value),
        Comparison::LessOrEqual(value) => argument <= cut(value),
        Comparison::Equal(value) => argument == cut(value),
        Comparison::GreaterOrEqual(value) => argument >= cut(value),
        Comparison::Greater(value) => argument > cut(value),
        Comparison::MaskedEqual { mask, value } => argument & cut(mask) == cut(value),
    }
}

fn default_for(add: &[&str]) -> Profile {
    let add: Vec<String> = add.iter().map(|name| (*name).to_owned()).collect();
    let bounding: BTreeSet<Capability> = requested_set(&add, &[], &set_of_mask(u64::MAX));
    default_profile(&bounding).unwrap()
}

#[track_caller]
fn check_default(add: &[&str], call: Call, expected: u32) {
    let program = compile(&default_for(add), &[X86_64, Architecture::I386]).unwrap();
    assert_eq!(interpret(&program, &call), expected, "{call:?}");
}

#[test]
fn default_profile_allows_ordinary_calls() {
    for name in ["read", "openat2", "execve", "futex_waitv", "mseal", "ptrace", "arch_prctl", "chroot"] {
        check_default(&[], Call::of(name, &[]), ALLOW);
    }
}

#[test]
fn default_profile_refuses_calls_of_privileged_programs() {
    for name in [
        "io_uring_setup",
        "userfaultfd",
        "keyctl",
        "add_key",
        "request_key",
        "mount",
        "umount2",
        "unshare",
        "setns",
        "pivot_root",
        "bpf",
        "perf_event_open",
        "kexec_load",
        "swapon",
        "open_by_handle_at",
        "mbind",
        "move_pages",
        "init_module",
        "ustat",
        "sysfs",
        "uselib",
    ] {
        check_default(&[], Call::of(name, &[]), EPERM);
    }
}

#[test]
fn default_profile_answers_enosys_to_calls_newer_than_itself() {
    check_default(&[], Call::number(600), ENOSYS);
    check_default(&[], Call::number(u32::MAX), ENOSYS);
    check_default(&[], Call::number(0x4000_0000), ENOSYS);
}

#[test]
fn default_profile_depends_on_capabilities() {
    check_default(&["SYS_ADMIN"], Call::of("mount", &[]), ALLOW);
    check_default(&["SYS_ADMIN"], Call::of("clone3", &[]), ALLOW);
    check_default(&["SYS_TIME"], Call::of("settimeofday", &[]), ALLOW);
    check_default(&[], Call::of("settimeofday", &[]), EPERM);
    check_default(&[], Call::of("clone3", &[]), ENOSYS);
}

#[test]
fn default_profile_refuses_new_namespaces_by_clone() {
    check_default(&[], Call::of("clone", &[0x0100_0011]), ALLOW);
    for flag in [0x0002_0000, 0x0200_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000] {
        check_default(&[], Call::of("clone", &[flag | 17]), EPERM);
    }
}

#[test]
fn default_profile_refuses_kernel_crypto_and_vsock_sockets() {
    for (family, expected) in [(2, ALLOW), (38, EPERM), (39, ALLOW), (40, EPERM), (41, ALLOW)] {
        check_default(&[], Call::of("socket", &[family]), expected);
        // The kernel reads the family as an int.
        check_default(&[], Call::of("socket", &[family | 1 << 32]), expected);
    }
}

#[test]
fn default_profile_restricts_personalities() {
    check_default(&[], Call::of("personality", &[0xffff_ffff]), ALLOW);
    check_default(&[], Call::of("personality", &[8]), ALLOW);
    check_default(&[], Call::of("personality", &[0x0040_0000]), EPERM);
}

#[test]
fn each_architecture_has_its_own_numbers() {
    let i386 = |number| Call { architecture: Architecture::I386.audit_number(), ..Call::number(number) };
    // read is 3 on i386; 21 is mount there, and access on x86_64.
    check_default(&[], i386(3), ALLOW);
    check_default(&[], i386(21), EPERM);
    check_default(&[], Call::number(21), ALLOW);
}

#[test]
fn call_of_an_unknown_architecture_kills_the_thread() {
    check_default(&[], Call { architecture: 0xC000_00B7, ..Call::number(0) }, 0);
}

#[test]
fn default_profile_takes_few_instructions() {
    let filter = Filter::compile(&default_for(&[])).unwrap();
    assert!(filter.program.len() < 700, "{}", filter.program.len());
    assert_eq!(filter.instructions().len(), filter.program.len());
}

#[test]
fn profile_that_is_too_long_is_refused() {
    let names: Vec<String> = X86_64.system_calls().keys().map(|name| (*name).to_owned()).collect();
    // Calls with the same rules share code.
    let rules = (0..).zip(&names).flat_map(|(value, name)| {
        (0..6).map(move |index| Rule {
            names: vec![name.clone()],
            action: Action::Allow,
            conditions: vec![Condition {
                index,
                width: ArgumentWidth::Full,
                comparison: Comparison::Equal(value),
            }],
        })
    });
    let profile =
        Profile { default_action: Action::Errno(1), flags: FilterFlags::default(), rules: rules.collect() };
    assert!(matches!(compile(&profile, &[X86_64]), Err(CompileError::TooLong(_))));
}

fn any_action() -> impl Strategy<Value = Action> {
    prop_oneof![
        Just(Action::KillProcess),
        Just(Action::KillThread),
        Just(Action::Trap),
        (0u16..50).prop_map(Action::Errno),
        (0u16..50).prop_map(Action::Trace),
        Just(Action::Log),
        Just(Action::Allow),
    ]
}

/// Few values, so that comparisons are often equal in one half.
fn any_word() -> impl Strategy<Value = u64> {
    prop_oneof![
        (0u64..4),
        (0u64..4).prop_map(|value| value << 32),
        (0u64..4).prop_map(|value| value | 1 << 32)
    ]
}

fn any_condition() -> impl Strategy<Value = Condition> {
    let comparison = prop_oneof![
        any_word().prop_map(Comparison::NotEqual),
        any_word().prop_map(Comparison::Less),
        any_word().prop_map(Comparison::LessOrEqual),
        any_word().prop_map(Comparison::Equal),
        any_word().prop_map(Comparison::GreaterOrEqual),
        any_word().prop_map(Comparison::Greater),
        (any_word(), any_word()).prop_map(|(mask, value)| Comparison::MaskedEqual { mask, value }),
    ];
    let width = prop_oneof![Just(ArgumentWidth::Full), Just(ArgumentWidth::LowerHalf)];
    (0u8..2, width, comparison).prop_map(|(index, width, comparison)| Condition { index, width, comparison })
}

fn any_rule() -> impl Strategy<Value = Rule> {
    let name = prop_oneof![Just("read"), Just("write"), Just("open"), Just("socket"), Just("clone3")];
    let names = prop::collection::vec(name.prop_map(str::to_owned), 1..3);
    (names, any_action(), prop::collection::vec(any_condition(), 0..3))
        .prop_map(|(names, action, conditions)| Rule { names, action, conditions })
}

proptest! {
    #[test]
    fn program_equals_the_meaning_of_the_profile(
        default_action in any_action(),
        rules in prop::collection::vec(any_rule(), 0..8),
        number in prop_oneof![0u32..6, 40u32..44, 434u32..438],
        arguments in (any_word(), any_word()).prop_map(|(first, second)| [first, second, 0, 0, 0, 0]),
    ) {
        let profile = Profile { default_action, flags: FilterFlags::default(), rules };
        let call = Call { architecture: X86_64.audit_number(), number, arguments };
        let program = compile(&profile, &[X86_64]).unwrap();
        prop_assert_eq!(interpret(&program, &call), evaluate(&profile, &call));
    }
}
