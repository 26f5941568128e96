//! The records that the kernel writes into a ring.

use super::registers::Registers;

/// What a record says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Record<'a> {
    /// A thread was seen.
    Sample {
        /// Its registers in its own code, also while the kernel worked for it.
        registers: Box<Registers>,
        /// Its stack from its stack pointer on.
        stack: &'a [u8],
    },
    /// The ring was full so often.
    Lost(u64),
}

const LOST: u32 = 2;
const SAMPLE: u32 = 9;
const HEADER: usize = 8;

/// The records in bytes out of a ring; kinds that nobody asked for are left out.
pub(super) fn records(mut bytes: &[u8]) -> impl Iterator<Item = Record<'_>> {
    std::iter::from_fn(move || {
        loop {
            let (header, _) = bytes.split_first_chunk::<HEADER>()?;
            let [a, b, c, d, _, _, low, high] = *header;
            let size = usize::from(u16::from_ne_bytes([low, high]));
            let body = bytes.get(HEADER..size)?;
            bytes = bytes.get(size..)?;
            let record = match u32::from_ne_bytes([a, b, c, d]) {
                SAMPLE => sample(body),
                LOST => number(body, 8).map(Record::Lost),
                _ => None,
            };
            if record.is_some() {
                return record;
            }
        }
    })
}

/// A sample: which registers there are (none of a thread of the kernel), their values, room for the stack, the stack,
/// how much of the room holds something.
fn sample(body: &[u8]) -> Option<Record<'_>> {
    if number(body, 0)? == 0 {
        return None;
    }
    let end = 8 + 8 * Registers::SENT;
    let sent: Vec<u64> = (8..end).step_by(8).filter_map(|at| number(body, at)).collect();
    let registers = Box::new(Registers::from_kernel(&sent)?);
    let room = usize::try_from(number(body, end)?).ok()?;
    let room_end = (end + 8).checked_add(room)?;
    let stack = body.get(end + 8..room_end)?;
    let used = if room == 0 { 0 } else { usize::try_from(number(body, room_end)?).ok()? };
    Some(Record::Sample { registers, stack: stack.get(..used)? })
}

/// The number at that place.
pub(super) fn number(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().copied().map(u64::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, words: &[u64]) -> Vec<u8> {
        let size = u16::try_from(HEADER + 8 * words.len()).unwrap();
        let mut bytes = [&kind.to_ne_bytes()[..], &[0, 0], &size.to_ne_bytes()].concat();
        bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        bytes
    }

    #[test]
    fn samples_and_losses_are_read_and_the_rest_left_out() {
        let sent: Vec<u64> = (100..).take(Registers::SENT).collect();
        let sampled = [&[2][..], &sent, &[16, 7, 8, 8]].concat();
        let of_the_kernel = [0, 0];
        let bytes = [
            record(SAMPLE, &of_the_kernel),
            record(3, &[1]),
            record(SAMPLE, &sampled),
            record(LOST, &[1, 5]),
        ]
        .concat();
        let found: Vec<Record<'_>> = records(&bytes).collect();
        let stack = &7_u64.to_ne_bytes()[..];
        let registers = Box::new(Registers::from_kernel(&sent).unwrap());
        assert_eq!(found, [Record::Sample { registers, stack }, Record::Lost(5)]);
    }

    #[test]
    fn what_is_cut_off_is_no_record() {
        let sent: Vec<u64> = (100..).take(Registers::SENT).collect();
        let whole = record(SAMPLE, &[&[2][..], &sent, &[16, 7, 8, 8]].concat());
        for end in 0..whole.len() {
            assert_eq!(records(&whole[..end]).count(), 0, "{end}");
        }
        let more_than_room = record(SAMPLE, &[&[2][..], &sent, &[16, 7, 8, 24]].concat());
        assert_eq!(records(&more_than_room).count(), 0);
        assert_eq!(records(&[0; 64]).count(), 0);
    }
}
