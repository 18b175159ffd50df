//! Entries of the audit log.

use sabakan_domain::audit::{Actor, AuditEntry};
use serde::{Deserialize, Serialize};

/// One change: a line of `/api/v1/logs`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AuditLogJson {
    /// When, RFC 3339.
    #[schema(example = "2030-01-02T03:04:05Z")]
    pub ts: String,
    /// The revision of the store that the change made, in decimal.
    #[schema(example = "1234")]
    pub rev: String,
    /// Who.
    pub user: String,
    /// From where.
    pub ip: String,
    /// On which server.
    pub host: String,
    /// About what: `ipam`, `dhcp`, `machines`, `crypts`, `tokens`.
    pub category: String,
    /// Which one of it; empty when there are several.
    pub instance: String,
    /// What was done.
    #[schema(example = "set-state")]
    pub action: String,
    /// With which values.
    #[schema(example = "healthy -> retiring")]
    pub detail: String,
    /// How `user` is known: `token`, `declared` (nothing proves it) or `internal`. Older servers do not say.
    #[serde(default)]
    pub known: String,
}

impl AuditLogJson {
    /// The shape of an entry that was written at a revision.
    pub fn new(entry: &AuditEntry, revision: impl std::fmt::Display) -> AuditLogJson {
        let AuditEntry { at, actor: Actor { name, known, ip }, host, category, instance, action, detail } = entry;
        AuditLogJson {
            ts: at.to_string(),
            rev: revision.to_string(),
            user: name.clone(),
            ip: ip.map(|ip| ip.to_string()).unwrap_or_default(),
            host: host.clone(),
            category: category.as_str().to_owned(),
            instance: instance.clone(),
            action: action.clone(),
            detail: detail.clone(),
            known: known.as_str().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use sabakan_domain::audit::{Category, Known};

    use super::*;

    #[test]
    fn every_value_is_a_text() {
        let entry = AuditEntry {
            at: "2030-01-02T03:04:05.678Z".parse().expect("a time"),
            actor: Actor { name: "yuri".into(), known: Known::Token, ip: Some([10, 0, 0, 1].into()) },
            host: "boot-0".into(),
            category: Category::Machines,
            instance: "1234abcd".into(),
            action: "put-label".into(),
            detail: "a/b".into(),
        };
        let shown = serde_json::to_string(&AuditLogJson::new(&entry, 17)).expect("JSON");
        let expected = concat!(
            r#"{"ts":"2030-01-02T03:04:05.678Z","rev":"17","user":"yuri","ip":"10.0.0.1","host":"boot-0","#,
            r#""category":"machines","instance":"1234abcd","action":"put-label","detail":"a/b","known":"token"}"#
        );
        assert_eq!(shown, expected);
        let internal = AuditEntry { actor: Actor::internal("planner"), ..entry };
        assert_eq!(AuditLogJson::new(&internal, 1).ip, "");
        let older = expected.replace(r#","known":"token""#, "");
        assert_eq!(serde_json::from_str::<AuditLogJson>(&older).expect("read").known, "");
    }
}
