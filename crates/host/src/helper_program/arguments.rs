//! Arguments of a program of the host.
//!
//! Values from pods and from the API server must not become options of the program: `mount -obind …` would mount any
//! folder of the host into a pod. The type accepts such a value only as the value of an option or as an operand.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// Ends the options for programs that parse with `getopt`.
const END_OF_OPTIONS: &str = "--";

/// Arguments in their order. An unsafe value is refused when the program would start.
#[derive(Clone, Debug, Default)]
pub(crate) struct Arguments {
    list: Vec<OsString>,
    refusal: Option<String>,
}

impl Arguments {
    /// Starts with fixed words.
    pub(crate) fn new(words: &[&'static str]) -> Self {
        Self::default().words(words)
    }

    pub(crate) fn words(mut self, words: &[&'static str]) -> Self {
        self.list.extend(words.iter().map(OsString::from));
        self
    }

    /// An option that requires a value, so that the program takes the next argument as it is.
    pub(crate) fn value(mut self, option: &'static str, value: impl Into<OsString>) -> Self {
        let value = value.into();
        self.refuse_control_characters(&value);
        self.list.extend([option.into(), value]);
        self
    }

    /// Operands after `--`.
    pub(crate) fn operands(mut self, values: impl IntoIterator<Item = OsString>) -> Self {
        self.list.push(END_OF_OPTIONS.into());
        values.into_iter().fold(self, Self::operand)
    }

    /// An operand of a program that does not know `--`.
    pub(crate) fn operand(mut self, value: impl Into<OsString>) -> Self {
        let value = value.into();
        self.refuse_control_characters(&value);
        if value.as_bytes().starts_with(b"-") {
            self.refuse(format!("argument {value:?} begins with a dash"));
        }
        self.list.push(value);
        self
    }

    /// The arguments for the program, or why it must not run.
    pub(super) fn accepted(&self) -> Result<&[OsString], &str> {
        self.refusal.as_deref().map_or(Ok(&self.list), Err)
    }

    /// The arguments for messages. Without `--`, like upstream's messages.
    pub(crate) fn shown(&self) -> String {
        let shown = self.list.iter().filter(|argument| *argument != END_OF_OPTIONS);
        shown.map(|argument| argument.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    /// A line break in a value would add a line to the files in which programs keep their settings.
    fn refuse_control_characters(&mut self, value: &OsStr) {
        if value.as_bytes().iter().any(u8::is_ascii_control) {
            self.refuse("argument contains control characters".to_owned());
        }
    }

    fn refuse(&mut self, reason: String) {
        self.refusal.get_or_insert(reason);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outside_values_follow_the_end_of_options_or_their_option() {
        let arguments = Arguments::new(&["-t", "nfs"])
            .value("-o", "-evil")
            .operands(["nas:/export".into(), "/target".into()]);
        let expected = ["-t", "nfs", "-o", "-evil", "--", "nas:/export", "/target"].map(OsString::from);
        assert_eq!(arguments.accepted(), Ok(&expected[..]));
        assert_eq!(arguments.shown(), "-t nfs -o -evil nas:/export /target");
    }

    #[test]
    fn options_in_place_of_operands_and_control_characters_are_refused() {
        let with_operand = |value: &str| Arguments::new(&["-a"]).operand(value);
        for hostile in ["-obind", "--bind", "-", "--", "/x\n/y", "a\0b", "\u{1b}[2J", "x\u{7f}"] {
            assert!(with_operand(hostile).accepted().is_err(), "{hostile:?}");
            let after_dashes = Arguments::default().operands([hostile.into(), "/target".into()]);
            assert!(after_dashes.accepted().is_err(), "{hostile:?}");
        }
        assert!(Arguments::default().value("-v", "a\nnode.startup = automatic").accepted().is_err());
        for harmless in ["", "/dev/sda", "$(id)", "; rm", "{\"a\":\"-b\"}", "päth"] {
            assert!(with_operand(harmless).accepted().is_ok(), "{harmless:?}");
        }
    }
}
