//! Parses the records that the kernel writes to a ring buffer.

use super::registers::Registers;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Record<'a> {
    Sample {
        /// User-mode registers, even if the thread was in the kernel.
        registers: Box<Registers>,
        /// The stack, starting at the stack pointer.
        stack: &'a [u8],
    },
    /// Number of samples that did not fit into the ring.
    Lost(u64),
}

const LOST: u32 = 2;
const SAMPLE: u32 = 9;
const HEADER_BYTES: usize = 8;

/// The samples and lost counts in bytes from a ring; skips other records.
pub(super) fn records(mut bytes: &[u8]) -> impl Iterator<Item = Record<'_>> {
    std::iter::from_fn(move || {
        loop {
            let (header, _) = bytes.split_first_chunk::<HEADER_BYTES>()?;
            let [a, b, c, d, _, _, low, high] = *header;
            let size = usize::from(u16::from_ne_bytes([low, high]));
            let body = bytes.get(HEADER_BYTES..size)?;
            bytes = bytes.get(size..)?;
            let record = match u32::from_ne_bytes([a, b, c, d]) {
                SAMPLE => sample(body),
                LOST => read_u64(body, 8).map(Record::Lost),
                _ => None,
            };
            if record.is_some() {
                return record;
            }
        }
    })
}

/// Layout of a sample: register ABI (0 for a kernel thread), register values, size of the stack area, stack area,
/// bytes used in the stack area.
fn sample(body: &[u8]) -> Option<Record<'_>> {
    if read_u64(body, 0)? == 0 {
        return None;
    }
    let end = 8 + 8 * Registers::COUNT;
    let values: Vec<u64> = (8..end).step_by(8).filter_map(|offset| read_u64(body, offset)).collect();
    let registers = Box::new(Registers::from_kernel(&values)?);
    let area_size = usize::try_from(read_u64(body, end)?).ok()?;
    let area_end = (end + 8).checked_add(area_size)?;
    let stack = body.get(end + 8..area_end)?;
    let used = if area_size == 0 { 0 } else { usize::try_from(read_u64(body, area_end)?).ok()? };
    Some(Record::Sample { registers, stack: stack.get(..used)? })
}

pub(super) fn read_u64(bytes: &[u8], offset: usize) -> Option<u64> {
    bytes.get(offset..)?.first_chunk().copied().map(u64::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, words: &[u64]) -> Vec<u8> {
        let size = u16::try_from(HEADER_BYTES + 8 * words.len()).unwrap();
        let mut bytes = [&kind.to_ne_bytes()[..], &[0, 0], &size.to_ne_bytes()].concat();
        bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        bytes
    }

    #[test]
    fn reads_samples_and_lost_counts_and_skips_other_records() {
        let values: Vec<u64> = (100..).take(Registers::COUNT).collect();
        let sampled = [&[2][..], &values, &[16, 7, 8, 8]].concat();
        let kernel_thread = [0, 0];
        let bytes = [
            record(SAMPLE, &kernel_thread),
            record(3, &[1]),
            record(SAMPLE, &sampled),
            record(LOST, &[1, 5]),
        ]
        .concat();
        let found: Vec<Record<'_>> = records(&bytes).collect();
        let stack = &7_u64.to_ne_bytes()[..];
        let registers = Box::new(Registers::from_kernel(&values).unwrap());
        assert_eq!(found, [Record::Sample { registers, stack }, Record::Lost(5)]);
    }

    #[test]
    fn ignores_truncated_records() {
        let values: Vec<u64> = (100..).take(Registers::COUNT).collect();
        let whole = record(SAMPLE, &[&[2][..], &values, &[16, 7, 8, 8]].concat());
        for end in 0..whole.len() {
            assert_eq!(records(&whole[..end]).count(), 0, "{end}");
        }
        let more_than_area = record(SAMPLE, &[&[2][..], &values, &[16, 7, 8, 24]].concat());
        assert_eq!(records(&more_than_area).count(), 0);
        assert_eq!(records(&[0; 64]).count(), 0);
    }
}
