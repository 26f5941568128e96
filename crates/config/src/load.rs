//! From arguments to a checked configuration: defaults, file, drop-ins, flags, gates, rules.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::{
    CgroupVersion, KubeletConfiguration, files,
    flags::{CommandLine, FlagKind, Flags, Target, flag_values},
    gates::FeatureGates,
    merge::{at_path, merge_patch},
    problem::{LoadError, Origin, Problem},
    sources::{Sources, parse_document},
    support::partly_without_effect,
    validate,
};

/// What loading needs to know about its surroundings.
#[derive(Debug, Clone)]
pub struct Environment {
    /// The directory relative paths on the command line start at.
    pub working_directory: PathBuf,
    /// The cgroup hierarchy of the host.
    pub cgroup: CgroupVersion,
}

/// What the command line asks for.
#[derive(Debug)]
pub enum Invocation {
    /// Print the help text and exit.
    Help,
    /// Print the version and exit.
    Version(VersionFormat),
    /// Run with this configuration.
    Run(Box<Loaded>),
}

/// How much `--version` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionFormat {
    /// One line.
    Plain,
    /// All there is to say.
    Raw,
}

/// A configuration to run with.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The effective configuration.
    pub config: KubeletConfiguration,
    /// The values only flags can set.
    pub flags: Flags,
    /// The features that are on.
    pub gates: FeatureGates,
    /// What the operator should know; to be logged once.
    pub notices: Vec<String>,
    /// The top-level fields that a file or flag sets.
    pub set_fields: BTreeSet<String>,
    /// Every flag with its value on the command line, or its default.
    pub flag_values: BTreeMap<String, String>,
}

impl Loaded {
    /// Whether containers without a seccomp profile get the runtime's: the flag or the field says so.
    pub fn seccomp_default(&self) -> bool {
        self.flags.seccomp_default || self.config.pods.seccomp_default
    }
}

/// Reads the arguments after the program's name, and the files they name.
pub fn load(args: &[String], environment: &Environment) -> Result<Invocation, LoadError> {
    let line = CommandLine::parse(args)?;
    if line.value("help") == Some(&Value::Bool(true)) {
        return Ok(Invocation::Help);
    }
    match line.value("version").and_then(Value::as_str) {
        Some("true") => return Ok(Invocation::Version(VersionFormat::Plain)),
        Some("raw") => return Ok(Invocation::Version(VersionFormat::Raw)),
        Some(_) | None => {}
    }
    let flags = Flags::from_line(&line);
    let mut loader = Loader { sources: Sources::default(), problems: Vec::new(), notices: line.notices() };
    for finding in validate::flags(&flags) {
        let origin = Origin::Flag(finding.flag);
        loader.problems.push(Problem { origin, field: document::FieldPath::root(), reason: finding.reason });
    }
    let config = loader.config(&line, &flags, environment)?;
    let (config, gates) = loader.check(config, environment.cgroup)?;
    let set_fields = loader.sources.set_fields();
    loader.notices.extend(partly_without_effect(&config));
    let (notices, flag_values) = (loader.notices, flag_values(&line));
    Ok(Invocation::Run(Box::new(Loaded { config, flags, gates, notices, set_fields, flag_values })))
}

/// Reads the text of one configuration file, with its defaults, and checks every rule that needs no host.
pub fn parse_config(text: &[u8]) -> Result<KubeletConfiguration, LoadError> {
    let path = Path::new("configuration");
    let mut loader = Loader { sources: Sources::default(), problems: Vec::new(), notices: Vec::new() };
    let config = loader.main_file(path, text, &BTreeMap::new());
    loader.check(config, CgroupVersion::Unknown).map(|(config, _)| config)
}

struct Loader {
    sources: Sources,
    problems: Vec<Problem>,
    notices: Vec<String>,
}

impl Loader {
    fn config(
        &mut self,
        line: &CommandLine,
        flags: &Flags,
        environment: &Environment,
    ) -> Result<KubeletConfiguration, LoadError> {
        let flag_gates = gate_settings(line);
        let mut config = match &flags.config {
            Some(path) => {
                let path = environment.working_directory.join(path);
                self.main_file(&path, &files::read(&path)?, &flag_gates)
            }
            None => KubeletConfiguration::legacy_defaults(),
        };
        if let Some(directory) = &flags.config_dir {
            config = self.drop_ins(config, &environment.working_directory.join(directory), &flag_gates)?;
        }
        self.sources.add_flags(line);
        Ok(self.apply_flags(config, line))
    }

    /// The configuration file, its defaults filled in and its relative paths resolved.
    fn main_file(
        &mut self,
        path: &Path,
        text: &[u8],
        flag_gates: &BTreeMap<String, bool>,
    ) -> KubeletConfiguration {
        let document = match parse_document(path, text) {
            Ok(document) => document,
            Err(problems) => {
                self.problems.extend(problems);
                return KubeletConfiguration::file_defaults();
            }
        };
        let (mut config, errors) = KubeletConfiguration::read(&document);
        self.problems.extend(errors.into_iter().map(|error| Problem {
            origin: Origin::File { path: path.to_owned(), position: error.position },
            field: error.path,
            reason: error.reason,
        }));
        config.complete(&gates_with(&config, flag_gates));
        config.reservations.inject_default_thresholds();
        resolve_paths(&mut config, path.parent().unwrap_or(Path::new("/")));
        self.sources.add_file(path, document);
        config
    }

    fn drop_ins(
        &mut self,
        config: KubeletConfiguration,
        directory: &Path,
        flag_gates: &BTreeMap<String, bool>,
    ) -> Result<KubeletConfiguration, LoadError> {
        let found = files::drop_ins(directory)?;
        for path in found.skipped {
            self.notices.push(format!("{}: skipped, drop-in files end in .conf", path.display()));
        }
        let mut json = config.to_json();
        for path in found.applied {
            self.drop_in(&mut json, &path)?;
        }
        let mut config = match KubeletConfiguration::from_json(&json) {
            Ok(merged) => merged,
            // Every patch was read on its own, so this should not be; to go on without all of them would be worse.
            Err(error) => {
                self.problems.push(Problem {
                    origin: Origin::File { path: directory.to_owned(), position: None },
                    field: document::FieldPath::root(),
                    reason: format!("what the drop-in files add up to cannot be read: {error}"),
                });
                config
            }
        };
        config.complete(&gates_with(&config, flag_gates));
        Ok(config)
    }

    fn drop_in(&mut self, json: &mut Value, path: &Path) -> Result<(), LoadError> {
        let document = match parse_document(path, &files::read(path)?) {
            Ok(document) => document,
            Err(problems) => {
                self.problems.extend(problems);
                return Ok(());
            }
        };
        let (_, errors) = KubeletConfiguration::read(&document);
        if errors.is_empty() {
            merge_patch(json, document.value());
        }
        self.problems.extend(errors.into_iter().map(|error| Problem {
            origin: Origin::File { path: path.to_owned(), position: error.position },
            field: error.path,
            reason: error.reason,
        }));
        self.sources.add_file(path, document);
        Ok(())
    }

    /// Puts the flags on top, one by one, so that a wrong value is blamed on its flag.
    fn apply_flags(&mut self, mut config: KubeletConfiguration, line: &CommandLine) -> KubeletConfiguration {
        for used in line.used() {
            let (Target::Field(field), Some(value)) = (used.flag.target, &used.value) else { continue };
            let mut json = config.to_json();
            overlay(at_path(&mut json, field), value, used.flag.kind);
            match KubeletConfiguration::from_json(&json) {
                Ok(next) => config = next,
                Err(error) => self.problems.push(Problem {
                    origin: Origin::Flag(used.flag.name),
                    field: document::FieldPath::root(),
                    reason: error.to_string(),
                }),
            }
        }
        config
    }

    /// Resolves the gates and checks every rule; all problems so far and from here are returned together.
    fn check(
        &mut self,
        config: KubeletConfiguration,
        cgroup: CgroupVersion,
    ) -> Result<(KubeletConfiguration, FeatureGates), LoadError> {
        let resolved = FeatureGates::resolve(&config.api_client.feature_gates);
        for error in resolved.errors {
            let field = document::FieldPath::root().key("featureGates").key(error.name());
            self.problems.push(self.sources.problem(field, error.to_string()));
        }
        self.notices.extend(resolved.notices);
        for finding in validate::configuration(&config, &resolved.gates, cgroup) {
            let problem = self.sources.problem(finding.path, finding.reason);
            self.problems.push(problem);
        }
        if self.problems.is_empty() {
            return Ok((config, resolved.gates));
        }
        Err(LoadError::Invalid { problems: std::mem::take(&mut self.problems) })
    }
}

/// Gates are set one by one and patterns add up; every other flag replaces what the file said.
fn overlay(target: &mut Value, value: &Value, kind: FlagKind) {
    match (kind, target, value) {
        (FlagKind::Gates, Value::Object(gates), Value::Object(more)) => gates.extend(more.clone()),
        (FlagKind::Vmodule, Value::Array(items), Value::Array(more)) => items.extend(more.iter().cloned()),
        (_, target, value) => *target = value.clone(),
    }
}

fn gate_settings(line: &CommandLine) -> BTreeMap<String, bool> {
    let settings = line.value("feature-gates").and_then(Value::as_object).into_iter().flatten();
    settings.filter_map(|(name, on)| Some((name.clone(), on.as_bool()?))).collect()
}

/// The gates that count while defaults are filled in; wrong settings are reported later.
fn gates_with(config: &KubeletConfiguration, flag_gates: &BTreeMap<String, bool>) -> FeatureGates {
    let mut settings = config.api_client.feature_gates.clone();
    settings.extend(flag_gates.clone());
    FeatureGates::resolve(&settings).gates
}

/// Relative paths in the configuration file start at its directory.
fn resolve_paths(config: &mut KubeletConfiguration, directory: &Path) {
    let paths = [
        &mut config.server.static_pod_path,
        &mut config.server.tls_cert_file,
        &mut config.server.tls_private_key_file,
        &mut config.server.pod_logs_dir,
        &mut config.access.authentication.x509.client_ca_file,
        &mut config.network.resolv_conf,
        &mut config.volumes.volume_plugin_dir,
    ];
    for path in paths {
        if !path.is_empty() && !path.starts_with('/') {
            *path = files::resolve(directory, path);
        }
    }
}

#[cfg(test)]
mod tests;
