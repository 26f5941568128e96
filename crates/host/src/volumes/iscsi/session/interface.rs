//! Initiator interfaces (`iface` records of `iscsiadm`).

use std::collections::BTreeMap;
use std::ffi::OsStr;

use super::{EXISTS, Login, run};
use crate::helper_program::{self, Arguments};

/// Set when an interface is created.
const NAME: &str = "iface.iscsi_ifacename";
const UNSET: &str = "<empty>";

/// The transport of the interface, such as `tcp`.
pub(super) fn transport(login: &Login, program: &OsStr) -> Result<String, String> {
    let name = login.initiator.as_ref().map_or(&login.interface, |own| &own.model);
    let output = show(name, program)?;
    let value = output.lines().find_map(|line| line.strip_prefix("iface.transport_name = "));
    match value.map(str::trim) {
        Some(UNSET) => Ok("tcp".to_owned()),
        Some(transport) if !transport.is_empty() => Ok(transport.to_owned()),
        Some(_) | None => Err(format!("could not parse iface file for {name}")),
    }
}

/// Creates an interface with the volume's own initiator name, as a copy of the model interface.
pub(super) fn create(login: &Login, program: &OsStr) -> Result<(), String> {
    let (interface, Some(own)) = (login.interface.as_str(), &login.initiator) else { return Ok(()) };
    if own.model == interface {
        return Err(format!("iscsi: cannot clone iface with same name: {interface}"));
    }
    let mut settings = settings(&show(&own.model, program)?)?;
    settings.insert("iface.initiatorname".to_owned(), own.name.clone());
    let created = run(program, &of(interface).words(&["-o", "new"]));
    if let Some(failure) = created.failure.filter(|failure| failure != EXISTS) {
        return Err(format!("iscsi: failed to create new iface: {} ({failure})", created.output.trim()));
    }
    for (key, value) in &settings {
        let update = of(interface).words(&["-o", "update"]).value("-n", key).value("-v", value);
        let updated = run(program, &update);
        if let Some(failure) = updated.failure {
            delete(login, program);
            return Err(format!(
                "iscsi: failed to update iface records: {} ({failure}). iface({}) will be used",
                updated.output.trim(),
                own.model
            ));
        }
    }
    Ok(())
}

/// Best effort: a leftover interface is harmless.
pub(super) fn delete(login: &Login, program: &OsStr) {
    let _ = run(program, &of(&login.interface).words(&["-o", "delete"]));
}

fn show(interface: &str, program: &OsStr) -> Result<String, String> {
    let shown = run(program, &of(interface).words(&["-o", "show"]));
    match shown.failure {
        None => Ok(shown.output),
        Some(failure) => Err(format!(
            "iscsi: could not read iface {interface}: {failure}: {}{}",
            shown.output.trim(),
            hint(&failure)
        )),
    }
}

fn of(interface: &str) -> Arguments {
    Arguments::new(&["-m", "iface"]).value("-I", interface)
}

/// The settings of an interface, except its name.
fn settings(shown: &str) -> Result<BTreeMap<String, String>, String> {
    let mut settings = BTreeMap::new();
    let lines = shown.lines().filter(|line| line.starts_with("iface.") && !line.contains(UNSET));
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [key, "=", value] = words[..] else {
            return Err(format!("iscsi: failed to parse iface records: {line}"));
        };
        if key != NAME {
            settings.insert(key.to_owned(), value.to_owned());
        }
    }
    Ok(settings)
}

fn hint(failure: &str) -> &'static str {
    if failure.contains(helper_program::NOT_INSTALLED) {
        "; install the package open-iscsi (Debian, Ubuntu) or iscsi-initiator-utils (Fedora, RHEL) on the node"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_settings_except_the_name() {
        let shown = "# BEGIN RECORD 2.1.8\niface.iscsi_ifacename = default\niface.net_ifacename = <empty>\n\
                     iface.transport_name = tcp\niface.mtu = 0\n# END RECORD\n";
        let expected = [("iface.mtu", "0"), ("iface.transport_name", "tcp")];
        let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(settings(shown).unwrap(), BTreeMap::from(expected));
        assert!(settings("iface.mtu 0").unwrap_err().contains("iface.mtu 0"));
    }
}
