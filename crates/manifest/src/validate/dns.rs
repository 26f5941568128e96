//! Rules for DNS settings, host aliases and host names.

use k8s_openapi::api::core::v1::{PodDNSConfig, PodSpec};

use super::checker::Checker;
use super::{Context, formats};
use crate::path::Path;

const MAX_NAMESERVERS: usize = 3;
const MAX_SEARCHES: usize = 32;
const MAX_SEARCH_CHARACTERS: usize = 2048;
const MAX_HOSTNAME_LENGTH: usize = 64;

pub(super) fn check(context: &Context<'_>, checker: &mut Checker) {
    let (spec, address) = (context.spec, address_format(context));
    let path = Path::root().field("spec");
    let policy = spec.dns_policy.as_deref().unwrap_or_default();
    checker.one_of(
        &path.field("dnsPolicy"),
        policy,
        &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"],
    );
    let config = path.field("dnsConfig");
    match &spec.dns_config {
        None if policy == "None" => {
            checker.required(&config, "must provide `dnsConfig` when `dnsPolicy` is None");
        }
        None => {}
        Some(dns) if policy == "None" && dns.nameservers.as_deref().unwrap_or_default().is_empty() => {
            let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            checker.required(&config.field("nameservers"), detail);
        }
        Some(dns) => check_dns_config(dns, address, &config, checker),
    }
    for (path, alias) in path.field("hostAliases").items(spec.host_aliases.as_deref().unwrap_or_default()) {
        checker.format(&path.field("ip"), &alias.ip, address(&alias.ip));
        for (path, name) in path.field("hostnames").items(alias.hostnames.as_deref().unwrap_or_default()) {
            checker.format(&path, name, formats::dns_subdomain(name));
        }
    }
    for (field, name) in [("hostname", &spec.hostname), ("subdomain", &spec.subdomain)] {
        if let Some(name) = name.as_deref().filter(|name| !name.is_empty()) {
            checker.format(&path.field(field), name, formats::dns_label(name));
        }
    }
    if let Some(name) = &spec.hostname_override {
        check_hostname_override(name, spec, &path.field("hostnameOverride"), checker);
    }
}

/// Returns a message if the text does not have the format.
type Format = fn(&str) -> Option<String>;

fn address_format(context: &Context<'_>) -> Format {
    match context.validation_gates.strict_ip_addresses {
        true => formats::ip_address,
        false => formats::lenient_ip_address,
    }
}

fn check_dns_config(config: &PodDNSConfig, address: Format, path: &Path, checker: &mut Checker) {
    let nameservers = config.nameservers.as_deref().unwrap_or_default();
    let searches = config.searches.as_deref().unwrap_or_default();
    if nameservers.len() > MAX_NAMESERVERS {
        let detail = format!("must not have more than {MAX_NAMESERVERS} nameservers");
        checker.invalid(&path.field("nameservers"), nameservers.len(), &detail);
    }
    for (path, server) in path.field("nameservers").items(nameservers) {
        checker.format(&path, server, address(server));
    }
    if searches.len() > MAX_SEARCHES {
        let detail = format!("must not have more than {MAX_SEARCHES} search paths");
        checker.invalid(&path.field("searches"), searches.len(), &detail);
    }
    if searches.join(" ").len() > MAX_SEARCH_CHARACTERS {
        let detail = format!("must not have more than {MAX_SEARCH_CHARACTERS} characters (including spaces)");
        checker.invalid(&path.field("searches"), searches.len(), &detail);
    }
    for (path, search) in path.field("searches").items(searches).filter(|(_, search)| *search != ".") {
        checker.format(&path, search, formats::dns_search(search.strip_suffix('.').unwrap_or(search)));
    }
    for (path, option) in path.field("options").items(config.options.as_deref().unwrap_or_default()) {
        checker.require_text(&path.field("name"), option.name.as_deref().unwrap_or_default());
    }
}

fn check_hostname_override(name: &str, spec: &PodSpec, path: &Path, checker: &mut Checker) {
    if spec.set_hostname_as_fqdn == Some(true) {
        checker.forbidden(path, "may not be specified when setHostnameAsFQDN is true");
    }
    if spec.host_network == Some(true) {
        checker.forbidden(path, "may not be specified when hostNetwork is true");
    }
    if name.len() > MAX_HOSTNAME_LENGTH {
        checker.too_long(path, MAX_HOSTNAME_LENGTH);
    }
    checker.format(path, name, formats::dns_subdomain(name));
}
