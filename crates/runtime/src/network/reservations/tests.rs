use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn owner(id: &str) -> Owner {
    Owner { sandbox_id: id.to_owned(), pod: format!("default/{id}") }
}

fn open() -> (tempfile::TempDir, Reservations) {
    let folder = tempfile::tempdir().unwrap();
    let reservations = Reservations::open(folder.path()).unwrap();
    (folder, reservations)
}

fn range(text: &str) -> Cidr {
    text.parse().unwrap()
}

fn reserve(reservations: &Reservations, cidr: &str, id: &str) -> Result<String, String> {
    let address = reservations.reserve_address(range(cidr), &owner(id));
    address.map(|address| address.to_string()).map_err(|error| error.to_string())
}

fn port(text: &str) -> PortMapping {
    parse_port(text, 80).unwrap()
}

#[test]
fn hands_out_addresses_in_turn_and_reports_an_exhausted_range() {
    let (_folder, reservations) = open();
    let next = |id: &str| reserve(&reservations, "10.9.0.0/29", id);
    assert_eq!(next("a").as_deref(), Ok("10.9.0.2"));
    assert_eq!(next("b").as_deref(), Ok("10.9.0.3"));
    reservations.release("a").unwrap();
    for (id, expected) in [("c", "10.9.0.4"), ("d", "10.9.0.5"), ("e", "10.9.0.6"), ("f", "10.9.0.2")] {
        assert_eq!(next(id).as_deref(), Ok(expected));
    }
    assert_eq!(next("g"), Err("no free address in 10.9.0.0/29: pods use 5".to_owned()));
    reservations.release("d").unwrap();
    assert_eq!(next("g").as_deref(), Ok("10.9.0.5"));
}

#[test]
fn range_without_usable_addresses_is_exhausted() {
    let (_folder, reservations) = open();
    for cidr in ["10.9.0.0/31", "10.9.0.0/32", "fd00::/127", "fd00::/128"] {
        assert!(reserve(&reservations, cidr, "a").unwrap_err().contains("no free address"), "{cidr}");
    }
    assert_eq!(reserve(&reservations, "10.9.0.0/30", "a").as_deref(), Ok("10.9.0.2"));
    assert_eq!(reserve(&reservations, "fd00::/64", "a").as_deref(), Ok("fd00::2"));
    assert_eq!(reserve(&reservations, "fd00::/64", "a").as_deref(), Ok("fd00::3"));
}

#[test]
fn records_survive_a_restart_and_name_their_owner() {
    let (folder, reservations) = open();
    reserve(&reservations, "10.9.0.0/24", "a").unwrap();
    reservations.reserve_ports(&[port("udp-53-fd00::1")], &owner("a")).unwrap();
    drop(reservations);
    let reservations = Reservations::open(folder.path()).unwrap();
    let addresses = reservations.addresses().unwrap();
    assert_eq!(addresses, [Reservation { subject: "10.9.0.2".parse().unwrap(), owner: owner("a") }]);
    assert_eq!(reservations.ports_of("a").unwrap(), [port("udp-53-fd00::1")]);
    assert_eq!(reserve(&reservations, "10.9.0.0/24", "b").as_deref(), Ok("10.9.0.3"));
}

#[test]
fn refuses_taken_host_port_and_names_its_owner() {
    let (_folder, reservations) = open();
    reservations.reserve_ports(&[port("tcp-8080")], &owner("a")).unwrap();
    let refused = |text: &str| {
        let result = reservations.reserve_ports(&[port(text)], &owner("b"));
        result.unwrap_err().to_string()
    };
    assert_eq!(refused("tcp-8080"), "host port 8080/tcp is already used by pod default/a");
    assert_eq!(refused("tcp-8080-10.0.0.1"), "host port 10.0.0.1:8080/tcp is already used by pod default/a");
    reservations.reserve_ports(&[port("udp-8080")], &owner("b")).unwrap();
    reservations.release("a").unwrap();
    reservations.reserve_ports(&[port("tcp-8080-10.0.0.1")], &owner("b")).unwrap();
    reservations.reserve_ports(&[port("tcp-8080-10.0.0.2")], &owner("c")).unwrap();
}

#[test]
fn unreadable_record_is_not_handed_out_and_recovery_removes_it() {
    let (folder, reservations) = open();
    fs::write(folder.path().join("addresses/10.9.0.2"), "half").unwrap();
    fs::write(folder.path().join("addresses/other"), "").unwrap();
    assert_eq!(reserve(&reservations, "10.9.0.0/24", "a").as_deref(), Ok("10.9.0.3"));
    reserve(&reservations, "10.9.0.0/24", "b").unwrap();
    reservations.release_all_except(&HashSet::from(["b"])).unwrap();
    let left = read_folder(&folder.path().join("addresses")).unwrap();
    assert_eq!(left, [("10.9.0.4".to_owned(), Some("b default/b".to_owned()))]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn live_sandboxes_never_share_an_address(steps in prop::collection::vec((0u8..12, any::<bool>()), 0..60)) {
        let (_folder, reservations) = open();
        let mut model: BTreeSet<(u8, String)> = BTreeSet::new();
        for (id, is_release) in steps {
            if is_release {
                reservations.release(&id.to_string()).unwrap();
                model.retain(|(owner, _)| *owner != id);
            } else {
                match reserve(&reservations, "10.9.0.0/28", &id.to_string()) {
                    Ok(address) => {
                        prop_assert!(model.iter().all(|(_, used)| *used != address));
                        model.insert((id, address));
                    }
                    Err(_) => prop_assert_eq!(model.len(), 13),
                }
            }
            let mut found: Vec<(u8, String)> = reservations.addresses().unwrap().into_iter()
                .map(|record| (record.owner.sandbox_id.parse().unwrap(), record.subject.to_string())).collect();
            found.sort();
            prop_assert_eq!(&found, &model.iter().cloned().collect::<Vec<_>>());
        }
    }

    #[test]
    fn parses_any_record(name: String, target: String) {
        let _ = (parse_port(&name, 1), parse_target(&target));
    }

    #[test]
    fn reads_every_port_that_it_writes(number in 1u16.., container_port: u16, which in 0usize..3, host_ip: Option<std::net::IpAddr>) {
        let port = PortMapping { protocol: PortProtocol::ALL[which], container_port, host_port: number, host_ip };
        prop_assert_eq!(parse_port(&port_name(&port), container_port), Some(port));
    }
}
