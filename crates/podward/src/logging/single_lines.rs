//! Keeps each log event on one line.

use std::io::{self, Write};

use tracing_subscriber::fmt::MakeWriter;

/// Escapes line breaks and other control characters within an event. Output of containers, errors of the runtime and
/// answers of the API server may contain them, and a reader of the log would take each line for an event.
pub(super) struct SingleLines<M>(pub(super) M);

impl<'a, M: MakeWriter<'a>> MakeWriter<'a> for SingleLines<M> {
    type Writer = SingleLineWriter<M::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        SingleLineWriter(self.0.make_writer())
    }
}

/// Relies on the formatter, which writes each event with one call.
pub(super) struct SingleLineWriter<W>(W);

impl<W: Write> Write for SingleLineWriter<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        self.write_all(event).map(|()| event.len())
    }

    fn write_all(&mut self, event: &[u8]) -> io::Result<()> {
        let text = String::from_utf8_lossy(event);
        let line = text.strip_suffix('\n').unwrap_or(&text);
        if !line.contains(breaks_line) {
            return self.0.write_all(event);
        }
        let mut escaped = String::with_capacity(event.len() + 16);
        for character in line.chars() {
            if breaks_line(character) {
                escaped.extend(character.escape_default());
            } else {
                escaped.push(character);
            }
        }
        escaped.push('\n');
        self.0.write_all(escaped.as_bytes())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Escape characters are the formatter's colors; it escapes those in values.
fn breaks_line(character: char) -> bool {
    (character.is_control() && !matches!(character, '\t' | '\x1b'))
        || matches!(character, '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(log: impl FnOnce()) -> String {
        let lines = Lines::default();
        let writer = lines.clone();
        let layer = tracing_subscriber::fmt::layer()
            .with_writer(SingleLines(move || writer.clone()))
            .with_ansi(false)
            .without_time()
            .with_target(false);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), log);
        String::from_utf8(lines.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn each_event_is_one_line() {
        let output = "not\nwell\r\n\u{2028}\u{b}\ttab";
        let text = logged(|| {
            let span = tracing::info_span!("sync", pod = %"a\nb");
            let _entered = span.enter();
            tracing::warn!(%output, "probe failed: {output}");
            tracing::info!("plain");
        });
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        let escaped = "not\\nwell\\r\\n\\u{2028}\\u{b}\ttab";
        let expected = format!(" WARN sync{{pod=a\\nb}}: probe failed: {escaped} output={escaped}");
        assert_eq!(lines, [expected.as_str(), " INFO sync{pod=a\\nb}: plain"]);
    }

    #[test]
    fn colors_are_kept() {
        let mut written = Vec::new();
        SingleLineWriter(&mut written).write_all(b"\x1b[33m WARN\x1b[0m a\nb\n").unwrap();
        assert_eq!(written, b"\x1b[33m WARN\x1b[0m a\\nb\n");
    }
}
