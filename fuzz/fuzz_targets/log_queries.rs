//! Any pairs as a query: accepted or rejected; values passed to journalctl cannot become other options.
#![no_main]

use decide::logs::container_logs::LogOptions;
use decide::logs::node_logs::{LogTarget, NodeLogQuery, folder_page};
use libfuzzer_sys::fuzz_target;
use model::Timestamp;

fuzz_target!(|pairs: Vec<(String, String)>| {
    let _ = LogOptions::read(&pairs, true, Timestamp::from_secs(1_000_000_000));
    if let Ok(Some(query)) = NodeLogQuery::read(&pairs)
        && let Ok(LogTarget::Services(services)) = query.target()
    {
        assert!(services.len() <= 4);
        let arguments = query.journal_arguments(&services);
        let known = [
            "--utc",
            "--no-pager",
            "--output=",
            "--since=",
            "--until=",
            "--pager-end",
            "--lines=",
            "--unit=",
            "--grep=",
            "--boot",
        ];
        for (index, argument) in arguments.iter().enumerate() {
            let boot = index > 0 && arguments[index - 1] == "--boot" && argument.parse::<i64>().is_ok();
            assert!(boot || known.iter().any(|start| argument.starts_with(start)), "{argument:?}");
        }
    }
    let names: Vec<String> = pairs.into_iter().map(|(name, _)| name).collect();
    let page = folder_page(&names);
    assert_eq!(page.matches("<a href").count(), names.len());
});
