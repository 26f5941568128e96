//! The resolver configuration of pods.

use k8s_openapi::api::core::v1::{PodDNSConfig, PodDNSConfigOption};
use model::{DnsConfig, NodeSettings, Pod};

/// Limits of common resolvers, as upstream.
const MAX_SERVERS: usize = 3;
const MAX_SEARCHES: usize = 32;
const MAX_SEARCH_LENGTH: usize = 2048;
/// Some resolvers abort on longer domains.
const MAX_DOMAIN_LENGTH: usize = 253;
const MAX_RESOLV_CONF_BYTES: usize = 10 << 20;

/// Recorded as a warning event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsWarning {
    pub reason: &'static str,
    pub message: String,
    pub subject: WarningSubject,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarningSubject {
    Pod,
    Node,
}

/// Parses a `resolv.conf`: servers accumulate, the last `search` line wins, an option replaces an earlier one of its name.
///
/// # Errors
/// When the text is too long or a `nameserver` line has no address.
pub fn parse_resolv_conf(text: &str) -> Result<DnsConfig, String> {
    if text.len() > MAX_RESOLV_CONF_BYTES {
        return Err(format!("resolv.conf is longer than {MAX_RESOLV_CONF_BYTES} bytes"));
    }
    let mut resolver = DnsConfig::default();
    for (index, line) in text.lines().enumerate() {
        let mut fields = line.split_whitespace();
        match fields.next() {
            Some("nameserver") => {
                let server =
                    fields.next().ok_or(format!("line {}: nameserver without address", index + 1))?;
                resolver.servers.push(server.to_owned());
            }
            Some("search") => {
                // `.` would send every short name to the root servers.
                let domains = fields.filter(|domain| *domain != ".");
                resolver.searches =
                    domains.map(|domain| domain.strip_suffix('.').unwrap_or(domain).to_owned()).collect();
            }
            Some("options") => fields.for_each(|option| set_option(&mut resolver.options, option.to_owned())),
            _ => {}
        }
    }
    Ok(resolver)
}

/// Why the node's `resolv.conf` exceeds the limits for pods, if it does. A cluster domain uses three entries of the
/// search list.
pub fn resolv_conf_problem(path: &str, host: &DnsConfig, cluster_domain: &str) -> Option<String> {
    let max_searches = if cluster_domain.is_empty() { MAX_SEARCHES } else { MAX_SEARCHES - 3 };
    if host.searches.len() > max_searches {
        return Some(format!(
            "Resolv.conf file '{path}' contains search line consisting of more than {max_searches} domains!"
        ));
    }
    if host.searches.iter().any(|domain| domain.len() > MAX_DOMAIN_LENGTH) {
        return Some(format!(
            "Resolv.conf file {path:?} contains a search path which length is more than allowed {MAX_DOMAIN_LENGTH} chars!"
        ));
    }
    (host.searches.join(" ").len() > MAX_SEARCH_LENGTH).then(|| {
        format!(
            "Resolv.conf file '{path}' contains search line which length is more than allowed \
             {MAX_SEARCH_LENGTH} chars!"
        )
    })
}

/// The pod's resolver configuration from its DNS policy and `dnsConfig`, truncated to the limits of resolvers.
pub fn pod_dns(pod: &Pod, settings: &NodeSettings, host: &DnsConfig) -> (Option<DnsConfig>, Vec<DnsWarning>) {
    let mut warnings = Vec::new();
    let mut config = match dns_source(pod) {
        DnsSource::Nothing => DnsConfig::default(),
        DnsSource::Cluster if settings.cluster_dns.is_empty() => {
            let node_message = "kubelet does not have ClusterDNS IP configured and cannot create Pod using \
                           \"ClusterFirst\" policy. Falling back to \"Default\" policy.";
            let pod_message = format!("pod: {:?}. {node_message}", pod.log_name());
            let reason = "MissingClusterDNS";
            warnings.push(DnsWarning {
                reason,
                message: node_message.to_owned(),
                subject: WarningSubject::Node,
            });
            warnings.push(DnsWarning { reason, message: pod_message, subject: WarningSubject::Pod });
            host_config(settings, host)
        }
        DnsSource::Cluster => cluster_config(pod, settings, host),
        DnsSource::Host => host_config(settings, host),
    };
    if let Some(additions) = &pod.spec.dns_config {
        apply_dns_config(&mut config, additions);
    }
    limit_servers(&mut config, &mut warnings);
    limit_searches(&mut config, &mut warnings);
    (Some(config), warnings)
}

enum DnsSource {
    Cluster,
    Host,
    Nothing,
}

fn dns_source(pod: &Pod) -> DnsSource {
    match pod.spec.dns_policy.as_deref() {
        Some("None") => DnsSource::Nothing,
        Some("Default") => DnsSource::Host,
        None | Some("ClusterFirst") if pod.is_host_network() => DnsSource::Host,
        // `ClusterFirst`, `ClusterFirstWithHostNet` and, as upstream, unknown values.
        _ => DnsSource::Cluster,
    }
}

fn cluster_config(pod: &Pod, settings: &NodeSettings, host: &DnsConfig) -> DnsConfig {
    let domain = &settings.cluster_domain;
    let of_host = if settings.resolv_conf.is_empty() { &[][..] } else { &host.searches };
    let mut searches = Vec::new();
    if domain.is_empty() {
        searches.extend_from_slice(of_host);
    } else {
        let cluster = [format!("{}.svc.{domain}", pod.namespace()), format!("svc.{domain}"), domain.clone()];
        extend_new(&mut searches, &cluster);
        extend_new(&mut searches, of_host);
    }
    DnsConfig {
        servers: settings.cluster_dns.iter().map(ToString::to_string).collect(),
        searches,
        options: vec!["ndots:5".to_owned()],
    }
}

fn host_config(settings: &NodeSettings, host: &DnsConfig) -> DnsConfig {
    if !settings.resolv_conf.is_empty() {
        return host.clone();
    }
    // Without host DNS, use loopback; otherwise runtimes would mount the node's resolv.conf.
    let loopback = |is_v6| if is_v6 { "::1" } else { "127.0.0.1" };
    let mut servers: Vec<String> =
        settings.addresses.iter().map(|address| loopback(address.is_ipv6()).to_owned()).collect();
    if servers.is_empty() {
        servers.push(loopback(false).to_owned());
    }
    DnsConfig { servers, searches: vec![".".to_owned()], options: Vec::new() }
}

fn apply_dns_config(config: &mut DnsConfig, additions: &PodDNSConfig) {
    let servers = std::mem::take(&mut config.servers);
    extend_new(&mut config.servers, &servers);
    extend_new(&mut config.servers, additions.nameservers.as_deref().unwrap_or_default());
    let searches = std::mem::take(&mut config.searches);
    extend_new(&mut config.searches, &searches);
    extend_new(&mut config.searches, additions.searches.as_deref().unwrap_or_default());
    for PodDNSConfigOption { name, value } in additions.options.iter().flatten() {
        let name = name.as_deref().unwrap_or_default();
        let option = match value.as_deref().unwrap_or_default() {
            "" => name.to_owned(),
            value => format!("{name}:{value}"),
        };
        set_option(&mut config.options, option);
    }
}

/// Adds an option, replacing an earlier one of the same name.
fn set_option(options: &mut Vec<String>, option: String) {
    let name = |option: &str| option.split(':').next().unwrap_or_default().to_owned();
    match options.iter_mut().find(|existing| name(existing) == name(&option)) {
        Some(existing) => *existing = option,
        None => options.push(option),
    }
}

fn extend_new(list: &mut Vec<String>, more: &[String]) {
    for entry in more {
        if !list.contains(entry) {
            list.push(entry.clone());
        }
    }
}

fn limit_servers(config: &mut DnsConfig, warnings: &mut Vec<DnsWarning>) {
    if config.servers.len() > MAX_SERVERS {
        config.servers.truncate(MAX_SERVERS);
        warnings.push(DnsWarning {
            reason: "DNSConfigForming",
            message: format!(
                "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line \
                 is: {}",
                config.servers.join(" ")
            ),
            subject: WarningSubject::Pod,
        });
    }
}

fn limit_searches(config: &mut DnsConfig, warnings: &mut Vec<DnsWarning>) {
    let before = config.searches.len();
    config.searches.truncate(MAX_SEARCHES);
    config.searches.retain(|domain| domain.len() <= MAX_DOMAIN_LENGTH);
    while config.searches.join(" ").len() > MAX_SEARCH_LENGTH {
        config.searches.pop();
    }
    if config.searches.len() < before {
        warnings.push(DnsWarning {
            reason: "DNSConfigForming",
            message: format!(
                "Search Line limits were exceeded, some search paths have been omitted, the applied search line \
                 is: {}",
                config.searches.join(" ")
            ),
            subject: WarningSubject::Pod,
        });
    }
}

#[cfg(test)]
mod tests;
