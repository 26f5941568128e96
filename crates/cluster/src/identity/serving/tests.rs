use std::os::unix::fs::PermissionsExt;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use tempfile::TempDir;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::*;
use crate::identity::test_certificates::{Authority, issued};
use crate::test_server::{FAR_FUTURE, TestServer, reply};

type Chain = Vec<CertificateDer<'static>>;

/// The certificate chain of each side in a TLS handshake.
struct Handshake {
    server: Chain,
    client: Chain,
}

async fn handshake(
    serving: &ServingCertificate,
    authority: Option<&ClientAuthority>,
    trusted: &CertificateDer<'static>,
    name: &str,
    client: Option<Credential>,
) -> Result<Handshake, std::io::Error> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let client = CurrentCertificate::new(client);
    let config =
        ClientConfig::builder().with_root_certificates(roots).with_client_cert_resolver(Arc::new(client));
    let acceptor =
        TlsAcceptor::from(Arc::new(serving.server_config(authority, &TlsOptions::default()).unwrap()));
    let (near, far) = tokio::io::duplex(16 * 1024);
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    let (near, far) = tokio::try_join!(connector.connect(name, near), acceptor.accept(far))?;
    let owned = |chain: Option<&[CertificateDer<'static>]>| chain.unwrap_or_default().to_vec();
    Ok(Handshake {
        server: owned(near.get_ref().1.peer_certificates()),
        client: owned(far.get_ref().1.peer_certificates()),
    })
}

fn common_name(chain: &Chain) -> String {
    Credential::names_of(chain.first().unwrap()).unwrap().common_name
}

#[expect(clippy::disallowed_methods, reason = "certificates made by rcgen are valid by the real clock")]
fn today() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    Timestamp::from_secs(since.as_secs().cast_signed())
}

#[tokio::test]
async fn serves_and_reloads_certificate_files() {
    let folder = TempDir::new().unwrap();
    let authority = Authority::new();
    let (certificate, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
    let write = |name: &str| {
        let pair = issued(&authority, name, &["node.example"], 0, FAR_FUTURE);
        std::fs::write(&certificate, pair.0).unwrap();
        std::fs::write(&key, pair.1).unwrap();
    };
    write("first");
    let serving = ServingCertificate::from_files(&certificate, &key, Reload::OnChange).unwrap();
    let served_name = async || {
        let result =
            handshake(&serving, None, authority.certificate.der(), "node.example", None).await.unwrap();
        common_name(&result.server)
    };
    assert_eq!(served_name().await, "first");
    write("second");
    let changed = async {
        while served_name().await != "second" {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), changed).await.expect("the new certificate is not used");
}

#[tokio::test]
async fn generates_self_signed_certificate_once() {
    let folder = TempDir::new().unwrap();
    let addresses = ["127.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()];
    let make = |now| ServingCertificate::self_signed(folder.path(), "node-1", &addresses, now).unwrap();
    let serving = make(today());
    let written = std::fs::read(folder.path().join("kubelet.crt")).unwrap();
    let own = CertificateDer::from_pem_slice(&written).unwrap();
    for name in ["node-1", "127.0.0.1", "fd00::1"] {
        let result = handshake(&serving, None, &own, name, None).await.unwrap();
        assert_eq!(result.server, std::slice::from_ref(&own), "{name}");
    }
    let mode = |name: &str| std::fs::metadata(folder.path().join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("kubelet.crt"), mode("kubelet.key")), (0o644, 0o600));
    make(today());
    assert_eq!(std::fs::read(folder.path().join("kubelet.crt")).unwrap(), written, "generated again");
    make(today().after(SELF_SIGNED_VALIDITY + Duration::from_secs(1)));
    assert_ne!(
        std::fs::read(folder.path().join("kubelet.crt")).unwrap(),
        written,
        "expired certificate was kept"
    );
}

#[tokio::test]
async fn serves_requested_certificate_once_issued() {
    let server = TestServer::start(async |_, _| reply(404, "")).await;
    let folder = TempDir::new().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::write(&kubeconfig, server.kubeconfig(&json!({"token": "t"}))).unwrap();
    let clients = Clients::from_kubeconfig(&kubeconfig).await.unwrap();
    let clock = Arc::new(ports::clock::SystemClock);
    let request = || {
        let addresses = watch::channel(Vec::new()).1;
        ServingCertificate::requested(
            &clients,
            (folder.path(), None),
            "node-1",
            (addresses, RequiredNames::IpAddress),
            (clock.clone(), Arc::new(())),
        )
    };
    let authority = Authority::new();
    let (serving, manager) = request();
    let connect =
        async |serving| handshake(serving, None, authority.certificate.der(), "10.0.0.1", None).await;
    assert!(connect(&serving).await.is_err(), "served without a certificate");
    let (certificate, key) = issued(&authority, "system:node:node-1", &["10.0.0.1"], 0, FAR_FUTURE);
    let store = &manager.renewer.store;
    let stored = store.update(certificate.as_bytes(), key.as_bytes(), Timestamp::from_secs(1)).unwrap();
    manager.renewer.current.set(stored);
    assert_eq!(common_name(&connect(&serving).await.unwrap().server), "system:node:node-1");
    // A restarted agent loads the stored certificate.
    assert!(connect(&request().0).await.is_ok());
}

#[tokio::test]
async fn serves_certificate_files_until_one_is_signed() {
    let server = TestServer::start(async |_, _| reply(404, "")).await;
    let folder = TempDir::new().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::write(&kubeconfig, server.kubeconfig(&json!({"token": "t"}))).unwrap();
    let clients = Clients::from_kubeconfig(&kubeconfig).await.unwrap();
    let authority = Authority::new();
    let (certificate, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
    let request = || {
        let (addresses, clock) = (watch::channel(Vec::new()).1, Arc::new(ports::clock::SystemClock));
        let paths = (folder.path(), Some((certificate.as_path(), key.as_path())));
        ServingCertificate::requested(
            &clients,
            paths,
            "node-1",
            (addresses, RequiredNames::IpAddress),
            (clock, Arc::new(())),
        )
    };
    let served_name = async |serving: &ServingCertificate| {
        let result = handshake(serving, None, authority.certificate.der(), "10.0.0.1", None).await;
        result.ok().map(|result| common_name(&result.server))
    };
    assert_eq!(served_name(&request().0).await, None, "no files yet");
    let write = |until| {
        let pair = issued(&authority, "installer", &["10.0.0.1"], 0, until);
        std::fs::write(&certificate, pair.0).unwrap();
        std::fs::write(&key, pair.1).unwrap();
    };
    write(1);
    assert_eq!(served_name(&request().0).await, None, "expired files");
    write(FAR_FUTURE);
    let (serving, manager) = request();
    assert_eq!(served_name(&serving).await.as_deref(), Some("installer"));
    let pair = issued(&authority, "system:node:node-1", &["10.0.0.1"], 0, FAR_FUTURE);
    let stored = manager.renewer.store.update(pair.0.as_bytes(), pair.1.as_bytes(), Timestamp::from_secs(1));
    manager.renewer.current.set(stored.unwrap());
    assert_eq!(served_name(&serving).await.as_deref(), Some("system:node:node-1"));
    assert_eq!(
        served_name(&request().0).await.as_deref(),
        Some("system:node:node-1"),
        "the signed certificate has precedence"
    );
}

#[tokio::test]
async fn authenticates_clients_against_current_authority_file() {
    let folder = TempDir::new().unwrap();
    let (ours, theirs) = (Authority::new(), Authority::new());
    let file = folder.path().join("ca.crt");
    std::fs::write(&file, ours.pem()).unwrap();
    let authority = ClientAuthority::from_file(&file, Reload::OnChange).unwrap();
    let serving = ServingCertificate::self_signed(folder.path(), "node-1", &[], today()).unwrap();
    let own = std::fs::read(folder.path().join("kubelet.crt")).unwrap();
    let own = CertificateDer::from_pem_slice(&own).unwrap();
    let present = async |client: Option<Credential>| {
        handshake(&serving, Some(&authority), &own, "node-1", client).await.unwrap().client
    };
    let of = |authority: &Authority| {
        let (certificate, key) = issued(authority, "kube-apiserver", &[], 0, FAR_FUTURE);
        Some(Credential::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap())
    };
    let (trusted, untrusted, anonymous) =
        (present(of(&ours)).await, present(of(&theirs)).await, present(None).await);
    let now = UnixTime::now();
    let names = authority.authenticate(&trusted, now).unwrap();
    assert_eq!((names.common_name.as_str(), names.organizations.len()), ("kube-apiserver", 1));
    assert!(authority.authenticate(&untrusted, now).is_err());
    assert!(anonymous.is_empty() && authority.authenticate(&anonymous, now).is_err());
    assert!(
        authority
            .authenticate(&trusted, UnixTime::since_unix_epoch(Duration::from_secs(5_000_000_000)))
            .is_err()
    );

    std::fs::write(&file, format!("{}{}", theirs.pem(), theirs.pem())).unwrap();
    let changed = async {
        while authority.authenticate(&untrusted, now).is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), changed).await.expect("the new authority is not used");
    assert!(authority.authenticate(&trusted, now).is_err());
}

#[test]
fn derives_certificate_names_from_node_addresses() {
    let address = |kind: &str, text: &str| NodeAddress { type_: kind.to_owned(), address: text.to_owned() };
    let names = |addresses: &[NodeAddress]| {
        serving_names("n", addresses, RequiredNames::IpAddress).map(|names| {
            let addresses: Vec<_> = names.addresses.iter().map(ToString::to_string).collect();
            (names.dns, addresses)
        })
    };
    let full = [
        address("Hostname", "n"),
        address("InternalIP", "10.0.0.2"),
        address("InternalIP", "10.0.0.1"),
        address("ExternalIP", "10.0.0.1"),
        address("InternalIP", "fd00::1"),
        address("InternalDNS", "n.internal"),
        address("ExternalDNS", ""),
        address("InternalIP", "no address"),
    ];
    let expected = (vec!["n".to_owned(), "n.internal".to_owned()], vec!["10.0.0.1", "10.0.0.2", "fd00::1"]);
    let expected = (expected.0, expected.1.into_iter().map(str::to_owned).collect::<Vec<_>>());
    assert_eq!(names(&full), Some(expected));
    assert_eq!(names(&[address("Hostname", "10.0.0.3")]), Some((vec![], vec!["10.0.0.3".to_owned()])));
    assert_eq!(names(&[address("Hostname", "n")]), None, "an IP address is required");
    let any = |addresses: &[NodeAddress]| serving_names("n", addresses, RequiredNames::IpAddressOrDns);
    assert_eq!(any(&[address("Hostname", "n")]).map(|names| names.dns), Some(vec!["n".to_owned()]));
    assert_eq!(any(&[]), None);
}
