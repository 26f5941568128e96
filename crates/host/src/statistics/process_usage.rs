//! Resource use of this process, from `/proc/self`.

use ports::host::process_usage::{ProcessNumbers, ProcessUsage};

#[derive(Clone, Copy, Debug, Default)]
pub struct OwnProcessUsage;

impl ProcessUsage for OwnProcessUsage {
    fn read(&self) -> Option<ProcessNumbers> {
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        let boot = std::fs::read_to_string("/proc/stat").ok()?;
        let open_files = std::fs::read_dir("/proc/self/fd").ok()?.count();
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let mut numbers = numbers(&stat, &boot, rustix::param::page_size())?;
        numbers.open_files = u64::try_from(open_files).ok()?;
        numbers.max_open_files = limit.unwrap_or(u64::MAX);
        let space = rustix::process::getrlimit(rustix::process::Resource::As).current;
        numbers.max_virtual_bytes = space.unwrap_or(u64::MAX);
        let traffic = std::fs::read_to_string("/proc/self/net/netstat").unwrap_or_default();
        (numbers.received_bytes, numbers.sent_bytes) = traffic_of(&traffic).unwrap_or_default();
        Some(numbers)
    }
}

/// Clock ticks per second in `/proc`.
const TICKS_PER_SECOND: f64 = 100.0;

fn numbers(stat: &str, boot: &str, page: usize) -> Option<ProcessNumbers> {
    // The name may contain spaces and parentheses; only numbers follow the last one.
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    // The first one is field 3 in proc(5).
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    let booted: u64 = boot.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    let seconds = |ticks: u64| ticks as f64 / TICKS_PER_SECOND;
    Some(ProcessNumbers {
        cpu_seconds: seconds(number(14)? + number(15)?),
        virtual_bytes: number(23)?,
        resident_bytes: number(24)? * u64::try_from(page).ok()?,
        started: booted as f64 + seconds(number(22)?),
        ..ProcessNumbers::default()
    })
}

/// Received and sent bytes in a file such as `/proc/self/net/netstat`: a line of names, then a line of values.
fn traffic_of(text: &str) -> Option<(u64, u64)> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("IpExt: "));
    let (names, values) = (lines.next()?, lines.next()?);
    let value = |field_name: &str| {
        let mut pairs = names.split(' ').zip(values.split(' '));
        pairs.find(|(name, _)| *name == field_name)?.1.parse().ok()
    };
    Some((value("InOctets")?, value("OutOctets")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_fields_of_proc_stat() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 4194560 900 0 0 0 250 50 0 0 20 0 3 0 12300 104857600 2560 1 1";
        let read = numbers(stat, "cpu 1 2\nbtime 1000\nprocesses 9\n", 4096).unwrap();
        assert_eq!(
            read,
            ProcessNumbers {
                cpu_seconds: 3.0,
                resident_bytes: 2560 * 4096,
                virtual_bytes: 104_857_600,
                started: 1123.0,
                ..ProcessNumbers::default()
            }
        );
        assert_eq!(numbers("broken", "", 4096), None);
    }

    #[test]
    fn finds_traffic_by_name() {
        let text = "TcpExt: A B\nTcpExt: 1 2\nIpExt: InNoRoutes InOctets OutOctets\nIpExt: 7 8 9\n";
        assert_eq!(traffic_of(text), Some((8, 9)));
        assert_eq!(traffic_of("IpExt: InOctets\n"), None);
    }

    #[test]
    fn reads_usage_of_this_process() {
        let read = OwnProcessUsage.read().unwrap();
        assert!(read.resident_bytes > 0 && read.open_files > 0 && read.started > 0.0, "{read:?}");
    }
}
