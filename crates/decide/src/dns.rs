//! The resolver configuration of pods.

use k8s_openapi::api::core::v1::{PodDNSConfig, PodDNSConfigOption};
use model::{DnsConfig, NodeSettings, Pod};

/// Limits of common resolvers.
const MAX_SERVERS: usize = 3;
const MAX_SEARCHES: usize = 32;
const MAX_SEARCH_CHARACTERS: usize = 2048;
/// Longer domains make some resolvers abort.
const MAX_DOMAIN: usize = 253;
const MAX_RESOLV_CONF: usize = 10 << 20;

/// What the node's resolv.conf says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostResolver {
    /// Name servers.
    pub servers: Vec<String>,
    /// Search domains.
    pub searches: Vec<String>,
    /// Options.
    pub options: Vec<String>,
}

/// Something the pod's owner should know about its resolver configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsWarning {
    /// Reason of the event.
    pub reason: &'static str,
    /// Its sentence.
    pub message: String,
    /// Who it is about.
    pub about: About,
}

/// Who a warning is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// The pod.
    Pod,
    /// The node.
    Node,
}

/// Reads a resolv.conf. Servers add up, the last `search` line counts, options replace those of their name.
///
/// # Errors
/// When the text is too long or a `nameserver` line names none.
pub fn parse_resolv_conf(text: &str) -> Result<HostResolver, String> {
    if text.len() > MAX_RESOLV_CONF {
        return Err(format!("resolv.conf is longer than {MAX_RESOLV_CONF} bytes"));
    }
    let mut resolver = HostResolver::default();
    for (index, line) in text.lines().enumerate() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("nameserver") => {
                let server = words.next().ok_or(format!("line {}: nameserver without address", index + 1))?;
                resolver.servers.push(server.to_owned());
            }
            Some("search") => {
                // `.` alone would ask the root for every short name.
                let domains = words.filter(|domain| *domain != ".");
                resolver.searches =
                    domains.map(|domain| domain.strip_suffix('.').unwrap_or(domain).to_owned()).collect();
            }
            Some("options") => words.for_each(|option| set_option(&mut resolver.options, option.to_owned())),
            _ => {}
        }
    }
    Ok(resolver)
}

/// What is too long in the node's resolv.conf to be handed on to pods, if anything. `cluster_domain` takes three
/// places of the search list.
#[must_use]
pub fn resolv_conf_problem(path: &str, host: &HostResolver, cluster_domain: &str) -> Option<String> {
    let most = if cluster_domain.is_empty() { MAX_SEARCHES } else { MAX_SEARCHES - 3 };
    if host.searches.len() > most {
        return Some(format!(
            "Resolv.conf file '{path}' contains search line consisting of more than {most} domains!"
        ));
    }
    if host.searches.iter().any(|domain| domain.len() > MAX_DOMAIN) {
        return Some(format!(
            "Resolv.conf file {path:?} contains a search path which length is more than allowed {MAX_DOMAIN} chars!"
        ));
    }
    (host.searches.join(" ").len() > MAX_SEARCH_CHARACTERS).then(|| {
        format!(
            "Resolv.conf file '{path}' contains search line which length is more than allowed \
             {MAX_SEARCH_CHARACTERS} chars!"
        )
    })
}

/// A pod's resolver configuration by its DNS policy, with its own additions, cut to what resolvers take.
#[must_use]
pub fn pod_dns(
    pod: &Pod,
    settings: &NodeSettings,
    host: &HostResolver,
) -> (Option<DnsConfig>, Vec<DnsWarning>) {
    let mut warnings = Vec::new();
    let mut config = match base(pod) {
        Base::Nothing => DnsConfig::default(),
        Base::Cluster if settings.cluster_dns.is_empty() => {
            let of_node = "kubelet does not have ClusterDNS IP configured and cannot create Pod using \
                           \"ClusterFirst\" policy. Falling back to \"Default\" policy.";
            let name = format!("{}_{}({})", pod.name(), pod.namespace(), pod.uid);
            let of_pod = format!("pod: {name:?}. {of_node}");
            let reason = "MissingClusterDNS";
            warnings.push(DnsWarning { reason, message: of_node.to_owned(), about: About::Node });
            warnings.push(DnsWarning { reason, message: of_pod, about: About::Pod });
            host_config(settings, host)
        }
        Base::Cluster => cluster_config(pod, settings, host),
        Base::Host => host_config(settings, host),
    };
    if let Some(additions) = &pod.spec.dns_config {
        add(&mut config, additions);
    }
    limit_servers(&mut config, &mut warnings);
    limit_searches(&mut config, &mut warnings);
    (Some(config), warnings)
}

enum Base {
    Cluster,
    Host,
    Nothing,
}

fn base(pod: &Pod) -> Base {
    match pod.spec.dns_policy.as_deref() {
        Some("None") => Base::Nothing,
        Some("Default") => Base::Host,
        None | Some("ClusterFirst") if pod.is_host_network() => Base::Host,
        // `ClusterFirst`, `ClusterFirstWithHostNet` and, as upstream, what nobody knows.
        _ => Base::Cluster,
    }
}

fn cluster_config(pod: &Pod, settings: &NodeSettings, host: &HostResolver) -> DnsConfig {
    let domain = &settings.cluster_domain;
    let mut searches = Vec::new();
    if !domain.is_empty() {
        let cluster = [format!("{}.svc.{domain}", pod.namespace()), format!("svc.{domain}"), domain.clone()];
        extend_new(&mut searches, &cluster);
        extend_new(&mut searches, &host_resolver(settings, host).searches);
    } else {
        searches.clone_from(&host_resolver(settings, host).searches);
    }
    DnsConfig {
        servers: settings.cluster_dns.iter().map(ToString::to_string).collect(),
        searches,
        options: vec!["ndots:5".to_owned()],
    }
}

fn host_config(settings: &NodeSettings, host: &HostResolver) -> DnsConfig {
    if !settings.resolv_conf.is_empty() {
        let HostResolver { servers, searches, options } = host.clone();
        return DnsConfig { servers, searches, options };
    }
    // No host DNS: name the machine itself, else runtimes would put the node's resolv.conf in.
    let loopback = |is_v6| if is_v6 { "::1" } else { "127.0.0.1" };
    let mut servers: Vec<String> =
        settings.addresses.iter().map(|address| loopback(address.is_ipv6()).to_owned()).collect();
    if servers.is_empty() {
        servers.push(loopback(false).to_owned());
    }
    DnsConfig { servers, searches: vec![".".to_owned()], options: Vec::new() }
}

/// Without a configured file the node has no resolver to inherit from.
fn host_resolver(settings: &NodeSettings, host: &HostResolver) -> HostResolver {
    if settings.resolv_conf.is_empty() { HostResolver::default() } else { host.clone() }
}

fn add(config: &mut DnsConfig, additions: &PodDNSConfig) {
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

/// Adds an option in place of an earlier one of its name.
fn set_option(options: &mut Vec<String>, option: String) {
    let name = |option: &str| option.split(':').next().unwrap_or_default().to_owned();
    match options.iter_mut().find(|known| name(known) == name(&option)) {
        Some(known) => *known = option,
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
            about: About::Pod,
        });
    }
}

fn limit_searches(config: &mut DnsConfig, warnings: &mut Vec<DnsWarning>) {
    let before = config.searches.len();
    config.searches.truncate(MAX_SEARCHES);
    config.searches.retain(|domain| domain.len() <= MAX_DOMAIN);
    while config.searches.join(" ").len() > MAX_SEARCH_CHARACTERS {
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
            about: About::Pod,
        });
    }
}

#[cfg(test)]
mod tests;
