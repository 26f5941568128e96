//! Loads the configuration: defaults, file, drop-in files, flags, feature gates, validation.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use document::FieldPath;
use serde_json::Value;

use crate::{
    CgroupVersion, KubeletConfiguration, files,
    flags::{CommandLine, FlagKind, Flags, Target, flag_values},
    gates::FeatureGates,
    merge::{merge_patch, value_at_path},
    problem::{LoadError, Problem},
    sources::{Sources, parse_document},
    support::subfields_without_effect,
    validate,
};

/// Facts about the process and the host that loading depends on.
#[derive(Debug, Clone)]
pub struct Environment {
    /// Base of relative paths on the command line.
    pub working_directory: PathBuf,
    pub cgroup: CgroupVersion,
}

/// The action that the command line requests.
#[derive(Debug)]
pub enum Invocation {
    Help,
    Version(VersionFormat),
    Run(Box<LoadedConfig>),
}

/// The value of `--version`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionFormat {
    Plain,
    Raw,
}

#[derive(Debug, Clone)]
pub struct LoadedConfig {
    pub config: KubeletConfiguration,
    pub flags: Flags,
    pub gates: FeatureGates,
    /// Warnings for the operator, to be logged once.
    pub notices: Vec<String>,
    /// Top-level fields that a file or a flag sets.
    pub set_fields: BTreeSet<String>,
    /// The value of every flag on the command line, or its default.
    pub flag_values: BTreeMap<String, String>,
}

impl LoadedConfig {
    /// Whether containers without a seccomp profile use `RuntimeDefault`. Either the flag or the field enables it.
    pub fn seccomp_default(&self) -> bool {
        self.flags.seccomp_default || self.config.pods.seccomp_default
    }
}

/// Parses the arguments after the program's name and loads the configuration files they refer to.
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
    let flags = Flags::from_command_line(&line);
    let mut loader = Loader { sources: Sources::default(), problems: Vec::new(), notices: line.notices() };
    loader.problems.extend(validate::check_flags(&flags));
    let config = loader.load_config(&line, &flags, environment)?;
    let (config, gates) = loader.check(config, environment.cgroup)?;
    let set_fields = loader.sources.set_fields();
    loader.notices.extend(subfields_without_effect(&config));
    let (notices, flag_values) = (loader.notices, flag_values(&line));
    Ok(Invocation::Run(Box::new(LoadedConfig { config, flags, gates, notices, set_fields, flag_values })))
}

/// Parses one configuration file, applies the defaults and checks all rules that do not depend on the host.
pub fn parse_config(text: &[u8]) -> Result<KubeletConfiguration, LoadError> {
    let path = Path::new("configuration");
    let mut loader = Loader { sources: Sources::default(), problems: Vec::new(), notices: Vec::new() };
    let config = loader.load_main_file(path, text, &BTreeMap::new());
    loader.check(config, CgroupVersion::Unknown).map(|(config, _)| config)
}

struct Loader {
    sources: Sources,
    problems: Vec<Problem>,
    notices: Vec<String>,
}

impl Loader {
    fn load_config(
        &mut self,
        line: &CommandLine,
        flags: &Flags,
        environment: &Environment,
    ) -> Result<KubeletConfiguration, LoadError> {
        let flag_gates = gates_from_flags(line);
        let mut config = match &flags.config {
            Some(path) => {
                let path = environment.working_directory.join(path);
                self.load_main_file(&path, &files::read(&path)?, &flag_gates)
            }
            None => KubeletConfiguration::legacy_defaults(),
        };
        if let Some(directory) = &flags.config_dir {
            config =
                self.load_drop_ins(config, &environment.working_directory.join(directory), &flag_gates)?;
        }
        self.sources.add_flags(line);
        Ok(self.apply_flags(config, line))
    }

    /// Loads the configuration file, applies its defaults and resolves its relative paths.
    fn load_main_file(
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
        let (mut config, errors) = KubeletConfiguration::decode(&document);
        self.problems.extend(errors.into_iter().map(|error| Problem::of_field(path, error)));
        config.apply_defaults(&resolve_gates(&config, flag_gates));
        config.reservations.apply_default_thresholds();
        resolve_paths(&mut config, path.parent().unwrap_or(Path::new("/")));
        self.sources.add_file(path, document);
        config
    }

    fn load_drop_ins(
        &mut self,
        config: KubeletConfiguration,
        directory: &Path,
        flag_gates: &BTreeMap<String, bool>,
    ) -> Result<KubeletConfiguration, LoadError> {
        let found = files::drop_ins(directory)?;
        for path in found.skipped {
            self.notices.push(format!("{}: ignored, because its name does not end in .conf", path.display()));
        }
        let mut json = config.to_json();
        for path in found.applied {
            self.apply_drop_in(&mut json, &path)?;
        }
        let mut config = match KubeletConfiguration::from_json(&json) {
            Ok(merged) => merged,
            // Every drop-in file was valid on its own, so this is unexpected. Continuing without them would be worse.
            Err(error) => {
                let reason = format!("the combination of all drop-in files is invalid: {error}");
                self.problems.push(Problem::in_file(directory, None, FieldPath::root(), reason));
                config
            }
        };
        config.apply_defaults(&resolve_gates(&config, flag_gates));
        Ok(config)
    }

    fn apply_drop_in(&mut self, json: &mut Value, path: &Path) -> Result<(), LoadError> {
        let document = match parse_document(path, &files::read(path)?) {
            Ok(document) => document,
            Err(problems) => {
                self.problems.extend(problems);
                return Ok(());
            }
        };
        let (_, errors) = KubeletConfiguration::decode(&document);
        if errors.is_empty() {
            merge_patch(json, document.value());
        }
        self.problems.extend(errors.into_iter().map(|error| Problem::of_field(path, error)));
        self.sources.add_file(path, document);
        Ok(())
    }

    /// Applies the flags one by one, so that an invalid value is attributed to its flag.
    fn apply_flags(&mut self, mut config: KubeletConfiguration, line: &CommandLine) -> KubeletConfiguration {
        for used in line.used() {
            let (Target::Field(field), Some(value)) = (used.flag.target, &used.value) else { continue };
            let mut json = config.to_json();
            apply_flag_value(value_at_path(&mut json, field), value, used.flag.kind);
            match KubeletConfiguration::from_json(&json) {
                Ok(next) => config = next,
                Err(error) => self.problems.push(Problem::of_flag(used.flag.name, error.to_string())),
            }
        }
        config
    }

    /// Resolves the feature gates and checks all rules. Returns all problems found so far together.
    fn check(
        &mut self,
        config: KubeletConfiguration,
        cgroup: CgroupVersion,
    ) -> Result<(KubeletConfiguration, FeatureGates), LoadError> {
        let resolved = FeatureGates::resolve(&config.api_client.feature_gates);
        for error in resolved.errors {
            let field = FieldPath::root().key("featureGates").key(error.name());
            self.problems.push(self.sources.problem(field, error.to_string()));
        }
        self.notices.extend(resolved.notices);
        for violation in validate::check_configuration(&config, &resolved.gates, cgroup) {
            let problem = self.sources.problem(violation.path, violation.reason);
            self.problems.push(problem);
        }
        if self.problems.is_empty() {
            return Ok((config, resolved.gates));
        }
        Err(LoadError::Invalid { problems: std::mem::take(&mut self.problems) })
    }
}

/// Feature gates are merged and vmodule patterns appended; every other flag replaces the value of the file.
fn apply_flag_value(target: &mut Value, value: &Value, kind: FlagKind) {
    match (kind, target, value) {
        (FlagKind::Gates, Value::Object(gates), Value::Object(more)) => gates.extend(more.clone()),
        (FlagKind::Vmodule, Value::Array(items), Value::Array(more)) => items.extend(more.iter().cloned()),
        (_, target, value) => *target = value.clone(),
    }
}

fn gates_from_flags(line: &CommandLine) -> BTreeMap<String, bool> {
    let settings = line.value("feature-gates").and_then(Value::as_object).into_iter().flatten();
    settings.filter_map(|(name, on)| Some((name.clone(), on.as_bool()?))).collect()
}

/// The gates that apply while defaults are filled in. Invalid settings are reported later.
fn resolve_gates(config: &KubeletConfiguration, flag_gates: &BTreeMap<String, bool>) -> FeatureGates {
    let mut settings = config.api_client.feature_gates.clone();
    settings.extend(flag_gates.clone());
    FeatureGates::resolve(&settings).gates
}

/// Resolves relative paths in the configuration file against its directory.
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
