//! What the API server wrote down about the product's requests.

use serde_json::Value;

/// One request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRecord {
    /// As in rights: `list`, `patch`, `create`.
    pub verb: String,
    /// As in rights: `nodes`, `pods/eviction`; with its group where it has one, `coordination.k8s.io/leases`.
    pub resource: String,
    /// The status code of the answer.
    pub code: u64,
    /// Who it said it was.
    pub agent: String,
    /// What was asked for, with its parameters.
    pub uri: String,
}

impl AuditRecord {
    /// Reads a line; one that is not complete yet is none.
    pub fn read(line: &str) -> Option<AuditRecord> {
        let entry: Value = serde_json::from_str(line).ok()?;
        let (text, reference) = (|name: &str| entry[name].as_str().unwrap_or_default().to_owned(), &entry["objectRef"]);
        Some(AuditRecord {
            verb: text("verb"),
            resource: resource(
                reference["apiGroup"].as_str(),
                reference["resource"].as_str().unwrap_or_default(),
                reference["subresource"].as_str(),
            ),
            code: entry["responseStatus"]["code"].as_u64().unwrap_or_default(),
            agent: text("userAgent"),
            uri: text("requestURI"),
        })
    }

    /// The right it takes, as in `list nodes`.
    pub fn right(&self) -> String {
        format!("{} {}", self.verb, self.resource)
    }
}

fn resource(group: Option<&str>, resource: &str, subresource: Option<&str>) -> String {
    let group = group.filter(|group| !group.is_empty()).map(|group| format!("{group}/")).unwrap_or_default();
    let subresource = subresource.map(|name| format!("/{name}")).unwrap_or_default();
    // An eviction is of a group of its own, but the right to it belongs to the pod.
    let group = if subresource == "/eviction" { String::new() } else { group };
    format!("{group}{resource}{subresource}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_told_as_roles_tell_them() {
        for (group, name, subresource, expected) in [
            (None, "nodes", None, "nodes"),
            (Some(""), "pods", None, "pods"),
            (Some("policy"), "pods", Some("eviction"), "pods/eviction"),
            (Some("coordination.k8s.io"), "leases", None, "coordination.k8s.io/leases"),
        ] {
            assert_eq!(resource(group, name, subresource), expected);
        }
        assert_eq!(AuditRecord::read("{\"verb\""), None);
    }
}
