//! Decimal numbers of any size, as far as quantities need them.

use std::fmt::{self, Write};

/// Larger powers of ten are refused; upstream would compute them.
const MAX_SHIFT: i32 = 1000;
const CAP: u64 = i64::MAX as u64;

/// `digits` × 10^-`scale`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Decimal {
    negative: bool,
    /// From the highest, values 0 to 9, no leading zeros; none at all is zero.
    digits: Vec<u8>,
    scale: i32,
}

impl Decimal {
    /// The number `whole.fraction`.
    pub(super) fn from_digits(negative: bool, whole: &str, fraction: &str) -> Self {
        let digits = whole.bytes().chain(fraction.bytes()).map(|digit| digit.wrapping_sub(b'0'));
        let digits: Vec<u8> = digits.skip_while(|digit| *digit == 0).collect();
        let scale = i32::try_from(fraction.len()).unwrap_or(i32::MAX);
        Self { negative: negative && !digits.is_empty(), digits, scale }
    }

    /// Times ten to the power; `None` if that is out of reason.
    pub(super) fn shifted(self, exponent: i32) -> Option<Self> {
        if exponent.checked_abs()? > MAX_SHIFT {
            return None;
        }
        Some(Self { scale: self.scale - exponent, ..self })
    }

    /// Times two to the power.
    pub(super) fn doubled(mut self, exponent: u8) -> Self {
        for _ in 0..exponent {
            let mut carry = 0;
            for digit in self.digits.iter_mut().rev() {
                let double = *digit * 2 + carry;
                (*digit, carry) = (double % 10, double / 10);
            }
            if carry > 0 {
                self.digits.insert(0, carry);
            }
        }
        self
    }

    /// At the given scale, rounded away from zero.
    pub(super) fn rounded_away(mut self, scale: i32) -> Self {
        let more = scale - self.scale;
        if more >= 0 {
            let zeros = if self.is_zero() { 0 } else { usize::try_from(more).unwrap_or_default() };
            self.digits.extend(std::iter::repeat_n(0, zeros));
        } else {
            let kept = self.digits.len().saturating_sub(usize::try_from(-more).unwrap_or_default());
            if self.digits.drain(kept..).any(|digit| digit != 0) {
                self.increment();
            }
        }
        Self { scale, ..self }
    }

    /// Whether it is zero.
    pub(super) fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }

    /// Whether it lies between zero and one, regardless of sign; both ends excluded.
    pub(super) fn is_fraction_of_one(&self) -> bool {
        !self.is_zero() && i32::try_from(self.digits.len()).unwrap_or(i32::MAX) <= self.scale
    }

    /// At most what 63 bits hold.
    pub(super) fn capped(self) -> Self {
        let cap = CAP.to_string();
        let whole = self.digits.len().saturating_sub(usize::try_from(self.scale).unwrap_or_default());
        let cap_digits = cap.bytes().map(|digit| digit - b'0');
        let (integer, rest) = self.digits.split_at_checked(whole).unwrap_or_default();
        let order = whole.cmp(&cap.len()).then_with(|| integer.iter().copied().cmp(cap_digits.clone()));
        if order.is_gt() || order.is_eq() && rest.iter().any(|digit| *digit != 0) {
            return Self { negative: self.negative, digits: cap_digits.collect(), scale: 0 };
        }
        self
    }

    /// Writes it as the big decimal of upstream's library: words of 64 bits, lowest first.
    pub(super) fn write(&self, out: &mut impl Write) -> fmt::Result {
        write!(out, "{{unscaled:(big.Int){{neg:(bool){} abs:(big.nat)", self.negative)?;
        let words = self.words();
        if words.is_empty() {
            out.write_str("<nil>")?;
        } else {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            write!(out, "[{}]", words.join(" "))?;
        }
        write!(out, "}} scale:(inf.Scale){}}}", self.scale)
    }

    fn words(&self) -> Vec<u64> {
        let mut words: Vec<u64> = Vec::new();
        for digit in &self.digits {
            let mut carry = u128::from(*digit);
            for word in &mut words {
                let sum = u128::from(*word) * 10 + carry;
                (*word, carry) = (sum as u64, sum >> 64);
            }
            if carry > 0 {
                words.push(carry as u64);
            }
        }
        words
    }

    fn increment(&mut self) {
        for digit in self.digits.iter_mut().rev() {
            if *digit < 9 {
                *digit += 1;
                return;
            }
            *digit = 0;
        }
        self.digits.insert(0, 1);
    }
}
