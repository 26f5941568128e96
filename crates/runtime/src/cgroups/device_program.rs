//! The program that decides about devices on cgroup v2.

use super::devices::{DeviceRule, DeviceType};

/// `struct bpf_insn`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Instruction {
    code: u8,
    /// Destination in the lower half, source in the upper one.
    registers: u8,
    offset: i16,
    value: u32,
}

const LOAD_WORD: u8 = 0x61;
const AND: u8 = 0x54;
const SHIFT_RIGHT: u8 = 0x74;
const COPY: u8 = 0xbc;
const SET: u8 = 0xb4;
/// 32-bit comparisons: numbers are not sign-extended.
const IF_NOT_VALUE: u8 = 0x56;
const IF_NOT_REGISTER: u8 = 0x5e;
const EXIT: u8 = 0x95;

const RESULT: u8 = 0;
/// The context at the start, then free for intermediate values.
const CONTEXT: u8 = 1;
const KIND: u8 = 2;
const ACCESS: u8 = 3;
const MAJOR: u8 = 4;
const MINOR: u8 = 5;
const BLOCK: u32 = 1;
const CHARACTER: u32 = 2;

/// Allows what a rule allows, and refuses everything else.
pub(super) fn program(rules: &[DeviceRule]) -> Vec<Instruction> {
    let mut program = vec![
        load(KIND, 0),
        with_value(AND, KIND, 0xffff),
        load(ACCESS, 0),
        with_value(SHIFT_RIGHT, ACCESS, 16),
        load(MAJOR, 4),
        load(MINOR, 8),
    ];
    program.extend(rules.iter().flat_map(rule_code));
    program.extend([with_value(SET, RESULT, 0), with_value(EXIT, 0, 0)]);
    program
}

fn rule_code(rule: &DeviceRule) -> Vec<Instruction> {
    let mut tests = Vec::new();
    match rule.kind {
        DeviceType::Any => {}
        DeviceType::Block => tests.push(with_value(IF_NOT_VALUE, KIND, BLOCK)),
        DeviceType::Character => tests.push(with_value(IF_NOT_VALUE, KIND, CHARACTER)),
    }
    // Every requested kind of access must be allowed.
    tests.push(with_register(COPY, CONTEXT, ACCESS));
    tests.push(with_value(AND, CONTEXT, u32::from(rule.access.bits())));
    tests.push(with_register(IF_NOT_REGISTER, CONTEXT, ACCESS));
    tests.extend(rule.major.map(|major| with_value(IF_NOT_VALUE, MAJOR, major)));
    tests.extend(rule.minor.map(|minor| with_value(IF_NOT_VALUE, MINOR, minor)));
    let mut code = tests;
    code.extend([with_value(SET, RESULT, 1), with_value(EXIT, 0, 0)]);
    let length = code.len();
    for (at, instruction) in code.iter_mut().enumerate() {
        if matches!(instruction.code, IF_NOT_VALUE | IF_NOT_REGISTER) {
            // At most eight instructions.
            instruction.offset = i16::try_from(length - at - 1).unwrap_or(i16::MAX);
        }
    }
    code
}

fn load(register: u8, offset: i16) -> Instruction {
    Instruction { code: LOAD_WORD, registers: CONTEXT << 4 | register, offset, value: 0 }
}

fn with_value(code: u8, register: u8, value: u32) -> Instruction {
    Instruction { code, registers: register, offset: 0, value }
}

fn with_register(code: u8, register: u8, source: u8) -> Instruction {
    Instruction { code, registers: source << 4 | register, offset: 0, value: 0 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::devices::{DeviceAccess, default_device_rules};
    use super::*;

    /// Access bits, kind, major and minor number.
    type Request = (u32, u32, u32, u32);

    fn interpret(program: &[Instruction], (access, kind, major, minor): Request) -> bool {
        let context = [access << 16 | kind, major, minor];
        let mut registers = [0_u32; 8];
        let mut at = 0;
        loop {
            let Instruction { code, registers: pair, offset, value } = program[at];
            let (target, source) = (usize::from(pair & 15), usize::from(pair >> 4));
            at += 1;
            let jump = match code {
                LOAD_WORD => {
                    registers[target] = context[offset as usize / 4];
                    false
                }
                AND => {
                    registers[target] &= value;
                    false
                }
                SHIFT_RIGHT => {
                    registers[target] >>= value;
                    false
                }
                COPY => {
                    registers[target] = registers[source];
                    false
                }
                SET => {
                    registers[target] = value;
                    false
                }
                IF_NOT_VALUE => registers[target] != value,
                IF_NOT_REGISTER => registers[target] != registers[source],
                EXIT => return registers[usize::from(RESULT)] == 1,
                other => panic!("instruction {other:#x}"),
            };
            if jump {
                at += offset as usize;
            }
        }
    }

    fn allows(rule: &DeviceRule, (access, kind, major, minor): Request) -> bool {
        let kind_fits = match rule.kind {
            DeviceType::Any => true,
            DeviceType::Character => kind == CHARACTER,
            DeviceType::Block => kind == BLOCK,
        };
        kind_fits
            && access & !u32::from(rule.access.bits()) == 0
            && rule.major.is_none_or(|number| number == major)
            && rule.minor.is_none_or(|number| number == minor)
    }

    #[test]
    fn default_rules_allow_null_and_refuse_disks() {
        let program = program(&default_device_rules());
        assert!(interpret(&program, (6, CHARACTER, 1, 3)));
        assert!(interpret(&program, (1, BLOCK, 8, 0)), "a node may be made");
        assert!(!interpret(&program, (2, BLOCK, 8, 0)), "but not opened");
        assert!(!interpret(&program, (2, CHARACTER, 10, 229)));
    }

    fn any_rule() -> impl Strategy<Value = DeviceRule> {
        let kind = prop_oneof![Just(DeviceType::Any), Just(DeviceType::Character), Just(DeviceType::Block)];
        let access = prop_oneof![Just("r"), Just("w"), Just("m"), Just("rw"), Just("rwm")];
        let number = || prop::option::of(0_u32..4);
        (kind, number(), number(), access).prop_map(|(kind, major, minor, access)| DeviceRule {
            kind,
            major,
            minor,
            access: DeviceAccess::parse(access).unwrap(),
        })
    }

    proptest! {
        #[test]
        fn program_equals_the_rules(
            rules in prop::collection::vec(any_rule(), 0..5),
            request in (1_u32..8, 1_u32..3, 0_u32..4, 0_u32..4),
        ) {
            let allowed = rules.iter().any(|rule| allows(rule, request));
            prop_assert_eq!(interpret(&program(&rules), request), allowed);
        }
    }
}
