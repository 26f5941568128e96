//! What credential provider programs are told of the service accounts of pods.

use std::sync::Arc;

use decide::credentials::told_annotations;
use decide::service_account_tokens::token_request;
use model::{AccountProof, Pod, ProviderToken, TokenRequest, TokenWish};
use ports::api::service_accounts::ApiServiceAccounts;

use crate::tokens::Tokens;

/// Service accounts of a cluster and their tokens.
#[derive(Clone)]
pub struct Accounts {
    /// The accounts.
    pub accounts: Arc<dyn ApiServiceAccounts>,
    /// Their tokens, which go with the pods that they are bound to.
    pub tokens: Arc<Tokens>,
}

/// Whether a program is asked for a pod, and for whom.
#[derive(Debug)]
pub(super) enum Proof {
    /// For this account.
    Account(AccountProof),
    /// The pod has no account, and the program does not need one.
    Unneeded,
    /// The program has nothing for this pod.
    Excluded,
}

impl Accounts {
    /// The account of a pod, with a token for the program.
    pub(super) async fn proof(
        &self,
        token: &ProviderToken,
        pod: &Pod,
        account: &str,
    ) -> Result<Proof, String> {
        let account = self.accounts.get(pod.namespace(), account).await;
        let account = account.map_err(|error| format!("failed to get service account: {error}"))?;
        let Some(annotations) = told_annotations(token, &account.annotations) else {
            return Ok(Proof::Excluded);
        };
        let wish = TokenWish { audiences: vec![token.audience.clone()], expiration_seconds: None };
        let request = TokenRequest { account_uid: Some(account.uid.clone()), ..token_request(pod, wish) };
        let issued = self.tokens.get_on_demand(&request).await;
        let issued = issued.map_err(|error| format!("failed to get service account token: {error}"))?;
        Ok(Proof::Account(AccountProof {
            namespace: pod.namespace().to_owned(),
            name: account.name,
            uid: account.uid,
            annotations,
            token: issued.token,
        }))
    }
}
