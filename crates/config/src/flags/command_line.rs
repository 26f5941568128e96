//! Parses arguments into flags and their values.

use serde_json::Value;

use super::{
    Status, Target,
    table::{self, FlagSpec},
};
use crate::suggestion;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FlagError {
    #[error("unknown flag {flag}{}", .near.map(|near| format!("; did you mean --{near}?")).unwrap_or_default())]
    Unknown {
        /// As written on the command line.
        flag: String,
        /// The most similar known flag.
        near: Option<&'static str>,
    },
    /// The last argument is a flag that requires a value.
    #[error("flag {0} requires a value")]
    NoValue(String),
    #[error("flag --{name}: {reason}")]
    Value { name: &'static str, reason: String },
    /// An argument that is neither a flag nor the value of a flag.
    #[error("unexpected argument {0:?}; all settings are given as flags")]
    Positional(String),
}

/// The flags of a command line. A flag that is used several times occurs once, with the combined value.
#[derive(Debug)]
pub(crate) struct CommandLine {
    used: Vec<UsedFlag>,
}

#[derive(Debug)]
pub(crate) struct UsedFlag {
    pub(crate) flag: &'static FlagSpec,
    pub(crate) value: Option<Value>,
    raw_values: Vec<String>,
}

impl CommandLine {
    /// Parses the arguments after the program's name.
    pub(crate) fn parse(args: &[String]) -> Result<Self, FlagError> {
        let mut line = Self { used: Vec::new() };
        let mut positional = None;
        let mut rest = args.iter();
        while let Some(arg) = rest.next() {
            if arg == "--" {
                positional = positional.or_else(|| rest.next());
                break;
            } else if let Some(long) = arg.strip_prefix("--") {
                line.parse_long(arg, long, &mut rest)?;
            } else if let Some(short) = arg.strip_prefix('-').filter(|short| !short.is_empty()) {
                line.parse_short(arg, short, &mut rest)?;
            } else {
                positional = positional.or(Some(arg));
            }
        }
        for used in &mut line.used {
            let value = used.flag.kind.to_json(&used.raw_values);
            used.value = value.map_err(|reason| FlagError::Value { name: used.flag.name, reason })?;
        }
        match positional {
            Some(argument) => Err(FlagError::Positional(argument.clone())),
            None => Ok(line),
        }
    }

    /// The flags that were used, in order of first use.
    pub(crate) fn used(&self) -> impl Iterator<Item = &UsedFlag> {
        self.used.iter()
    }

    pub(crate) fn value(&self, name: &str) -> Option<&Value> {
        self.used.iter().find(|used| used.flag.name == name).and_then(|used| used.value.as_ref())
    }

    /// The values of a flag as written on the command line, if it was used.
    pub(crate) fn raw_values(&self, name: &str) -> Option<&[String]> {
        self.used.iter().find(|used| used.flag.name == name).map(|used| used.raw_values.as_slice())
    }

    /// Notices about used flags that are deprecated or have no effect.
    pub(crate) fn notices(&self) -> Vec<String> {
        self.used.iter().filter_map(|used| notice(used.flag)).collect()
    }

    fn parse_long<'a>(
        &mut self,
        arg: &str,
        long: &str,
        rest: &mut impl Iterator<Item = &'a String>,
    ) -> Result<(), FlagError> {
        let (name, value) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (long, None),
        };
        let as_written = arg.split('=').next().unwrap_or(arg);
        let name = name.replace('_', "-");
        let Some(flag) = table::find(&name) else { return Err(unknown(as_written, &name)) };
        let value = match (value, flag.kind.value_if_omitted()) {
            (Some(value), _) => value.to_owned(),
            (None, Some(default)) => default.to_owned(),
            (None, None) => rest.next().ok_or_else(|| FlagError::NoValue(as_written.to_owned()))?.clone(),
        };
        self.record(flag, value);
        Ok(())
    }

    /// Parses one-letter flags after a single dash; the last one may have a value (`-v=4`, `-v4`, `-v 4`).
    fn parse_short<'a>(
        &mut self,
        arg: &str,
        short: &str,
        rest: &mut impl Iterator<Item = &'a String>,
    ) -> Result<(), FlagError> {
        let mut letters = short.chars();
        while let Some(letter) = letters.next() {
            let Some(flag) = table::all().find(|flag| flag.short == Some(letter)) else {
                let name = short.split('=').next().unwrap_or(short).replace('_', "-");
                return Err(unknown(arg, &name));
            };
            let after = letters.as_str();
            let value = match (after.strip_prefix('='), flag.kind.value_if_omitted()) {
                (Some(value), _) => value.to_owned(),
                (None, Some(default)) => {
                    self.record(flag, default.to_owned());
                    continue;
                }
                (None, None) if !after.is_empty() => after.to_owned(),
                (None, None) => rest.next().ok_or_else(|| FlagError::NoValue(format!("-{letter}")))?.clone(),
            };
            self.record(flag, value);
            return Ok(());
        }
        Ok(())
    }

    fn record(&mut self, flag: &'static FlagSpec, text: String) {
        match self.used.iter_mut().find(|used| used.flag.name == flag.name) {
            Some(used) => used.raw_values.push(text),
            None => self.used.push(UsedFlag { flag, value: None, raw_values: vec![text] }),
        }
    }
}

fn unknown(as_written: &str, name: &str) -> FlagError {
    FlagError::Unknown { flag: as_written.to_owned(), near: suggestion::nearest(name, table::flag_names()) }
}

fn notice(flag: &FlagSpec) -> Option<String> {
    let name = flag.name;
    match (flag.status, flag.target) {
        (Status::Current, _) => None,
        (Status::PreferFile, Target::Field(field)) => Some(format!(
            "flag --{name} is deprecated: set {field} in the configuration file (--config) instead"
        )),
        (Status::PreferFile, Target::FlagOnly(_) | Target::Ignored(_)) => None,
        (Status::Deprecated(notice), _) => Some(format!("flag --{name} is deprecated: {notice}")),
        (Status::NoEffect(reason), _) => Some(format!("flag --{name} has no effect: {reason}")),
    }
}
