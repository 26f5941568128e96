//! Names the pod has and names it can resolve.

use k8s_openapi::api::core::v1::{PodDNSConfig, PodSpec};

use super::checker::Checker;
use super::{Context, formats};
use crate::path::Path;

const MAX_NAMESERVERS: usize = 3;
const MAX_SEARCHES: usize = 32;
const MAX_SEARCH_CHARACTERS: usize = 2048;
const MAX_HOSTNAME: usize = 64;

/// Checks DNS policy and configuration, host aliases and the pod's host name.
pub(super) fn check(context: &Context<'_>, check: &mut Checker) {
    let (spec, address) = (context.spec, address_format(context));
    let at = Path::root().field("spec");
    let policy = spec.dns_policy.as_deref().unwrap_or_default();
    check.one_of(
        &at.field("dnsPolicy"),
        policy,
        &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"],
    );
    let config = at.field("dnsConfig");
    match &spec.dns_config {
        None if policy == "None" => {
            check.required(&config, "must provide `dnsConfig` when `dnsPolicy` is None");
        }
        None => {}
        Some(dns) if policy == "None" && dns.nameservers.as_deref().unwrap_or_default().is_empty() => {
            let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            check.required(&config.field("nameservers"), detail);
        }
        Some(dns) => dns_config(dns, address, &config, check),
    }
    for (at, alias) in at.field("hostAliases").items(spec.host_aliases.as_deref().unwrap_or_default()) {
        check.format(&at.field("ip"), &alias.ip, address(&alias.ip));
        for (at, name) in at.field("hostnames").items(alias.hostnames.as_deref().unwrap_or_default()) {
            check.format(&at, name, formats::dns_subdomain(name));
        }
    }
    for (field, name) in [("hostname", &spec.hostname), ("subdomain", &spec.subdomain)] {
        if let Some(name) = name.as_deref().filter(|name| !name.is_empty()) {
            check.format(&at.field(field), name, formats::dns_label(name));
        }
    }
    if let Some(name) = &spec.hostname_override {
        hostname_override(name, spec, &at.field("hostnameOverride"), check);
    }
}

/// Says what is wrong with a text.
type Format = fn(&str) -> Option<String>;

fn address_format(context: &Context<'_>) -> Format {
    match context.strictness.plain_addresses {
        true => formats::ip_address,
        false => formats::sloppy_ip_address,
    }
}

fn dns_config(config: &PodDNSConfig, address: Format, at: &Path, check: &mut Checker) {
    let nameservers = config.nameservers.as_deref().unwrap_or_default();
    let searches = config.searches.as_deref().unwrap_or_default();
    if nameservers.len() > MAX_NAMESERVERS {
        let detail = format!("must not have more than {MAX_NAMESERVERS} nameservers");
        check.invalid(&at.field("nameservers"), nameservers.len(), &detail);
    }
    for (at, server) in at.field("nameservers").items(nameservers) {
        check.format(&at, server, address(server));
    }
    if searches.len() > MAX_SEARCHES {
        let detail = format!("must not have more than {MAX_SEARCHES} search paths");
        check.invalid(&at.field("searches"), searches.len(), &detail);
    }
    if searches.join(" ").len() > MAX_SEARCH_CHARACTERS {
        let detail = format!("must not have more than {MAX_SEARCH_CHARACTERS} characters (including spaces)");
        check.invalid(&at.field("searches"), searches.len(), &detail);
    }
    for (at, search) in at.field("searches").items(searches).filter(|(_, search)| *search != ".") {
        check.format(&at, search, formats::dns_search(search.strip_suffix('.').unwrap_or(search)));
    }
    for (at, option) in at.field("options").items(config.options.as_deref().unwrap_or_default()) {
        check.require_text(&at.field("name"), option.name.as_deref().unwrap_or_default());
    }
}

fn hostname_override(name: &str, spec: &PodSpec, at: &Path, check: &mut Checker) {
    if spec.set_hostname_as_fqdn == Some(true) {
        check.forbidden(at, "may not be specified when setHostnameAsFQDN is true");
    }
    if spec.host_network == Some(true) {
        check.forbidden(at, "may not be specified when hostNetwork is true");
    }
    if name.len() > MAX_HOSTNAME {
        check.too_long(at, MAX_HOSTNAME);
    }
    check.format(at, name, formats::dns_subdomain(name));
}
