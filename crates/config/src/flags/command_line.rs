//! Arguments into flags and their values.

use serde_json::Value;

use super::{
    Status, Target,
    table::{self, FlagSpec},
};
use crate::suggestion;

/// The command line cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FlagError {
    /// No such flag.
    #[error("unknown flag {flag}{}", .near.map(|near| format!("; did you mean --{near}?")).unwrap_or_default())]
    Unknown {
        /// The flag as it was written.
        flag: String,
        /// The known flag it looks like.
        near: Option<&'static str>,
    },
    /// The flag stands last and needs a value.
    #[error("flag {0} needs a value")]
    NoValue(String),
    /// The value does not fit the flag.
    #[error("flag --{name}: {reason}")]
    Value {
        /// The flag.
        name: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// A word that is neither a flag nor a flag's value.
    #[error("unknown command {0:?}")]
    Positional(String),
}

/// The flags of a command line, each with the value that all its uses add up to.
#[derive(Debug)]
pub(crate) struct CommandLine {
    used: Vec<Used>,
}

/// A flag that was used.
#[derive(Debug)]
pub(crate) struct Used {
    pub(crate) flag: &'static FlagSpec,
    pub(crate) value: Option<Value>,
    texts: Vec<String>,
}

impl CommandLine {
    /// Reads the arguments after the program's name.
    pub(crate) fn parse(args: &[String]) -> Result<Self, FlagError> {
        let mut line = Self { used: Vec::new() };
        let mut positional = None;
        let mut rest = args.iter();
        while let Some(arg) = rest.next() {
            if arg == "--" {
                positional = positional.or_else(|| rest.next());
                break;
            } else if let Some(long) = arg.strip_prefix("--") {
                line.long(arg, long, &mut rest)?;
            } else if let Some(short) = arg.strip_prefix('-').filter(|short| !short.is_empty()) {
                line.short(arg, short, &mut rest)?;
            } else {
                positional = positional.or(Some(arg));
            }
        }
        for used in &mut line.used {
            let value = used.flag.kind.to_json(&used.texts);
            used.value = value.map_err(|reason| FlagError::Value { name: used.flag.name, reason })?;
        }
        match positional {
            Some(word) => Err(FlagError::Positional(word.clone())),
            None => Ok(line),
        }
    }

    /// The flags that were used, in order of first use.
    pub(crate) fn used(&self) -> impl Iterator<Item = &Used> {
        self.used.iter()
    }

    /// The value of a flag that was used.
    pub(crate) fn value(&self, name: &str) -> Option<&Value> {
        self.used.iter().find(|used| used.flag.name == name).and_then(|used| used.value.as_ref())
    }

    /// What was written for a flag that was used.
    pub(crate) fn texts(&self, name: &str) -> Option<&[String]> {
        self.used.iter().find(|used| used.flag.name == name).map(|used| used.texts.as_slice())
    }

    /// What is to be said about flags that should not be used any more.
    pub(crate) fn notices(&self) -> Vec<String> {
        self.used.iter().filter_map(|used| notice(used.flag)).collect()
    }

    fn long<'a>(
        &mut self,
        arg: &str,
        long: &str,
        rest: &mut impl Iterator<Item = &'a String>,
    ) -> Result<(), FlagError> {
        let (name, value) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (long, None),
        };
        let written = arg.split('=').next().unwrap_or(arg);
        let name = name.replace('_', "-");
        let Some(flag) = table::find(&name) else { return Err(unknown(written, &name)) };
        let value = match (value, flag.kind.value_if_bare()) {
            (Some(value), _) => value.to_owned(),
            (None, Some(bare)) => bare.to_owned(),
            (None, None) => rest.next().ok_or_else(|| FlagError::NoValue(written.to_owned()))?.clone(),
        };
        self.note(flag, value);
        Ok(())
    }

    /// One dash: letters, of which the last may carry a value (`-v=4`, `-v4`, `-v 4`).
    fn short<'a>(
        &mut self,
        arg: &str,
        short: &str,
        rest: &mut impl Iterator<Item = &'a String>,
    ) -> Result<(), FlagError> {
        let mut letters = short.chars();
        while let Some(letter) = letters.next() {
            let Some(flag) = table::all().find(|flag| flag.short == Some(letter)) else {
                let word = short.split('=').next().unwrap_or(short).replace('_', "-");
                return Err(unknown(arg, &word));
            };
            let after = letters.as_str();
            let value = match (after.strip_prefix('='), flag.kind.value_if_bare()) {
                (Some(value), _) => value.to_owned(),
                (None, Some(bare)) => {
                    self.note(flag, bare.to_owned());
                    continue;
                }
                (None, None) if !after.is_empty() => after.to_owned(),
                (None, None) => rest.next().ok_or_else(|| FlagError::NoValue(format!("-{letter}")))?.clone(),
            };
            self.note(flag, value);
            return Ok(());
        }
        Ok(())
    }

    fn note(&mut self, flag: &'static FlagSpec, text: String) {
        match self.used.iter_mut().find(|used| used.flag.name == flag.name) {
            Some(used) => used.texts.push(text),
            None => self.used.push(Used { flag, value: None, texts: vec![text] }),
        }
    }
}

fn unknown(written: &str, name: &str) -> FlagError {
    FlagError::Unknown { flag: written.to_owned(), near: suggestion::nearest(name, table::flag_names()) }
}

fn notice(flag: &FlagSpec) -> Option<String> {
    let name = flag.name;
    match (flag.status, flag.target) {
        (Status::Current, _) => None,
        (Status::PreferFile, Target::Field(field)) => {
            Some(format!("flag --{name} is deprecated: set {field} in the file given with --config"))
        }
        (Status::PreferFile, Target::Own(_) | Target::Nothing(_)) => None,
        (Status::Deprecated(why), _) => Some(format!("flag --{name} is deprecated: {why}")),
        (Status::Idle(why), _) => Some(format!("flag --{name} has no effect: {why}")),
    }
}
