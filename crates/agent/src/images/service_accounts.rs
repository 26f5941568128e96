//! Service accounts of pods, as credential provider programs receive them.

use std::sync::Arc;

use decide::images::credentials::passed_annotations;
use decide::projected::service_account_tokens::token_request;
use model::{AccountIdentity, Pod, ProviderToken, TokenRequest, TokenSpec};
use ports::api::service_accounts::ApiServiceAccounts;

use crate::cluster::tokens::Tokens;

#[derive(Clone)]
pub struct ServiceAccounts {
    pub accounts: Arc<dyn ApiServiceAccounts>,
    /// Tokens are bound to pods and dropped with them.
    pub tokens: Arc<Tokens>,
}

/// Whether a program is run for a pod, and with which service account.
#[derive(Debug)]
pub(super) enum ProviderAccount {
    Account(AccountIdentity),
    /// The pod has no account, and the program does not require one.
    NotRequired,
    /// The program is not run for this pod.
    Excluded,
}

impl ServiceAccounts {
    pub(super) async fn account_for_provider(
        &self,
        token: &ProviderToken,
        pod: &Pod,
        account: &str,
    ) -> Result<ProviderAccount, String> {
        let account = self.accounts.get(pod.namespace(), account).await;
        let account = account.map_err(|error| format!("failed to get service account: {error}"))?;
        let Some(annotations) = passed_annotations(token, &account.annotations) else {
            return Ok(ProviderAccount::Excluded);
        };
        let wish = TokenSpec { audiences: vec![token.audience.clone()], expiration_seconds: None };
        let request = TokenRequest { account_uid: Some(account.uid.clone()), ..token_request(pod, wish) };
        let issued = self.tokens.get_on_demand(&request).await;
        let issued = issued.map_err(|error| format!("failed to get service account token: {error}"))?;
        Ok(ProviderAccount::Account(AccountIdentity {
            namespace: pod.namespace().to_owned(),
            name: account.name,
            uid: account.uid,
            annotations,
            token: issued.token,
        }))
    }
}
