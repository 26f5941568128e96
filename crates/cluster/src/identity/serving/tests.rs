use std::os::unix::fs::PermissionsExt;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use tempfile::TempDir;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::*;
use crate::identity::test_certificates::{Authority, issued};
use crate::test_server::{FAR, TestServer, reply};

type Chain = Vec<CertificateDer<'static>>;

/// What each side of a handshake saw of the other.
struct Met {
    server: Chain,
    client: Chain,
}

async fn meet(
    serving: &ServingCertificate,
    authority: Option<&ClientAuthority>,
    trusted: &CertificateDer<'static>,
    name: &str,
    client: Option<Credential>,
) -> Result<Met, std::io::Error> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let client = CurrentCertificate::new(client);
    let config =
        ClientConfig::builder().with_root_certificates(roots).with_client_cert_resolver(Arc::new(client));
    let acceptor =
        TlsAcceptor::from(Arc::new(serving.server_config(authority, &TlsChoices::default()).unwrap()));
    let (near, far) = tokio::io::duplex(16 * 1024);
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    let (near, far) = tokio::try_join!(connector.connect(name, near), acceptor.accept(far))?;
    let owned = |chain: Option<&[CertificateDer<'static>]>| chain.unwrap_or_default().to_vec();
    Ok(Met {
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
async fn files_are_answered_with_and_read_again() {
    let folder = TempDir::new().unwrap();
    let authority = Authority::new();
    let (certificate, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
    let write = |name: &str| {
        let pair = issued(&authority, name, &["node.example"], 0, FAR);
        std::fs::write(&certificate, pair.0).unwrap();
        std::fs::write(&key, pair.1).unwrap();
    };
    write("first");
    let serving = ServingCertificate::from_files(&certificate, &key, Reload::OnChange).unwrap();
    let ask = async || {
        let met = meet(&serving, None, authority.certificate.der(), "node.example", None).await.unwrap();
        common_name(&met.server)
    };
    assert_eq!(ask().await, "first");
    write("second");
    let changed = async {
        while ask().await != "second" {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), changed).await.expect("the new certificate is not used");
}

#[tokio::test]
async fn a_node_signs_for_itself_once() {
    let folder = TempDir::new().unwrap();
    let addresses = ["127.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()];
    let make = |now| ServingCertificate::self_signed(folder.path(), "node-1", &addresses, now).unwrap();
    let serving = make(today());
    let written = std::fs::read(folder.path().join("kubelet.crt")).unwrap();
    let own = CertificateDer::from_pem_slice(&written).unwrap();
    for name in ["node-1", "127.0.0.1", "fd00::1"] {
        let met = meet(&serving, None, &own, name, None).await.unwrap();
        assert_eq!(met.server, std::slice::from_ref(&own), "{name}");
    }
    let mode = |name: &str| std::fs::metadata(folder.path().join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("kubelet.crt"), mode("kubelet.key")), (0o644, 0o600));
    make(today());
    assert_eq!(std::fs::read(folder.path().join("kubelet.crt")).unwrap(), written, "made twice");
    make(today().after(OWN_LIFE + Duration::from_secs(1)));
    assert_ne!(std::fs::read(folder.path().join("kubelet.crt")).unwrap(), written, "an expired one is kept");
}

#[tokio::test]
async fn a_requested_certificate_is_used_as_soon_as_it_is_there() {
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
            (addresses, Naming::ByAddress),
            (clock.clone(), Arc::new(())),
        )
    };
    let authority = Authority::new();
    let (serving, upkeep) = request();
    let ask = async |serving| meet(serving, None, authority.certificate.der(), "10.0.0.1", None).await;
    assert!(ask(&serving).await.is_err(), "answered without a certificate");
    let (certificate, key) = issued(&authority, "system:node:node-1", &["10.0.0.1"], 0, FAR);
    let store = &upkeep.renewal.store;
    let stored = store.update(certificate.as_bytes(), key.as_bytes(), Timestamp::from_secs(1)).unwrap();
    upkeep.renewal.current.set(stored);
    assert_eq!(common_name(&ask(&serving).await.unwrap().server), "system:node:node-1");
    // And by the next agent from the start.
    assert!(ask(&request().0).await.is_ok());
}

#[tokio::test]
async fn files_bridge_the_time_until_a_certificate_is_signed() {
    let server = TestServer::start(async |_, _| reply(404, "")).await;
    let folder = TempDir::new().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::write(&kubeconfig, server.kubeconfig(&json!({"token": "t"}))).unwrap();
    let clients = Clients::from_kubeconfig(&kubeconfig).await.unwrap();
    let authority = Authority::new();
    let (certificate, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
    let request = || {
        let (addresses, clock) = (watch::channel(Vec::new()).1, Arc::new(ports::clock::SystemClock));
        let places = (folder.path(), Some((certificate.as_path(), key.as_path())));
        ServingCertificate::requested(
            &clients,
            places,
            "node-1",
            (addresses, Naming::ByAddress),
            (clock, Arc::new(())),
        )
    };
    let answered = async |serving: &ServingCertificate| {
        let met = meet(serving, None, authority.certificate.der(), "10.0.0.1", None).await;
        met.ok().map(|met| common_name(&met.server))
    };
    assert_eq!(answered(&request().0).await, None, "there are no files yet");
    let write = |until| {
        let pair = issued(&authority, "installer", &["10.0.0.1"], 0, until);
        std::fs::write(&certificate, pair.0).unwrap();
        std::fs::write(&key, pair.1).unwrap();
    };
    write(1);
    assert_eq!(answered(&request().0).await, None, "they have expired");
    write(FAR);
    let (serving, upkeep) = request();
    assert_eq!(answered(&serving).await.as_deref(), Some("installer"));
    let pair = issued(&authority, "system:node:node-1", &["10.0.0.1"], 0, FAR);
    let stored = upkeep.renewal.store.update(pair.0.as_bytes(), pair.1.as_bytes(), Timestamp::from_secs(1));
    upkeep.renewal.current.set(stored.unwrap());
    assert_eq!(answered(&serving).await.as_deref(), Some("system:node:node-1"));
    assert_eq!(answered(&request().0).await.as_deref(), Some("system:node:node-1"), "what was signed wins");
}

#[tokio::test]
async fn clients_are_believed_by_the_authority_of_the_day() {
    let folder = TempDir::new().unwrap();
    let (ours, theirs) = (Authority::new(), Authority::new());
    let file = folder.path().join("ca.crt");
    std::fs::write(&file, ours.pem()).unwrap();
    let authority = ClientAuthority::from_file(&file, Reload::OnChange).unwrap();
    let serving = ServingCertificate::self_signed(folder.path(), "node-1", &[], today()).unwrap();
    let own = std::fs::read(folder.path().join("kubelet.crt")).unwrap();
    let own = CertificateDer::from_pem_slice(&own).unwrap();
    let present = async |client: Option<Credential>| {
        meet(&serving, Some(&authority), &own, "node-1", client).await.unwrap().client
    };
    let of = |authority: &Authority| {
        let (certificate, key) = issued(authority, "kube-apiserver", &[], 0, FAR);
        Some(Credential::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap())
    };
    let (known, stranger, nobody) =
        (present(of(&ours)).await, present(of(&theirs)).await, present(None).await);
    let now = UnixTime::now();
    let names = authority.authenticate(&known, now).unwrap();
    assert_eq!((names.common_name.as_str(), names.organizations.len()), ("kube-apiserver", 1));
    assert!(authority.authenticate(&stranger, now).is_err());
    assert!(nobody.is_empty() && authority.authenticate(&nobody, now).is_err());
    assert!(
        authority
            .authenticate(&known, UnixTime::since_unix_epoch(Duration::from_secs(5_000_000_000)))
            .is_err()
    );

    std::fs::write(&file, format!("{}{}", theirs.pem(), theirs.pem())).unwrap();
    let changed = async {
        while authority.authenticate(&stranger, now).is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), changed).await.expect("the new authority is not used");
    assert!(authority.authenticate(&known, now).is_err());
}

#[test]
fn names_come_from_addresses() {
    let address = |kind: &str, text: &str| NodeAddress { type_: kind.to_owned(), address: text.to_owned() };
    let names = |addresses: &[NodeAddress]| {
        serving_names("n", addresses, Naming::ByAddress).map(|names| {
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
    assert_eq!(names(&[address("Hostname", "n")]), None, "nobody signs without an address");
    let any = |addresses: &[NodeAddress]| serving_names("n", addresses, Naming::ByAnyName);
    assert_eq!(any(&[address("Hostname", "n")]).map(|names| names.dns), Some(vec!["n".to_owned()]));
    assert_eq!(any(&[]), None);
}
