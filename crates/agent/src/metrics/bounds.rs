//! Upper bounds of histograms.

/// Pod start durations, in seconds.
pub(super) const STARTUP: &[f64] = &[
    0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 20.0, 30.0, 45.0, 60.0, 120.0, 180.0, 240.0, 300.0, 360.0,
    480.0, 600.0, 900.0, 1200.0, 1800.0, 2700.0, 3600.0,
];

/// Image pull durations, in seconds.
pub(super) const PULL: &[f64] = &[
    1.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 180.0, 240.0, 300.0, 360.0, 480.0, 600.0, 900.0, 1200.0, 1800.0,
    2700.0, 3600.0,
];

/// Status write durations, in seconds.
pub(super) const STATUS_SYNC: &[f64] = &[0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0];

/// Resize durations, in milliseconds.
pub(super) const RESIZE: &[f64] =
    &[10.0, 50.0, 100.0, 500.0, 1e3, 2e3, 5e3, 1e4, 2e4, 3e4, 6e4, 1.2e5, 3e5, 6e5];

/// Durations of the topology manager, in milliseconds.
pub(super) const TOPOLOGY_ADMISSION: &[f64] =
    &[0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6, 819.2];
