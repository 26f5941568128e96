//! What CSI drivers say of volumes.

use std::path::Path;

use model::usage::{DiskUse, FilesystemRoom};
use ports::csi::{CsiNode, CsiVolumeState};

/// What a driver says of a volume.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DriverFigures {
    pub(super) room: FilesystemRoom,
    pub(super) used: DiskUse,
    /// Whether something is wrong with the volume, from a driver that knows.
    pub(super) is_abnormal: Option<bool>,
    /// What is wrong, in the driver's words.
    pub(super) message: String,
}

/// What became of a question.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Told {
    /// The driver counts.
    Figures(DriverFigures),
    /// It does not count what volumes hold.
    NotCounting,
    /// It did not answer well; what was known before stands.
    Nothing,
}

/// Asks a driver.
pub(super) async fn ask(driver: &dyn CsiNode, handle: &str, path: &Path) -> Told {
    let abilities = match driver.capabilities().await {
        Ok(abilities) => abilities,
        Err(error) => {
            tracing::debug!(%error, handle, "the driver does not say whether it counts what volumes hold");
            return Told::Nothing;
        }
    };
    if !abilities.stats {
        return Told::NotCounting;
    }
    match driver.usage(handle, path).await {
        Ok(mut state) => {
            state.is_abnormal = state.is_abnormal.filter(|_| abilities.condition);
            Told::Figures(figures(&state))
        }
        Err(error) => {
            tracing::debug!(%error, handle, "the driver does not say what the volume holds");
            Told::Nothing
        }
    }
}

fn figures(state: &CsiVolumeState) -> DriverFigures {
    let mut found = DriverFigures {
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
    use ports::csi::CsiUsage;

    use super::*;

    #[test]
    fn bytes_and_inodes_are_told_apart() {
        let usage = |is_inodes, total| CsiUsage { is_inodes, available: total - 3, total, used: 2 };
        let state = CsiVolumeState {
            usage: vec![usage(false, 100), usage(true, 10)],
            is_abnormal: Some(true),
            message: "cracked".into(),
        };
        let found = figures(&state);
        assert_eq!((found.room.capacity, found.room.available, found.room.used), (100, 97, 2));
        assert_eq!((found.room.inodes, found.room.inodes_free), (10, 7));
        assert_eq!(found.message, "cracked");
        assert_eq!((found.used, found.is_abnormal), (DiskUse { bytes: 2, inodes: 2 }, Some(true)));
        let broken = CsiUsage { is_inodes: false, available: -1, total: -1, used: -1 };
        assert_eq!(
            figures(&CsiVolumeState { usage: vec![broken], ..CsiVolumeState::default() }).room,
            FilesystemRoom::default()
        );
    }
}
