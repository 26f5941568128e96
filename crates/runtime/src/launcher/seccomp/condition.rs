//! Conditions on the arguments of a system call.

use thiserror::Error;

/// A comparison of one argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    /// 0 to 5.
    pub index: u8,
    pub width: ArgumentWidth,
    pub comparison: Comparison,
}

/// How much of the 64-bit argument is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentWidth {
    Full,
    /// The lower 32 bits, for arguments that the kernel reads as an `int`: it ignores the upper half, so a comparison of the
    /// full argument could be evaded with bits there.
    LowerHalf,
}

/// Unsigned, with the argument on the left side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    NotEqual(u64),
    Less(u64),
    LessOrEqual(u64),
    Equal(u64),
    GreaterOrEqual(u64),
    Greater(u64),
    MaskedEqual { mask: u64, value: u64 },
}

#[derive(Debug, Error, PartialEq, Eq)]
pub enum ConditionError {
    #[error("a system call has no argument {0}")]
    Index(u32),
    #[error("unknown seccomp operator {0:?}")]
    Operator(String),
}

impl Condition {
    pub(super) fn parse(
        index: u32,
        operator: &str,
        value: u64,
        value_two: u64,
    ) -> Result<Self, ConditionError> {
        let comparison = match operator {
            "SCMP_CMP_NE" => Comparison::NotEqual(value),
            "SCMP_CMP_LT" => Comparison::Less(value),
            "SCMP_CMP_LE" => Comparison::LessOrEqual(value),
            "SCMP_CMP_EQ" => Comparison::Equal(value),
            "SCMP_CMP_GE" => Comparison::GreaterOrEqual(value),
            "SCMP_CMP_GT" => Comparison::Greater(value),
            "SCMP_CMP_MASKED_EQ" => Comparison::MaskedEqual { mask: value, value: value_two },
            other => return Err(ConditionError::Operator(other.to_owned())),
        };
        let index =
            u8::try_from(index).ok().filter(|index| *index < 6).ok_or(ConditionError::Index(index))?;
        Ok(Self { index, width: ArgumentWidth::Full, comparison })
    }
}
