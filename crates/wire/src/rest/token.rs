//! Access tokens and stored keys.

use serde::{Deserialize, Serialize};

/// A token to make.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default)]
pub struct TokenRequest {
    /// Who uses it; the name in the audit log.
    pub name: String,
    /// `admin`, `operator`, `machine` or `read`.
    pub role: String,
    /// The machine a token of role `machine` is bound to: it opens the disk keys of this one and of no other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
}

/// A token that was made. Its text is shown once.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct NewTokenJson {
    /// Names it, for revoking.
    pub id: String,
    /// Who uses it.
    pub name: String,
    /// What it may do.
    pub role: String,
    /// The machine it is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// The secret text: send it as `Authorization: Bearer <token>`.
    pub token: String,
}

/// A token without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TokenJson {
    /// Names it, for revoking.
    pub id: String,
    /// Who uses it.
    pub name: String,
    /// What it may do.
    pub role: String,
    /// The machine it is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// When it was made, RFC 3339.
    pub created: String,
}

/// The answer to a stored disk key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct StoredKeyJson {
    /// 201.
    pub status: u16,
    /// The disk.
    pub path: String,
}
