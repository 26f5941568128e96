//! The registers of a thread, by DWARF register number.

use gimli::Register;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Registers {
    /// Instruction pointer.
    pub(super) pc: u64,
    values: [u64; SLOTS],
}

const SLOTS: usize = 32;

#[cfg(target_arch = "x86_64")]
mod machine {
    /// Mask of the registers to sample: ax to ip, then r8 to r15.
    pub(in super::super) const SAMPLED: u64 = 0x00ff_01ff;
    /// DWARF numbers of the sampled registers, in the kernel's order.
    pub(super) const NUMBERS: &[usize] = &[0, 3, 2, 1, 4, 5, 6, 7, PC, 8, 9, 10, 11, 12, 13, 14, 15];
    /// The return address column, which is not a register.
    pub(super) const PC: usize = 16;
    pub(in super::super) const SP: gimli::Register = gimli::Register(7);
    pub(in super::super) const ADDRESS_BITS: u64 = u64::MAX;
}

#[cfg(target_arch = "aarch64")]
mod machine {
    /// Mask of the registers to sample: x0 to x30, sp, pc.
    pub(in super::super) const SAMPLED: u64 = 0x1_ffff_ffff;
    /// DWARF numbers of the sampled registers, in the kernel's order.
    pub(super) const NUMBERS: &[usize] = &[
        0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27,
        28, 29, 30, 31, PC,
    ];
    pub(super) const PC: usize = 32;
    pub(in super::super) const SP: gimli::Register = gimli::Register(31);
    /// A return address may carry a pointer authentication code in the higher bits.
    pub(in super::super) const ADDRESS_BITS: u64 = (1 << 48) - 1;
}

/// Other architectures compile, but `Sampling::start` refuses to profile.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod machine {
    pub(in super::super) const SAMPLED: u64 = 0;
    pub(super) const NUMBERS: &[usize] = &[];
    pub(super) const PC: usize = super::SLOTS;
    pub(in super::super) const SP: gimli::Register = gimli::Register(0);
    pub(in super::super) const ADDRESS_BITS: u64 = u64::MAX;
}

pub(super) use machine::{ADDRESS_BITS, SAMPLED, SP};

impl Registers {
    /// Number of sampled registers.
    pub(super) const COUNT: usize = machine::NUMBERS.len();

    pub(super) fn from_kernel(sampled_values: &[u64]) -> Option<Self> {
        let mut registers = Self { pc: 0, values: [0; SLOTS] };
        for (number, value) in machine::NUMBERS.iter().zip(sampled_values) {
            match *number {
                machine::PC => registers.pc = *value,
                number => *registers.values.get_mut(number)? = *value,
            }
        }
        (sampled_values.len() == Self::COUNT).then_some(registers)
    }

    pub(super) fn get(&self, register: Register) -> Option<u64> {
        self.values.get(usize::from(register.0)).copied()
    }

    /// Ignores registers that are not tracked.
    pub(super) fn set(&mut self, register: Register, value: u64) {
        if let Some(slot) = self.values.get_mut(usize::from(register.0)) {
            *slot = value;
        }
    }
}
