use super::*;

fn rule(fault: Fault) -> FaultRule {
    FaultRule { call: None, pod: None, skip: 0, count: None, percent: 100, fault }
}

fn hits(faults: &Faults, call: &str, random: f64) -> usize {
    faults.of_call(call, &Subject::default(), || random).len()
}

#[test]
fn rule_hits_calls_of_its_name_after_those_to_skip() {
    let limited =
        FaultRule { call: Some("StopContainer".to_owned()), skip: 1, count: Some(2), ..rule(Fault::Hang) };
    let faults = Faults::new(vec![limited]);
    assert_eq!(hits(&faults, "StartContainer", 0.0), 0);
    let found: Vec<usize> = (0..5).map(|_| hits(&faults, "StopContainer", 0.0)).collect();
    assert_eq!(found, [0, 1, 1, 0, 0]);
    assert_eq!(faults.hits(), [2]);
}

#[test]
fn rule_hits_its_share_of_calls() {
    let faults = Faults::new(vec![FaultRule { percent: 20, ..rule(Fault::Hang) }]);
    let found: Vec<usize> =
        [0.0, 0.19, 0.2, 0.99].into_iter().map(|random| hits(&faults, "Version", random)).collect();
    assert_eq!(found, [1, 1, 0, 0]);
}

#[test]
fn names_of_calls_are_those_of_the_protocol() {
    let api = include_str!("../../proto/runtime/v1/api.proto");
    for call in CALLS {
        assert!(api.contains(&format!("rpc {call}(")), "{call}");
    }
}
