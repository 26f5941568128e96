//! The registers of a thread, by the numbers that unwind tables know them by.

use gimli::Register;

/// What a sample tells of a thread's registers, or an unwound frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Registers {
    /// The instruction.
    pub(super) pc: u64,
    values: [u64; COUNT],
}

/// As many as unwind tables number.
const COUNT: usize = 32;

#[cfg(target_arch = "x86_64")]
mod machine {
    /// Which registers the kernel is asked for: ax to ip, then r8 to r15.
    pub(in super::super) const WANTED: u64 = 0x00ff_01ff;
    /// The unwind tables' numbers of them, in the kernel's order.
    pub(super) const NUMBERS: &[usize] = &[0, 3, 2, 1, 4, 5, 6, 7, PC, 8, 9, 10, 11, 12, 13, 14, 15];
    /// Not a register that can be a base: the column of the return address.
    pub(super) const PC: usize = 16;
    pub(in super::super) const SP: gimli::Register = gimli::Register(7);
    /// Addresses are what they seem.
    pub(in super::super) const ADDRESS_BITS: u64 = u64::MAX;
}

#[cfg(target_arch = "aarch64")]
mod machine {
    /// Which registers the kernel is asked for: x0 to x30, sp, pc.
    pub(in super::super) const WANTED: u64 = 0x1_ffff_ffff;
    /// The unwind tables' numbers of them, in the kernel's order.
    pub(super) const NUMBERS: &[usize] = &[
        0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27,
        28, 29, 30, 31, PC,
    ];
    pub(super) const PC: usize = 32;
    pub(in super::super) const SP: gimli::Register = gimli::Register(31);
    /// A return address may carry a signature above these.
    pub(in super::super) const ADDRESS_BITS: u64 = (1 << 48) - 1;
}

/// Nobody has tried others; they only compile.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod machine {
    /// None: profiles are refused.
    pub(in super::super) const WANTED: u64 = 0;
    pub(super) const NUMBERS: &[usize] = &[];
    pub(super) const PC: usize = super::COUNT;
    pub(in super::super) const SP: gimli::Register = gimli::Register(0);
    pub(in super::super) const ADDRESS_BITS: u64 = u64::MAX;
}

pub(super) use machine::{ADDRESS_BITS, SP, WANTED};

impl Registers {
    /// How many the kernel sends.
    pub(super) const SENT: usize = machine::NUMBERS.len();

    /// From what the kernel sent.
    pub(super) fn from_kernel(sent: &[u64]) -> Option<Self> {
        let mut registers = Self { pc: 0, values: [0; COUNT] };
        for (number, value) in machine::NUMBERS.iter().zip(sent) {
            match *number {
                machine::PC => registers.pc = *value,
                number => *registers.values.get_mut(number)? = *value,
            }
        }
        (sent.len() == Self::SENT).then_some(registers)
    }

    /// The value of a register that the tables name.
    pub(super) fn get(&self, register: Register) -> Option<u64> {
        self.values.get(usize::from(register.0)).copied()
    }

    /// Sets it; registers that nobody computes with are left out.
    pub(super) fn set(&mut self, register: Register, value: u64) {
        if let Some(place) = self.values.get_mut(usize::from(register.0)) {
            *place = value;
        }
    }
}
