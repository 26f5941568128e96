//! Instructions of classic BPF, as seccomp accepts them.

use super::action::Action;

/// `BPF_MAXINSNS`.
pub(super) const MAX_INSTRUCTIONS: usize = 4096;
/// Offsets in `struct seccomp_data`.
pub(super) const OFFSET_NUMBER: u32 = 0;
pub(super) const OFFSET_ARCHITECTURE: u32 = 4;
const OFFSET_ARGUMENTS: u32 = 16;

pub(super) const LOAD_WORD: u16 = 0x20;
pub(super) const AND: u16 = 0x54;
pub(super) const JUMP: u16 = 0x05;
pub(super) const IF_EQUAL: u16 = 0x15;
pub(super) const IF_GREATER: u16 = 0x25;
pub(super) const IF_GREATER_OR_EQUAL: u16 = 0x35;
pub(super) const RETURN: u16 = 0x06;

/// `struct sock_filter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Instruction {
    pub code: u16,
    pub if_true: u8,
    pub if_false: u8,
    pub operand: u32,
}

impl Instruction {
    fn plain(code: u16, operand: u32) -> Self {
        Self { code, if_true: 0, if_false: 0, operand }
    }

    pub(super) fn load(offset: u32) -> Self {
        Self::plain(LOAD_WORD, offset)
    }

    /// Loads a half of an argument. Both supported byte orders are little-endian.
    pub(super) fn load_argument(index: u8, half: Half) -> Self {
        let offset = match half {
            Half::Lower => 0,
            Half::Upper => 4,
        };
        Self::load(OFFSET_ARGUMENTS + 8 * u32::from(index) + offset)
    }

    pub(super) fn and(mask: u32) -> Self {
        Self::plain(AND, mask)
    }

    /// Skips `length` instructions.
    pub(super) fn jump(length: usize) -> Self {
        // A program that is too long for the kernel is refused before it is used.
        Self::plain(JUMP, u32::try_from(length).unwrap_or(u32::MAX))
    }

    pub(super) fn if_equal(value: u32, if_true: u8, if_false: u8) -> Self {
        Self { code: IF_EQUAL, if_true, if_false, operand: value }
    }

    pub(super) fn if_greater(value: u32, if_true: u8, if_false: u8) -> Self {
        Self { code: IF_GREATER, if_true, if_false, operand: value }
    }

    pub(super) fn if_greater_or_equal(value: u32, if_true: u8, if_false: u8) -> Self {
        Self { code: IF_GREATER_OR_EQUAL, if_true, if_false, operand: value }
    }

    pub(super) fn give(action: Action) -> Self {
        Self::plain(RETURN, action.return_value())
    }
}

#[derive(Clone, Copy)]
pub(super) enum Half {
    Lower,
    Upper,
}
