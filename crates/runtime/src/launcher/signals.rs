//! Numbers of signals.

/// Names by number, for the architectures with the common numbering.
const NAMES: &[(&str, i32)] = &[
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("ILL", 4),
    ("TRAP", 5),
    ("ABRT", 6),
    ("IOT", 6),
    ("BUS", 7),
    ("FPE", 8),
    ("KILL", 9),
    ("USR1", 10),
    ("SEGV", 11),
    ("USR2", 12),
    ("PIPE", 13),
    ("ALRM", 14),
    ("TERM", 15),
    ("STKFLT", 16),
    ("CHLD", 17),
    ("CLD", 17),
    ("CONT", 18),
    ("STOP", 19),
    ("TSTP", 20),
    ("TTIN", 21),
    ("TTOU", 22),
    ("URG", 23),
    ("XCPU", 24),
    ("XFSZ", 25),
    ("VTALRM", 26),
    ("PROF", 27),
    ("WINCH", 28),
    ("IO", 29),
    ("POLL", 29),
    ("PWR", 30),
    ("SYS", 31),
];
/// The C library hides two real-time signals, so programs count from here.
const REAL_TIME_FIRST: i32 = 34;
const LAST: i32 = 64;

/// The number of a signal: a name with or without `SIG`, `RTMIN+n`, `RTMAX-n`, or a number.
#[must_use]
pub fn signal_number(text: &str) -> Option<i32> {
    let text = text.trim().to_ascii_uppercase();
    if let Ok(number) = text.parse::<i32>() {
        return (1..=LAST).contains(&number).then_some(number);
    }
    let name = text.strip_prefix("SIG").unwrap_or(&text);
    if let Some((_, number)) = NAMES.iter().find(|(known, _)| *known == name) {
        return Some(*number);
    }
    let offset = |rest: &str, sign: char| -> Option<i32> {
        if rest.is_empty() { Some(0) } else { rest.strip_prefix(sign)?.parse().ok() }
    };
    let number = if let Some(rest) = name.strip_prefix("RTMIN") {
        REAL_TIME_FIRST.checked_add(offset(rest, '+')?)?
    } else {
        LAST.checked_sub(offset(name.strip_prefix("RTMAX")?, '-')?)?
    };
    (REAL_TIME_FIRST..=LAST).contains(&number).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_read() {
        for (text, expected) in [
            ("SIGTERM", Some(15)),
            ("term", Some(15)),
            ("9", Some(9)),
            ("RTMIN+3", Some(37)),
            ("SIGRTMAX-1", Some(63)),
            ("SIGRTMIN", Some(34)),
            ("0", None),
            ("65", None),
            ("RTMIN+31", None),
            ("RTMAX-31", None),
            ("SIGNOTHING", None),
            ("", None),
        ] {
            assert_eq!(signal_number(text), expected, "{text}");
        }
    }
}
