//! Program, environment, directory and stop signal of a container, from its request and image.

use cri::v1::{ContainerConfig, KeyValue, Signal};

use crate::errors::ServiceError;
use crate::images::ImageConfig;
use crate::launcher::signals::signal_number;

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const DEFAULT_STOP_SIGNAL: &str = "SIGTERM";

/// Program and arguments. A command of the request replaces both parts of the image, arguments alone the second one.
pub(super) fn arguments(config: &ContainerConfig, image: &ImageConfig) -> Result<Vec<String>, ServiceError> {
    let image_entrypoint: &[String] = match image.entrypoint.as_slice() {
        [only] if only.is_empty() => &[],
        entrypoint => entrypoint,
    };
    let parts = match (config.command.is_empty(), config.args.is_empty()) {
        (false, _) => [config.command.as_slice(), config.args.as_slice()],
        (true, false) => [image_entrypoint, config.args.as_slice()],
        (true, true) => [image_entrypoint, image.command.as_slice()],
    };
    let arguments = parts.concat();
    if arguments.is_empty() {
        return Err(ServiceError::setting("command", "no command specified"));
    }
    if arguments.iter().any(|argument| argument.contains('\0')) {
        return Err(ServiceError::setting("command", "an argument contains a zero byte"));
    }
    Ok(arguments)
}

/// The environment: defaults, the image's, the request's. A later value replaces an earlier one in its place.
pub(super) fn environment(
    config: &ContainerConfig,
    image: &ImageConfig,
    additional: &[String],
    hostname: &str,
    home: &str,
) -> Result<Vec<String>, ServiceError> {
    let mut variables = Variables::default();
    variables.set("PATH", PATH);
    if config.tty {
        variables.set("TERM", "xterm");
    }
    variables.set("HOSTNAME", hostname);
    for entry in &image.env {
        match entry.split_once('=') {
            Some((name, value)) if !name.is_empty() => variables.set(name, value),
            // An entry without a value removes the variable.
            Some(_) | None => variables.remove(entry),
        }
    }
    for entry in additional {
        if let Some((name, value)) = entry.split_once('=') {
            variables.set(name, value);
        }
    }
    for KeyValue { key, value } in &config.envs {
        let value = std::str::from_utf8(value)
            .map_err(|_| ServiceError::setting("envs", format!("the value of {key:?} is not UTF-8")))?;
        if key.is_empty() || key.contains(['=', '\0']) || value.contains('\0') {
            return Err(ServiceError::setting("envs", format!("{key:?} is not a valid variable")));
        }
        variables.set(key, value);
    }
    if variables.get("HOME").is_none_or(str::is_empty) {
        variables.set("HOME", home);
    }
    Ok(variables.0.into_iter().map(|(name, value)| format!("{name}={value}")).collect())
}

#[derive(Default)]
struct Variables(Vec<(String, String)>);

impl Variables {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn set(&mut self, name: &str, value: &str) {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => value.clone_into(old),
            None => self.0.push((name.to_owned(), value.to_owned())),
        }
    }

    fn remove(&mut self, name: &str) {
        self.0.retain(|(known, _)| known != name);
    }
}

/// The working directory.
pub(super) fn directory(config: &ContainerConfig, image: &ImageConfig) -> Result<String, ServiceError> {
    let chosen = [&config.working_dir, &image.working_dir].into_iter().find(|path| !path.is_empty());
    let directory = chosen.map_or("/", String::as_str);
    if !directory.starts_with('/') || directory.contains('\0') {
        let problem = format!("{directory:?} is not an absolute path");
        return Err(ServiceError::setting("working_dir", problem));
    }
    Ok(super::mounts::clean(directory))
}

/// The name of the signal that asks the container to end.
pub(crate) fn stop_signal(config: &ContainerConfig, image: &ImageConfig) -> Result<String, ServiceError> {
    match Signal::try_from(config.stop_signal) {
        Ok(Signal::RuntimeDefault) => {}
        Ok(signal) => return Ok(signal.as_str_name().replace("PLUS", "+").replace("MINUS", "-")),
        Err(_) => {
            let problem = format!("unknown signal {}", config.stop_signal);
            return Err(ServiceError::setting("stop_signal", problem));
        }
    }
    let usable = signal_number(&image.stop_signal).is_some();
    Ok(if usable { image.stop_signal.clone() } else { DEFAULT_STOP_SIGNAL.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[&str]) -> Vec<String> {
        entries.iter().map(|entry| (*entry).to_owned()).collect()
    }

    fn image(entrypoint: &[&str], command: &[&str], env: &[&str]) -> ImageConfig {
        let (entrypoint, command, env) = (list(entrypoint), list(command), list(env));
        ImageConfig { entrypoint, command, env, ..ImageConfig::default() }
    }

    fn config(command: &[&str], args: &[&str]) -> ContainerConfig {
        ContainerConfig { command: list(command), args: list(args), ..ContainerConfig::default() }
    }

    #[test]
    fn command_of_the_request_replaces_that_of_the_image() {
        let both = image(&["e"], &["c"], &[]);
        for (command, args, expected) in [
            (&["x"][..], &["y"][..], &["x", "y"][..]),
            (&["x"], &[], &["x"]),
            (&[], &["y"], &["e", "y"]),
            (&[], &[], &["e", "c"]),
        ] {
            assert_eq!(arguments(&config(command, args), &both).unwrap(), expected);
        }
        assert_eq!(arguments(&config(&[], &[]), &image(&[""], &["c"], &[])).unwrap(), ["c"]);
        let error = arguments(&config(&[], &[]), &image(&[], &[], &[])).unwrap_err();
        assert!(error.to_string().contains("no command specified"));
    }

    #[test]
    fn later_variables_replace_earlier_ones_in_place() {
        let image = image(&[], &[], &["A=1", "PATH=/bin", "B=2", "A"]);
        let variable = |key: &str, value: &str| KeyValue { key: key.into(), value: value.into() };
        let config = ContainerConfig {
            tty: true,
            envs: vec![variable("B", "3"), variable("C", "x=y")],
            ..ContainerConfig::default()
        };
        let result = environment(&config, &image, &list(&["D=4"]), "host", "/home/u").unwrap();
        assert_eq!(
            result,
            ["PATH=/bin", "TERM=xterm", "HOSTNAME=host", "B=3", "D=4", "C=x=y", "HOME=/home/u"]
        );
    }

    #[test]
    fn invalid_variables_are_refused() {
        for (key, value) in [("", "x"), ("a=b", "x"), ("a", "x\0"), ("a\0", "x")] {
            let config = ContainerConfig {
                envs: vec![KeyValue { key: key.into(), value: value.into() }],
                ..ContainerConfig::default()
            };
            assert!(environment(&config, &ImageConfig::default(), &[], "", "/").is_err(), "{key:?}");
        }
    }

    #[test]
    fn stop_signal_of_the_request_wins_and_an_unusable_one_becomes_sigterm() {
        let with = |signal: &str| ImageConfig { stop_signal: signal.into(), ..ImageConfig::default() };
        let request =
            ContainerConfig { stop_signal: Signal::Sigrtminplus1.into(), ..ContainerConfig::default() };
        assert_eq!(stop_signal(&request, &with("SIGUSR1")).unwrap(), "SIGRTMIN+1");
        let none = ContainerConfig::default();
        assert_eq!(stop_signal(&none, &with("SIGUSR1")).unwrap(), "SIGUSR1");
        assert_eq!(stop_signal(&none, &with("what")).unwrap(), "SIGTERM");
        assert!(stop_signal(&ContainerConfig { stop_signal: 99, ..none }, &with("")).is_err());
    }
}
