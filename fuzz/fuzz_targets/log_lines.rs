//! Any bytes as a log in two chunks: the output does not depend on the split and respects the limit.
#![no_main]

use decide::logs::container_logs::{LogOptions, Transcript};
use libfuzzer_sys::fuzz_target;

fn shown(options: &LogOptions, pieces: &[&[u8]]) -> Vec<u8> {
    let mut transcript = Transcript::new(options);
    let mut all = Vec::new();
    for piece in pieces {
        transcript.feed(piece, &mut all);
    }
    all
}

fuzz_target!(|input: (u8, u8, &[u8])| {
    let (flags, cut, log) = input;
    let limit_bytes = (flags & 1 != 0).then_some(u64::from(flags) + 1);
    let tail_lines = (flags & 2 != 0).then_some(u64::from(flags >> 4) + 1);
    let timestamps = flags & 4 != 0;
    let options = LogOptions { limit_bytes, tail_lines, timestamps, ..LogOptions::default() };
    let whole = shown(&options, &[log]);
    let (first, second) = log.split_at(usize::from(cut).min(log.len()));
    assert_eq!(whole, shown(&options, &[first, second]));
    if let Some(limit) = limit_bytes {
        assert!(whole.len() as u64 <= limit);
    }
    if !timestamps {
        assert!(whole.len() <= log.len());
    }
});
