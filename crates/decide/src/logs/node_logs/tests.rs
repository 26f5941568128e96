use super::*;

fn read(pairs: &[(&str, &str)]) -> Result<Option<NodeLogQuery>, String> {
    let pairs: Vec<_> = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    NodeLogQuery::read(&pairs)
}

fn target(pairs: &[(&str, &str)]) -> Result<LogTarget, String> {
    read(pairs).unwrap().unwrap().target()
}

#[test]
fn query_selects_services_or_one_file() {
    assert_eq!(read(&[]), Ok(None));
    assert_eq!(read(&[("verbose", "1")]), Ok(None));
    let services = LogTarget::Services(vec!["kubelet".into(), "ssh@1".into()]);
    assert_eq!(target(&[("query", "kubelet"), ("query", "ssh@1")]), Ok(services));
    assert_eq!(target(&[("query", "/a\\b.log")]), Ok(LogTarget::File("/a/b.log".into())));
}

#[test]
fn parse_errors_name_the_field() {
    for (name, value) in [("sinceTime", "now"), ("untilTime", "2026"), ("tailLines", "x"), ("boot", "1.0")] {
        let error = read(&[("query", "kubelet"), (name, value)]).unwrap_err();
        assert!(error.starts_with(name), "{error}");
    }
    assert!(read(&[("query", "  ")]).unwrap_err().contains("may not be empty"));
}

#[test]
fn validation_errors_name_the_field() {
    let long = "x".repeat(257);
    for (pairs, expected) in [
        (&[("tailLines", "5")][..], "query: Required value"),
        (&[("query", "a"), ("query", "/b")], "cannot specify a file and service"),
        (&[("query", "/a"), ("query", "/b")], "more than one file"),
        (&[("query", "/a"), ("tailLines", "1")], "file with options"),
        (&[("query", "a;b")], "unsupported characters"),
        (&[("query", "$(id)")], "unsupported characters"),
        (&[("query", &long)], "length must be"),
        (&[("query", "a"), ("query", "b"), ("query", "c"), ("query", "d"), ("query", "e")], "Too many"),
        (&[("query", "a"), ("boot", "1")], "boot: Invalid value"),
        (&[("query", "a"), ("tailLines", "100001")], "tailLines: Invalid value"),
        (&[("query", "a"), ("tailLines", "-1")], "tailLines: Invalid value"),
        (&[("query", "a"), ("pattern", "(")], "pattern: Invalid value"),
        (
            &[("query", "a"), ("sinceTime", "2026-01-02T00:00:00Z"), ("untilTime", "2026-01-01T00:00:00Z")],
            "untilTime: Invalid value",
        ),
    ] {
        let error = target(pairs).unwrap_err();
        assert!(error.contains(expected), "{pairs:?}: {error}");
    }
}

#[test]
fn options_become_separate_arguments() {
    let query = read(&[
        ("query", "kubelet"),
        ("sinceTime", "2026-01-02T03:04:05+02:00"),
        ("tailLines", "7"),
        ("pattern", "a b; rm"),
        ("boot", "-1"),
    ]);
    let arguments = query.unwrap().unwrap().journal_arguments(&["kubelet".into()]);
    let expected = [
        "--utc",
        "--no-pager",
        "--output=short-precise",
        "--since=2026-01-02 01:04:05 UTC",
        "--pager-end",
        "--lines=7",
        "--unit=kubelet",
        "--grep=a b; rm",
        "--boot",
        "-1",
    ];
    assert_eq!(arguments, expected);
}

#[test]
fn services_without_a_unit_use_files() {
    let split = split_by_journal(&["ssh".into(), "nginx".into()], "cron.service\nssh.service\n");
    assert_eq!(split, (vec!["ssh".to_owned()], vec!["nginx".to_owned()]));
    assert_eq!(likely_files("nginx"), ["nginx", "nginx.log", "nginx/nginx.log"]);
}

#[test]
fn folder_page_escapes_names() {
    let page = folder_page(&["a.log".into(), "pods/".into(), "<b>\"&".into(), "x:y".into()]);
    let expected = "<!doctype html>\n<meta name=\"viewport\" content=\"width=device-width\">\n<pre>\n\
        <a href=\"a.log\">a.log</a>\n<a href=\"pods/\">pods/</a>\n\
        <a href=\"%3Cb%3E%22&amp;\">&lt;b&gt;&#34;&amp;</a>\n<a href=\"./x:y\">x:y</a>\n</pre>\n";
    assert_eq!(page, expected);
}
