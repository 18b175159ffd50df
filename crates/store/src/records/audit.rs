//! An audit entry as stored under `audit/<day>/<id>`.

use jiff::Timestamp;
use sabakan_domain::audit::{Actor, AuditEntry, Category, Known};
use serde::{Deserialize, Serialize};

/// `audit/<day>/<id>`. The older service stores the revision too; here it is the revision of the key itself.
#[derive(Debug, Serialize, Deserialize)]
pub struct AuditRecord {
    ts: Timestamp,
    user: String,
    /// How the name is known; entries of the older service do not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    known: Option<String>,
    ip: String,
    host: String,
    category: String,
    instance: String,
    action: String,
    detail: String,
}

impl From<&AuditEntry> for AuditRecord {
    fn from(entry: &AuditEntry) -> AuditRecord {
        let AuditEntry { at, actor: Actor { name, known, ip }, host, category, instance, action, detail } = entry;
        AuditRecord {
            ts: *at,
            user: name.clone(),
            known: Some(known.as_str().to_owned()),
            ip: ip.map(|ip| ip.to_string()).unwrap_or_default(),
            host: host.clone(),
            category: category.as_str().to_owned(),
            instance: instance.clone(),
            action: action.clone(),
            detail: detail.clone(),
        }
    }
}

impl TryFrom<AuditRecord> for AuditEntry {
    type Error = String;

    fn try_from(record: AuditRecord) -> Result<AuditEntry, String> {
        let AuditRecord { ts, user, known, ip, host, category, instance, action, detail } = record;
        let known_by = |word: &String| Known::ALL.into_iter().find(|k| k.as_str() == word);
        let of_word = Category::ALL.into_iter().find(|c| c.as_str() == category);
        Ok(AuditEntry {
            at: ts,
            actor: Actor {
                name: user,
                known: known.as_ref().map_or(Some(Known::Declared), known_by).ok_or("unknown kind of actor")?,
                ip: (!ip.is_empty()).then(|| ip.parse()).transpose().map_err(|_| format!("{ip} is no address"))?,
            },
            host,
            category: of_word.ok_or_else(|| format!("unknown category {category}"))?,
            instance,
            action,
            detail,
        })
    }
}
