//! Rules for DNS settings, host aliases and host names.

use k8s_openapi::api::core::v1::{PodDNSConfig, PodSpec};

use super::field::{Field, Format};
use super::{Context, formats};

const MAX_NAMESERVERS: usize = 3;
const MAX_SEARCHES: usize = 32;
const MAX_SEARCH_CHARACTERS: usize = 2048;
const MAX_HOSTNAME_LENGTH: usize = 64;

pub(super) fn check(context: &Context<'_>) {
    let (spec, address) = (context.spec, address_format(context));
    let at = context.spec_field();
    let policy = spec.dns_policy.as_deref().unwrap_or_default();
    at.field("dnsPolicy").one_of(policy, &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"]);
    let config = at.field("dnsConfig");
    match &spec.dns_config {
        None if policy == "None" => {
            config.required("must provide `dnsConfig` when `dnsPolicy` is None");
        }
        None => {}
        Some(dns) if policy == "None" && dns.nameservers.as_deref().unwrap_or_default().is_empty() => {
            let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            config.field("nameservers").required(detail);
        }
        Some(dns) => check_dns_config(dns, address, &config),
    }
    for (at, alias) in at.list("hostAliases", &spec.host_aliases) {
        at.field("ip").format(&alias.ip, address);
        for (at, name) in at.list("hostnames", &alias.hostnames) {
            at.format(name, formats::dns_subdomain);
        }
    }
    for (field, name) in [("hostname", &spec.hostname), ("subdomain", &spec.subdomain)] {
        at.field(field).empty_or_format(name, formats::dns_label);
    }
    at.if_set("hostnameOverride", &spec.hostname_override, |name, at| {
        check_hostname_override(name, spec, at);
    });
}

fn address_format(context: &Context<'_>) -> Format {
    match context.validation_gates.strict_ip_addresses {
        true => formats::ip_address,
        false => formats::lenient_ip_address,
    }
}

fn check_dns_config(config: &PodDNSConfig, address: Format, at: &Field<'_>) {
    let nameservers = config.nameservers.as_deref().unwrap_or_default();
    let searches = config.searches.as_deref().unwrap_or_default();
    if nameservers.len() > MAX_NAMESERVERS {
        let detail = format!("must not have more than {MAX_NAMESERVERS} nameservers");
        at.field("nameservers").invalid(nameservers.len(), &detail);
    }
    for (at, server) in at.field("nameservers").items(nameservers) {
        at.format(server, address);
    }
    if searches.len() > MAX_SEARCHES {
        let detail = format!("must not have more than {MAX_SEARCHES} search paths");
        at.field("searches").invalid(searches.len(), &detail);
    }
    if searches.join(" ").len() > MAX_SEARCH_CHARACTERS {
        let detail = format!("must not have more than {MAX_SEARCH_CHARACTERS} characters (including spaces)");
        at.field("searches").invalid(searches.len(), &detail);
    }
    for (at, search) in at.field("searches").items(searches).filter(|(_, search)| *search != ".") {
        at.format(search, |_| formats::dns_search(search.strip_suffix('.').unwrap_or(search)));
    }
    for (at, option) in at.list("options", &config.options) {
        at.field("name").require(option.name.as_deref().unwrap_or_default());
    }
}

fn check_hostname_override(name: &str, spec: &PodSpec, at: &Field<'_>) {
    if spec.set_hostname_as_fqdn == Some(true) {
        at.forbidden("may not be specified when setHostnameAsFQDN is true");
    }
    if spec.host_network == Some(true) {
        at.forbidden("may not be specified when hostNetwork is true");
    }
    if name.len() > MAX_HOSTNAME_LENGTH {
        at.too_long(MAX_HOSTNAME_LENGTH);
    }
    at.format(name, formats::dns_subdomain);
}
