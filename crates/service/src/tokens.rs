//! Access tokens: made, listed, revoked, and recognised when a caller shows one.

use std::sync::Arc;

use sabakan_domain::{
    access::{TokenGrant, TokenRole},
    audit::Actor,
    words::Serial,
};
use sabakan_store::{records::TokenRecord, repo::tokens};

use crate::{
    Foundation, ServiceError,
    token::{self, TokenRecordFields, TokenText},
};

/// Makes, lists, revokes and recognises tokens.
pub struct Tokens {
    on: Arc<Foundation>,
}

/// A token without its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenInfo {
    /// Names it.
    pub id: String,
    /// What is stored of it.
    pub record: TokenRecord,
}

/// A token that a caller showed, found and compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecognisedToken {
    /// Names it.
    pub id: String,
    /// Names its holder in the audit log.
    pub name: String,
    /// What it is good for.
    pub grant: TokenGrant,
}

impl Tokens {
    /// Works on a foundation.
    pub fn new(on: Arc<Foundation>) -> Tokens {
        Tokens { on }
    }

    /// Makes a token. The text returned is the only place where its secret ever is. The machine it is bound to need not be
    /// registered yet.
    pub async fn create(
        &self,
        actor: &Actor,
        name: &str,
        role: TokenRole,
        serial: Option<Serial>,
    ) -> Result<TokenText, ServiceError> {
        if serial.is_some() && role != TokenRole::Machine {
            let text = format!(
                "only a token of role machine is bound to a serial; role {role} gives the same for every machine"
            );
            return Err(ServiceError::Invalid(text));
        }
        if name.is_empty() || name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
            return Err(ServiceError::Invalid(format!(
                "the name of a token has 1 to {NAME_BYTES_MAX} printable bytes"
            )));
        }
        let on = &self.on;
        let (text, fields) = token::issue(name, (role, serial), on.clock.now())?;
        let TokenRecordFields { id, name, role, serial, sha256, created } = fields;
        let record = TokenRecord { name, role, serial, sha256: hex::encode(sha256), created };
        let bound = record.serial.as_ref().map(|serial| format!(" {serial}")).unwrap_or_default();
        let description = format!("{} {role}{bound}", record.name);
        tokens::create(&*on.store, &on.keys, &on.by(actor), &id, &record.to_bytes(), &description).await?;
        tracing::info!(id, name = record.name, %role, user = actor.name, "token created");
        Ok(text)
    }

    /// Every token, by id.
    pub async fn list(&self) -> Result<Vec<TokenInfo>, ServiceError> {
        let stored = tokens::list(&*self.on.store, &self.on.keys).await?;
        let info = |(id, value): (String, bytes::Bytes)| {
            let Some(record) = TokenRecord::from_bytes(&value) else {
                tracing::warn!(id, "a stored token cannot be read and is left out");
                return None;
            };
            Some(TokenInfo { id, record })
        };
        Ok(stored.into_iter().filter_map(info).collect())
    }

    /// Takes a token away.
    pub async fn revoke(&self, actor: &Actor, id: &str) -> Result<(), ServiceError> {
        let on = &self.on;
        tokens::revoke(&*on.store, &on.keys, &on.by(actor), id).await?;
        tracing::info!(id, user = actor.name, "token revoked");
        Ok(())
    }

    /// Whose token this is; `None`: nobody's.
    pub async fn recognise(&self, text: &str) -> Result<Option<RecognisedToken>, ServiceError> {
        let Ok(shown) = TokenText::parse(text) else { return Ok(None) };
        let snapshot = self.on.view.read().await?;
        let record = snapshot.find_token(shown.id()).and_then(|value| TokenRecord::from_bytes(value));
        let Some(TokenRecord { name, role, serial, sha256, created }) = record else { return Ok(None) };
        let mut hash = [0; 32];
        if hex::decode_to_slice(&sha256, &mut hash).is_err() {
            return Ok(None);
        }
        let fields = TokenRecordFields { id: shown.id().to_owned(), name, role, serial, sha256: hash, created };
        let matches = shown.matches(&fields);
        let TokenRecordFields { id, name, role, serial, .. } = fields;
        Ok(matches.then_some(RecognisedToken { id, name, grant: TokenGrant { role, serial } }))
    }

    /// Whether a token is there, as far as this server knows. For those who showed it a while ago and are still served.
    pub fn is_known(&self, id: &str) -> bool {
        self.on.view.latest_known().find_token(id).is_some()
    }

    /// Whether somebody can still manage tokens when addresses give no right.
    pub async fn has_admin(&self) -> Result<bool, ServiceError> {
        Ok(self.list().await?.iter().any(|token| token.record.role == TokenRole::Admin))
    }
}

/// Longest name of a token: it stands in every line of the log it causes.
const NAME_BYTES_MAX: usize = 63;
