use model::Timestamp;

use super::{LogOptions, LogStreams};

/// Maximum length of `<time> <stream> <tags> `.
const MAX_HEADER_LENGTH: usize = 256;
/// Digits of the fraction of a second in the output.
const FRACTION_DIGITS: usize = 9;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// More input is needed.
    More,
    /// The limit of lines or bytes is reached.
    Done,
}

/// Converts a CRI log file to the response of a request. Lines in another format are left out.
#[derive(Clone, Debug)]
pub struct Transcript {
    timestamps: bool,
    since: Option<Timestamp>,
    streams: LogStreams,
    bytes_left: u64,
    lines_left: u64,
    /// Whether the next entry starts a new line instead of continuing a partial one.
    fresh: bool,
    /// The header of an entry, as far as it was read.
    head: Vec<u8>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// In the header of an entry.
    Head,
    Text(Line),
    /// In an entry with an invalid header.
    Garbage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line {
    partial: bool,
    shown: bool,
    /// Whether it already has text.
    started: bool,
}

/// The parsed header of an entry.
struct Head<'a> {
    time_text: &'a [u8],
    time: Timestamp,
    stream: LogStreams,
    partial: bool,
}

impl Transcript {
    /// Converts a log that is read from the position where `options.tail_lines` begins.
    pub fn new(options: &LogOptions) -> Self {
        // A follower also gets the lines after the last ones.
        let lines = options.tail_lines.filter(|_| !options.follow);
        Self {
            timestamps: options.timestamps,
            since: options.since,
            streams: options.streams,
            bytes_left: options.limit_bytes.unwrap_or(u64::MAX),
            lines_left: lines.unwrap_or(u64::MAX),
            fresh: true,
            head: Vec::new(),
            state: State::Head,
        }
    }

    /// Converts the next bytes of the log and appends the output.
    pub fn feed(&mut self, mut bytes: &[u8], shown: &mut Vec<u8>) -> Flow {
        while !bytes.is_empty() && self.flow() == Flow::More {
            bytes = match self.state {
                State::Head => self.take_head(bytes, shown),
                State::Text(line) => self.take_text(line, bytes, shown),
                State::Garbage => match position(bytes, b'\n') {
                    Some(end) => {
                        self.state = State::Head;
                        rest(bytes, end + 1)
                    }
                    None => &[],
                },
            };
        }
        self.flow()
    }

    /// Ends a partial line at the end of a file.
    pub fn end_of_file(&mut self) {
        self.head.clear();
        if let State::Text(line) = self.state {
            self.end_line(line, false);
        }
        self.state = State::Head;
    }

    fn flow(&self) -> Flow {
        if self.bytes_left == 0 || self.lines_left == 0 { Flow::Done } else { Flow::More }
    }

    fn take_head<'a>(&mut self, bytes: &'a [u8], shown: &mut Vec<u8>) -> &'a [u8] {
        let (byte, left) = match bytes.split_first() {
            Some((byte, left)) => (*byte, left),
            None => return bytes,
        };
        if byte == b'\n' || self.head.len() >= MAX_HEADER_LENGTH {
            self.head.clear();
            self.state = if byte == b'\n' { State::Head } else { State::Garbage };
            return left;
        }
        self.head.push(byte);
        if byte == b' ' && self.head.iter().filter(|byte| **byte == b' ').count() == 3 {
            let text = std::mem::take(&mut self.head);
            match read_head(&text) {
                Some(head) => self.begin_line(&head, shown),
                None => self.state = State::Garbage,
            }
            self.head = text;
            self.head.clear();
        }
        left
    }

    fn begin_line(&mut self, head: &Head<'_>, shown: &mut Vec<u8>) {
        let needle = self.streams == LogStreams::All || self.streams == head.stream;
        let line = Line {
            partial: head.partial,
            shown: needle && self.since.is_none_or(|since| head.time >= since),
            started: false,
        };
        if line.shown && self.timestamps && self.fresh {
            self.show(&shown_time(head.time_text), shown);
        }
        self.state = State::Text(line);
    }

    fn take_text<'a>(&mut self, line: Line, bytes: &'a [u8], shown: &mut Vec<u8>) -> &'a [u8] {
        let end = position(bytes, b'\n');
        let text = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default();
        if line.shown {
            self.show(text, shown);
        }
        let line = Line { started: line.started || !text.is_empty(), ..line };
        let Some(end) = end else {
            self.state = State::Text(line);
            return &[];
        };
        if line.shown && !line.partial {
            self.show(b"\n", shown);
        }
        self.end_line(line, !line.partial);
        rest(bytes, end + 1)
    }

    fn end_line(&mut self, line: Line, complete: bool) {
        self.fresh = complete || !line.started;
        self.lines_left = self.lines_left.saturating_sub(u64::from(self.lines_left != u64::MAX));
        self.state = State::Head;
    }

    fn show(&mut self, text: &[u8], shown: &mut Vec<u8>) {
        let most = usize::try_from(self.bytes_left).unwrap_or(usize::MAX).min(text.len());
        let text = text.get(..most).unwrap_or_default();
        shown.extend_from_slice(text);
        self.bytes_left = self.bytes_left.saturating_sub(u64::try_from(text.len()).unwrap_or(u64::MAX));
    }
}

fn read_head(head: &[u8]) -> Option<Head<'_>> {
    let mut words = head.split(|byte| *byte == b' ');
    let (time_text, stream, tags) = (words.next()?, words.next()?, words.next()?);
    let stream = match stream {
        b"stdout" => LogStreams::Stdout,
        b"stderr" => LogStreams::Stderr,
        _ => return None,
    };
    let partial = tags.split(|byte| *byte == b':').next() == Some(b"P".as_slice());
    Some(Head { time_text, time: read_time(time_text)?, stream, partial })
}

fn read_time(text: &[u8]) -> Option<Timestamp> {
    // Accepts only the form of RFC 3339 that runtimes write.
    let shape = text.len() >= 20
        && text.get(4) == Some(&b'-')
        && text.get(10) == Some(&b'T')
        && text.iter().all(|byte| byte.is_ascii_digit() || b"-:T.Z+".contains(byte));
    let time: jiff::Timestamp = std::str::from_utf8(text).ok().filter(|_| shape)?.parse().ok()?;
    i64::try_from(time.as_nanosecond()).ok().map(Timestamp::from_nanos)
}

/// The time with all digits, in its original time zone, and a blank.
fn shown_time(text: &[u8]) -> Vec<u8> {
    let seconds = text.get(..19).unwrap_or(text);
    let after = text.get(19..).unwrap_or_default();
    let (fraction, zone) = match after.split_first() {
        Some((b'.', after)) => {
            let digits = after.iter().take_while(|byte| byte.is_ascii_digit()).count();
            after.split_at_checked(digits).unwrap_or((after, &[]))
        }
        _ => (&[][..], after),
    };
    let mut shown = seconds.to_vec();
    shown.push(b'.');
    shown.extend(fraction.iter().chain(std::iter::repeat(&b'0')).take(FRACTION_DIGITS));
    shown.extend_from_slice(zone);
    shown.push(b' ');
    shown
}

fn position(bytes: &[u8], needle: u8) -> Option<usize> {
    bytes.iter().position(|byte| *byte == needle)
}

fn rest(bytes: &[u8], from: usize) -> &[u8] {
    bytes.get(from..).unwrap_or_default()
}

#[cfg(test)]
mod tests;
