use proptest::prelude::*;

use super::*;

fn digest() -> String {
    format!("sha256:{}", "ab".repeat(32))
}

#[test]
fn names_without_tag_and_digest_get_latest() {
    for (image, expected) in [
        ("busybox", "busybox:latest"),
        ("busybox:1.36", "busybox:1.36"),
        ("busybox:latest", "busybox:latest"),
        ("host:5000/app", "host:5000/app:latest"),
        ("host:5000/app:v1", "host:5000/app:v1"),
        ("[fd00::1]:5000/app", "[fd00::1]:5000/app:latest"),
        ("a--b__c.d/e", "a--b__c.d/e:latest"),
        ("under__score.x/app", "under__score.x/app:latest"),
    ] {
        assert_eq!(with_default_tag(image).as_deref(), Ok(expected), "{image}");
    }
    for image in [format!("busybox@{}", digest()), format!("busybox:1@{}", digest())] {
        assert_eq!(with_default_tag(&image).as_deref(), Ok(image.as_str()));
    }
}

#[test]
fn repositories_have_their_registry() {
    for (image, repository) in [
        ("busybox", "docker.io/library/busybox"),
        ("docker.io/busybox:1", "docker.io/library/busybox"),
        ("index.docker.io/me/app", "docker.io/me/app"),
        ("me/app", "docker.io/me/app"),
        ("localhost/app", "localhost/app"),
        ("Host/app", "Host/app"),
        ("registry.example.org:5000/a/b:v1", "registry.example.org:5000/a/b"),
    ] {
        assert_eq!(parse_image_name(image).unwrap().repository, repository, "{image}");
    }
    let name = parse_image_name(&format!("a:v1@{}", digest())).unwrap();
    assert_eq!((name.tag.as_deref(), name.digest.as_deref()), (Some("v1"), Some(digest().as_str())));
}

#[test]
fn impossible_names_are_refused() {
    for image in [
        "",
        " ",
        "a b",
        "Busybox",
        "a:",
        "a:b:c",
        "a@",
        "a@sha256:beef",
        "a@md5:0123",
        "-a",
        "a/",
        "/a",
        "a//b",
        "a..b",
        "a___b",
        "host:port/a",
        "http://host/a",
        "a:-v",
        &"a".repeat(64),
        &format!("a:{}", "t".repeat(129)),
        &format!("x/{}", "p".repeat(256)),
    ] {
        let problem = with_default_tag(image).unwrap_err().to_string();
        assert!(problem.starts_with(&format!("Failed to apply default image tag {image:?}: ")), "{problem}");
    }
}

#[test]
fn policies_decide_about_pulling() {
    let image = ImageStatus { id: "sha256:1".into(), ..ImageStatus::default() };
    let present = || PullDecision::UsePresent("sha256:1".into());
    for (policy, name, with, without) in [
        (Some("Always"), "a:1", PullDecision::Pull, PullDecision::Pull),
        (Some("IfNotPresent"), "a", present(), PullDecision::Pull),
        (Some("Never"), "a", present(), PullDecision::NeverPresent),
        (None, "a", PullDecision::Pull, PullDecision::Pull),
        (None, "a:latest", PullDecision::Pull, PullDecision::Pull),
        (None, "a:1", present(), PullDecision::Pull),
        (Some(""), "a:1", present(), PullDecision::Pull),
    ] {
        assert_eq!(decide_pull(policy, name, Some(&image)), with, "{policy:?} {name}");
        assert_eq!(decide_pull(policy, name, None), without, "{policy:?} {name}");
        assert_eq!(decide_pull(policy, name, Some(&ImageStatus::default())), without, "{policy:?} {name}");
    }
}

proptest! {
    #[test]
    fn any_text_is_a_name_or_not_and_tagging_is_done_once(text in "[a-zA-Z0-9:/@._-]{0,40}|.{0,20}") {
        if let Ok(tagged) = with_default_tag(&text) {
            prop_assert_eq!(with_default_tag(&tagged).unwrap(), tagged);
        }
    }
}
