use super::*;
use crate::launcher::seccomp::Comparison;

fn parse(text: &str) -> Result<Profile, ProfileError> {
    Profile::from_json(text.as_bytes())
}

#[test]
fn reads_actions_conditions_and_flags() {
    let profile = parse(
        r#"{"defaultAction":"SCMP_ACT_ERRNO","defaultErrnoRet":38,"architectures":["SCMP_ARCH_X86_64"],
            "flags":["SECCOMP_FILTER_FLAG_LOG"],
            "syscalls":[{"names":["read"],"action":"SCMP_ACT_ALLOW",
              "args":[{"index":1,"value":2,"valueTwo":3,"op":"SCMP_CMP_MASKED_EQ"}]}]}"#,
    )
    .unwrap();
    assert_eq!(profile.default_action, Action::Errno(38));
    assert_eq!(profile.flags, FilterFlags::LOG);
    assert_eq!(profile.rules.len(), 1);
    assert_eq!(profile.rules[0].conditions[0].comparison, Comparison::MaskedEqual { mask: 2, value: 3 });
}

#[test]
fn speculation_mitigations_are_off_only_without_a_list_of_flags() {
    assert_eq!(parse(r#"{"defaultAction":"SCMP_ACT_ALLOW"}"#).unwrap().flags, FilterFlags::SPEC_ALLOW);
    let empty = parse(r#"{"defaultAction":"SCMP_ACT_ALLOW","flags":[]}"#).unwrap();
    assert_eq!(empty.flags, FilterFlags::default());
}

#[test]
fn repeated_argument_index_becomes_alternatives() {
    let profile = parse(
        r#"{"defaultAction":"SCMP_ACT_ERRNO","syscalls":[{"names":["personality"],"action":"SCMP_ACT_ALLOW",
            "args":[{"index":0,"value":0,"op":"SCMP_CMP_EQ"},{"index":0,"value":8,"op":"SCMP_CMP_EQ"}]}]}"#,
    )
    .unwrap();
    assert_eq!(profile.rules.len(), 2);
    assert!(profile.rules.iter().all(|rule| rule.conditions.len() == 1));
}

#[test]
fn refuses_settings_that_cannot_be_enforced() {
    for (text, error) in [
        (r#"{"defaultAction":"SCMP_ACT_NOTIFY"}"#, "default action"),
        (r#"{"defaultAction":"SCMP_ACT_ALLOW","listenerPath":"/run/x"}"#, "listeners"),
        (r#"{"defaultAction":"SCMP_ACT_ALLOW","flags":["NEW_FLAG"]}"#, "unknown seccomp flag"),
        (r#"{"defaultAction":"SCMP_ACT_ALLOW","architectures":["SCMP_ARCH_Z80"]}"#, "architecture"),
        (r#"{"defaultAction":"SCMP_ACT_ERRNO","defaultErrnoRet":70000}"#, "default action"),
        (r#"{"defaultAction":"SCMP_ACT_KILL","defaultErrnoRet":1}"#, "default action"),
        (
            r#"{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["read"],"action":"SCMP_ACT_ERRNO",
                "args":[{"index":6,"value":0,"op":"SCMP_CMP_EQ"}]}]}"#,
            "seccomp rule 0",
        ),
        (r#"{"syscalls":[]}"#, "not valid"),
        ("[]", "not valid"),
    ] {
        let message = parse(text).unwrap_err().to_string();
        assert!(message.contains(error), "{text}: {message}");
    }
}

#[test]
fn refuses_oversized_text() {
    assert_eq!(
        Profile::from_json(&vec![b' '; MAX_PROFILE_BYTES + 1]),
        Err(ProfileError::TooLarge(MAX_PROFILE_BYTES + 1))
    );
}
