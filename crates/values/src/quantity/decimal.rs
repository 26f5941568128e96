//! Decimal numbers of any size.

use std::cmp::Ordering;

use super::NANO;

/// Larger powers of ten are capped here, because their digits would take gigabytes; upstream computes them.
const MAX_EXPONENT: i32 = 1000;
const BINARY_CAP: u64 = i64::MAX as u64;

/// `digits` × 10^-`scale`, like upstream's `inf.Dec`.
#[derive(Debug, Clone)]
pub struct Decimal {
    negative: bool,
    /// From the highest, values 0 to 9, no leading zeros; zero has none.
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

    /// `value` × 10^`exponent`.
    pub(super) fn from_short(value: i64, exponent: i32) -> Self {
        Self::from_digits(value < 0, &value.unsigned_abs().to_string(), "").shifted(exponent)
    }

    /// Times 10^`exponent`.
    pub(super) fn shifted(self, exponent: i32) -> Self {
        // A small number is rounded later, but a zero keeps its scale.
        let min = if self.is_zero() { -MAX_EXPONENT } else { i32::MIN };
        Self { scale: self.scale.saturating_sub(exponent.clamp(min, MAX_EXPONENT)), ..self }
    }

    /// Times 2^`exponent`.
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
        let more = scale.saturating_sub(self.scale);
        if more >= 0 {
            let zeros = if self.is_zero() { 0 } else { usize::try_from(more).unwrap_or_default() };
            self.digits.extend(std::iter::repeat_n(0, zeros));
        } else {
            let fewer = usize::try_from(more.unsigned_abs()).unwrap_or(usize::MAX);
            let kept = self.digits.len().saturating_sub(fewer);
            if self.digits.drain(kept..).any(|digit| digit != 0) {
                self.increment();
            }
        }
        Self { scale, ..self }
    }

    /// At the finer of the two scales.
    pub(super) fn plus(self, other: Self) -> Self {
        let scale = self.scale.max(other.scale);
        let (first, second) = (self.rounded_away(scale), other.rounded_away(scale));
        let (negative, digits) = if first.negative == second.negative {
            (first.negative, add_digits(&first.digits, &second.digits))
        } else if first.cmp_magnitude(&second).is_ge() {
            (first.negative, subtract_digits(&first.digits, &second.digits))
        } else {
            (second.negative, subtract_digits(&second.digits, &first.digits))
        };
        Self { negative: negative && !digits.is_empty(), digits, scale }
    }

    pub fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }

    pub fn is_negative(&self) -> bool {
        self.negative
    }

    pub fn scale(&self) -> i32 {
        self.scale
    }

    pub(super) fn is_whole(&self) -> bool {
        let (digits, exponent) = self.significant();
        digits.is_empty() || exponent >= 0
    }

    /// Whether it lies between zero and one, regardless of sign; both ends excluded.
    pub(super) fn is_fraction_of_one(&self) -> bool {
        !self.is_zero() && i32::try_from(self.digits.len()).unwrap_or(i32::MAX) <= self.scale
    }

    /// At most 2⁶³-1, regardless of sign.
    pub(super) fn capped(self) -> Self {
        let cap = Self::from_digits(self.negative, &BINARY_CAP.to_string(), "");
        if self.cmp_magnitude(&cap).is_gt() { cap } else { self }
    }

    /// The digits without trailing zeros, and the power of ten of the last one.
    pub(super) fn significant(&self) -> (&[u8], i32) {
        let zeros = self.digits.iter().rev().take_while(|digit| **digit == 0).count();
        let exponent = i32::try_from(zeros).unwrap_or(i32::MAX).saturating_sub(self.scale);
        (self.digits.get(..self.digits.len() - zeros).unwrap_or_default(), exponent)
    }

    /// In units of 10⁻⁹, rounded away from zero and capped.
    pub(super) fn to_nanos(&self) -> i128 {
        let decimal = self.clone().rounded_away(-NANO);
        let magnitude = decimal
            .digits
            .iter()
            .fold(0_i128, |value, digit| value.saturating_mul(10).saturating_add(i128::from(*digit)));
        if self.negative { -magnitude } else { magnitude }
    }

    /// The magnitude without its scale in words of 64 bits, lowest first, like Go's `big.Int`. Takes quadratic time.
    pub fn unscaled_words(&self) -> Vec<u64> {
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

    pub(super) fn cmp_value(&self, other: &Self) -> Ordering {
        match (self.negative, other.negative) {
            (false, false) => self.cmp_magnitude(other),
            (true, true) => other.cmp_magnitude(self),
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
        }
    }

    fn cmp_magnitude(&self, other: &Self) -> Ordering {
        // Number of digits before the decimal point.
        let height = |decimal: &Self| {
            let length = i64::try_from(decimal.digits.len()).unwrap_or(i64::MAX);
            length.saturating_sub(i64::from(decimal.scale))
        };
        match (self.is_zero(), other.is_zero()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            // Of two numbers of the same height, the one with more digits after a common prefix is larger.
            (false, false) => {
                height(self).cmp(&height(other)).then_with(|| self.significant().0.cmp(other.significant().0))
            }
        }
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

fn add_digits(first: &[u8], second: &[u8]) -> Vec<u8> {
    let mut sum = Vec::with_capacity(first.len().max(second.len()) + 1);
    let (mut first, mut second) = (first.iter().rev(), second.iter().rev());
    let mut carry = 0;
    loop {
        let digits = (first.next(), second.next());
        if digits == (None, None) && carry == 0 {
            break;
        }
        let digit = digits.0.unwrap_or(&0) + digits.1.unwrap_or(&0) + carry;
        sum.push(digit % 10);
        carry = digit / 10;
    }
    sum.reverse();
    sum
}

/// `first` is not smaller than `second`.
fn subtract_digits(first: &[u8], second: &[u8]) -> Vec<u8> {
    let mut difference = Vec::with_capacity(first.len());
    let mut second = second.iter().rev();
    let mut borrow = 0;
    for digit in first.iter().rev() {
        let less = second.next().unwrap_or(&0) + borrow;
        borrow = u8::from(*digit < less);
        difference.push(digit + 10 * borrow - less);
    }
    let length = difference.iter().rposition(|digit| *digit != 0).map_or(0, |last| last + 1);
    difference.truncate(length);
    difference.reverse();
    difference
}
