//! Limits of a container and the files that they are written to.

use std::collections::BTreeMap;

use thiserror::Error;

/// Limits that CRI can set. A field without a value is left unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    pub cpu_shares: Option<u64>,
    /// Microseconds per period; negative means no limit.
    pub cpu_quota: Option<i64>,
    pub cpu_period: Option<u64>,
    pub cpuset_cpus: Option<String>,
    pub cpuset_mems: Option<String>,
    /// Bytes; negative means no limit.
    pub memory_limit: Option<i64>,
    /// Bytes of memory and swap together; negative means no limit.
    pub memory_swap_limit: Option<i64>,
    /// Bytes by page size, which is spelled like `2MB`.
    pub hugepage_limits: BTreeMap<String, u64>,
    /// Files of cgroup v2 and their content.
    pub unified: BTreeMap<String, String>,
}

#[derive(Debug, Error, PartialEq, Eq)]
pub enum ResourcesError {
    #[error("resource {0:?} needs cgroup v2")]
    NeedsV2(String),
    #[error("{0:?} is not the name of a cgroup file")]
    FileName(String),
    #[error("the limit of memory and swap, {swap}, is below the memory limit, {memory}")]
    SwapBelowMemory { swap: i64, memory: i64 },
}

/// One value for one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileWrite {
    pub controller: String,
    pub file: String,
    pub value: String,
    /// Whether a missing file is an error.
    pub file_required: Required,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Required {
    Yes,
    No,
}

impl FileWrite {
    pub(super) fn new(controller: &str, file: &str, value: &str) -> Self {
        Self {
            controller: controller.to_owned(),
            file: file.to_owned(),
            value: value.to_owned(),
            file_required: Required::Yes,
        }
    }

    pub(super) fn if_present(self) -> Self {
        Self { file_required: Required::No, ..self }
    }
}

impl Resources {
    /// The limit of memory and swap together. With a memory limit alone there is no swap, as on other runtimes.
    pub(super) fn effective_swap_limit(&self) -> Result<Option<i64>, ResourcesError> {
        let swap = match self.memory_swap_limit {
            None | Some(0) => return Ok(self.memory_limit.filter(|limit| *limit != 0)),
            Some(swap) => swap,
        };
        match self.memory_limit {
            Some(memory) if swap >= 0 && swap < memory => {
                Err(ResourcesError::SwapBelowMemory { swap, memory })
            }
            Some(_) | None => Ok(Some(swap)),
        }
    }
}

/// Hugepage sizes become parts of file names.
pub(super) fn check_page_size(size: &str) -> Result<(), ResourcesError> {
    let digits = size.trim_end_matches("KB").trim_end_matches("MB").trim_end_matches("GB");
    let valid =
        !digits.is_empty() && digits.len() < size.len() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if valid { Ok(()) } else { Err(ResourcesError::FileName(size.to_owned())) }
}
