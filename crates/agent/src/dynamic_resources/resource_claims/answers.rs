//! The answer of a driver to one call for several claims.

use model::ClaimReference;
use ports::plugins::dra::ClaimResults;

/// A defect of an answer. The texts follow the name of the call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    #[error("failed for ResourceClaim {name}: {message}")]
    Failed { name: String, message: String },
    #[error("returned result for unknown claim UID {0}")]
    UnknownClaim(String),
    #[error("skipped {0} ResourceClaims")]
    Skipped(usize),
}

/// Passes each successful result on, also when others failed, and returns the first problem.
pub(super) fn recorded<T>(
    claims: &[ClaimReference],
    results: ClaimResults<T>,
    mut record: impl FnMut(&ClaimReference, T),
) -> Result<(), AnswerError> {
    let (mut first, mut answered) = (Ok(()), 0);
    for (uid, result) in results {
        let problem = match (claims.iter().find(|claim| claim.uid == uid), result) {
            (None, _) => AnswerError::UnknownClaim(uid),
            (Some(claim), Err(message)) => {
                answered += 1;
                AnswerError::Failed { name: claim.name.clone(), message }
            }
            (Some(claim), Ok(value)) => {
                answered += 1;
                record(claim, value);
                continue;
            }
        };
        first = first.and(Err(problem));
    }
    let skipped = claims.len().saturating_sub(answered);
    first.and(if skipped == 0 { Ok(()) } else { Err(AnswerError::Skipped(skipped)) })
}
