//! Any text as a seccomp profile: refused, or compiled to a program in which every jump stays inside and every path returns.
#![no_main]

use libfuzzer_sys::fuzz_target;
use runtime::launcher::seccomp::{Filter, Profile};

fuzz_target!(|text: &[u8]| {
    let Ok(profile) = Profile::from_json(text) else { return };
    let Ok(filter) = Filter::compile(&profile) else { return };
    let program = filter.instructions();
    for (at, instruction) in program.iter().enumerate() {
        let is_return = instruction.code & 7 == 6;
        let furthest = match instruction.code {
            0x05 => instruction.operand as usize,
            code if code & 7 == 5 => usize::from(instruction.if_true.max(instruction.if_false)),
            _ => 0,
        };
        assert!(is_return || at + 1 + furthest < program.len(), "instruction {at} of {}", program.len());
    }
});
