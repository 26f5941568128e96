//! Splits the output of a process into lines.

/// A longer line becomes several pieces.
pub const MAX_LINE_BYTES: usize = 16 * 1024;

/// A line or a part of one.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// The line ends here; the line feed is not part of the content.
    End(&'a [u8]),
    /// More of the line follows, or the output ended without a line feed.
    Partial(&'a [u8]),
}

/// Output of one stream that is not a complete line yet. A line is not cut where a read happened to end.
#[derive(Debug, Default)]
pub struct LineSplitter {
    pending: Vec<u8>,
}

impl LineSplitter {
    /// Takes output and gives all pieces that are complete.
    pub fn push(&mut self, mut output: &[u8], mut give: impl FnMut(Piece<'_>)) {
        while let Some(position) = output.iter().position(|byte| *byte == b'\n') {
            let (line, rest) = output.split_at(position);
            output = rest.get(1..).unwrap_or_default();
            if self.pending.is_empty() {
                give_line(line, &mut give);
            } else {
                self.append(line, &mut give);
                give_line(&self.pending, &mut give);
                self.pending.clear();
            }
        }
        self.append(output, &mut give);
    }

    /// The output has ended.
    pub fn finish(&mut self, mut give: impl FnMut(Piece<'_>)) {
        if !self.pending.is_empty() {
            give(Piece::Partial(&self.pending));
            self.pending = Vec::new();
        }
    }

    /// Adds to the pending line. More than a piece is kept only until it is certain that the line continues: a line of exactly
    /// the maximum is one piece, and so is one with a carriage return behind it.
    fn append(&mut self, output: &[u8], give: &mut impl FnMut(Piece<'_>)) {
        self.pending.extend_from_slice(output);
        while self.pending.len() > MAX_LINE_BYTES + 1
            || (self.pending.len() == MAX_LINE_BYTES + 1 && self.pending.last() != Some(&b'\r'))
        {
            let rest = self.pending.split_off(MAX_LINE_BYTES);
            give(Piece::Partial(&self.pending));
            self.pending = rest;
        }
    }
}

/// Gives a complete line. A carriage return before the line feed is dropped, so that the logs of terminals look normal.
fn give_line(line: &[u8], give: &mut impl FnMut(Piece<'_>)) {
    let mut line = line.strip_suffix(b"\r").unwrap_or(line);
    while line.len() > MAX_LINE_BYTES {
        let (piece, rest) = line.split_at(MAX_LINE_BYTES);
        give(Piece::Partial(piece));
        line = rest;
    }
    give(Piece::End(line));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn split(chunks: &[&[u8]]) -> Vec<String> {
        let mut pieces = Vec::new();
        let mut splitter = LineSplitter::default();
        let mut give = |piece: Piece<'_>| {
            pieces.push(match piece {
                Piece::End(text) => format!("F {}", String::from_utf8_lossy(text)),
                Piece::Partial(text) => format!("P {}", String::from_utf8_lossy(text)),
            });
        };
        for chunk in chunks {
            splitter.push(chunk, &mut give);
        }
        splitter.finish(&mut give);
        pieces
    }

    #[test]
    fn line_is_not_cut_at_the_end_of_a_read() {
        assert_eq!(split(&[b"he", b"llo\nwor", b"ld\n"]), ["F hello", "F world"]);
    }

    #[test]
    fn empty_lines_are_kept() {
        assert_eq!(split(&[b"\n\na\n"]), ["F ", "F ", "F a"]);
    }

    #[test]
    fn output_without_line_feed_ends_as_partial_line() {
        assert_eq!(split(&[b"a\nb"]), ["F a", "P b"]);
    }

    #[test]
    fn carriage_return_before_line_feed_is_dropped() {
        assert_eq!(split(&[b"a\r\nb\rc\r", b"\n"]), ["F a", "F b\rc"]);
    }

    #[test]
    fn line_of_exactly_the_maximum_is_one_piece() {
        let long = vec![b'x'; MAX_LINE_BYTES];
        let text = String::from_utf8(long.clone()).unwrap();
        assert_eq!(split(&[&long, b"\n"]), [format!("F {text}")]);
        assert_eq!(split(&[&long, b"\r\n"]), [format!("F {text}")]);
        assert_eq!(split(&[&long, b"y\n"]), [format!("P {text}"), "F y".to_owned()]);
        assert_eq!(split(&[&long]), [format!("P {text}")]);
    }

    proptest! {
        #[test]
        fn reads_of_any_size_give_the_same_pieces(
            runs in prop::collection::vec((0usize..40_000, prop_oneof![Just("\n"), Just("\r\n"), Just("")]), 0..4),
            cuts in prop::collection::vec(1usize..20_000, 1..8),
        ) {
            let output: Vec<u8> =
                runs.iter().flat_map(|(length, end)| [vec![b'x'; *length], end.as_bytes().to_vec()].concat()).collect();
            let mut chunks = Vec::new();
            let mut rest = output.as_slice();
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (chunk, after) = rest.split_at((*cut).min(rest.len()));
                chunks.push(chunk);
                rest = after;
            }
            let pieces = split(&chunks);
            prop_assert_eq!(&pieces, &split(&[&output]));
            let joined: String = pieces.iter().map(|piece| match piece.strip_prefix("F ") {
                Some(text) => format!("{text}\n"),
                None => piece.strip_prefix("P ").unwrap_or_default().to_owned(),
            }).collect();
            prop_assert_eq!(joined, String::from_utf8(output).unwrap().replace("\r\n", "\n"));
        }
    }
}
