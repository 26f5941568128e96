//! Volume statistics from CSI drivers.

use std::path::Path;

use model::usage::{DiskUse, FilesystemRoom};
use ports::plugins::csi::{CsiNode, CsiVolumeState};

/// Use and condition of a volume.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DriverStatistics {
    pub(super) room: FilesystemRoom,
    pub(super) used: DiskUse,
    /// Whether the volume is abnormal, if the driver reports conditions.
    pub(super) is_abnormal: Option<bool>,
    /// The driver's description of the condition.
    pub(super) message: String,
}

/// The result of a call.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum DriverAnswer {
    Figures(DriverStatistics),
    /// The driver does not report volume statistics.
    NotCounting,
    /// The call failed; the last values are kept.
    Nothing,
}

pub(super) async fn read_from_driver(driver: &dyn CsiNode, handle: &str, path: &Path) -> DriverAnswer {
    let abilities = match driver.capabilities().await {
        Ok(abilities) => abilities,
        Err(error) => {
            tracing::debug!(%error, handle, "failed to read the capabilities of the driver");
            return DriverAnswer::Nothing;
        }
    };
    if !abilities.stats {
        return DriverAnswer::NotCounting;
    }
    match driver.usage(handle, path).await {
        Ok(mut state) => {
            state.is_abnormal = state.is_abnormal.filter(|_| abilities.condition);
            DriverAnswer::Figures(statistics(&state))
        }
        Err(error) => {
            tracing::debug!(%error, handle, "failed to read volume statistics from the driver");
            DriverAnswer::Nothing
        }
    }
}

fn statistics(state: &CsiVolumeState) -> DriverStatistics {
    let mut found = DriverStatistics {
        room: FilesystemRoom::default(),
        used: DiskUse::default(),
        is_abnormal: state.is_abnormal,
        message: state.message.clone(),
    };
    for usage in &state.usage {
        let [total, available, used] =
            [usage.total, usage.available, usage.used].map(|value| u64::try_from(value).unwrap_or_default());
        if usage.is_inodes {
            (found.room.inodes, found.room.inodes_free, found.used.inodes) = (total, available, used);
        } else {
            (found.room.capacity, found.room.available, found.room.used) = (total, available, used);
            found.used.bytes = used;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use ports::plugins::csi::CsiUsage;

    use super::*;

    #[test]
    fn distinguishes_bytes_and_inodes() {
        let usage = |is_inodes, total| CsiUsage { is_inodes, available: total - 3, total, used: 2 };
        let state = CsiVolumeState {
            usage: vec![usage(false, 100), usage(true, 10)],
            is_abnormal: Some(true),
            message: "cracked".into(),
        };
        let found = statistics(&state);
        assert_eq!((found.room.capacity, found.room.available, found.room.used), (100, 97, 2));
        assert_eq!((found.room.inodes, found.room.inodes_free), (10, 7));
        assert_eq!(found.message, "cracked");
        assert_eq!((found.used, found.is_abnormal), (DiskUse { bytes: 2, inodes: 2 }, Some(true)));
        let broken = CsiUsage { is_inodes: false, available: -1, total: -1, used: -1 };
        assert_eq!(
            statistics(&CsiVolumeState { usage: vec![broken], ..CsiVolumeState::default() }).room,
            FilesystemRoom::default()
        );
    }
}
