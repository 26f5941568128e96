//! Networks of the machine and of sandboxes.

use model::metric_family::MetricFamily;
use model::usage::InterfaceUsage;

use super::Row;
use crate::statistics::families::{count, counter, timed};

type Value = (&'static str, &'static str, fn(&InterfaceUsage) -> u64);

const VALUES: [Value; 8] = [
    ("container_network_receive_bytes_total", "Bytes received", |one| one.received.bytes),
    ("container_network_receive_errors_total", "Errors while receiving", |one| one.received.errors),
    ("container_network_receive_packets_total", "Packets received", |one| one.received.packets),
    ("container_network_receive_packets_dropped_total", "Packets dropped while receiving", |one| {
        one.received.dropped
    }),
    ("container_network_transmit_bytes_total", "Bytes sent", |one| one.sent.bytes),
    ("container_network_transmit_errors_total", "Errors while sending", |one| one.sent.errors),
    ("container_network_transmit_packets_total", "Packets sent", |one| one.sent.packets),
    ("container_network_transmit_packets_dropped_total", "Packets dropped while sending", |one| {
        one.sent.dropped
    }),
];

/// Traffic by interface.
pub(super) fn families(rows: &[Row<'_>]) -> Vec<MetricFamily> {
    let family = |(name, help, value): Value| {
        let series = rows.iter().flat_map(|row| {
            row.network.iter().map(move |one| {
                let labels = row.names.with(&[("interface", &one.name)]);
                timed(labels, count(value(one)), row.reading.usage.time)
            })
        });
        counter(name, help, series)
    };
    VALUES.into_iter().map(family).collect()
}
