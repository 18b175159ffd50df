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
        // The older service writes down what the connection said, which may have a zone (`fe80::1%eth0`) or be no address at all.
        let address = ip.split('%').next().and_then(|ip| ip.parse().ok());
        let user = if ip.is_empty() || address.is_some() { user } else { format!("{user} (from {ip})") };
        Ok(AuditEntry {
            at: ts,
            actor: Actor {
                name: user,
                known: known.as_ref().and_then(known_by).unwrap_or(Known::Declared),
                ip: address,
            },
            host,
            category: Category::stored(&category),
            instance,
            action,
            detail,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_the_older_service_are_shown_as_they_are() {
        let check = |category: &str, ip: &str, user: &str, address: Option<&str>| {
            let stored = format!(
                r#"{{"ts":"2020-01-02T03:04:05.6Z","rev":"17","user":"op","ip":"{ip}","host":"boot-0","category":"{category}",
                    "instance":"coreos","action":"upload","detail":"id=1"}}"#
            );
            let record: AuditRecord = serde_json::from_str(&stored).expect("a record");
            let entry = AuditEntry::try_from(record).expect("an entry");
            assert_eq!(entry.category.as_str(), category);
            assert_eq!((entry.actor.name.as_str(), entry.actor.ip), (user, address.and_then(|ip| ip.parse().ok())));
            assert_eq!(entry.actor.known, Known::Declared);
        };
        check("machines", "10.0.0.1", "op", Some("10.0.0.1"));
        check("image", "10.0.0.1", "op", Some("10.0.0.1"));
        check("assets", "fe80::1%eth0", "op", Some("fe80::1"));
        check("ignition", "", "op", None);
        check("ipxe", "@", "op (from @)", None);
    }
}
