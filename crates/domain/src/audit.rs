//! Who did what, when, from where: the entry that is written in the same transaction as every change (G9). It holds no key and no
//! credential, only names.

use std::net::IpAddr;

use jiff::Timestamp;

/// How the name of an actor is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// The caller says so; nothing proves it.
    Declared,
    /// The token it showed bears this name.
    Token,
    /// The server itself.
    Internal,
}

impl Known {
    /// Every way.
    pub const ALL: [Known; 3] = [Known::Declared, Known::Token, Known::Internal];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Known::Declared => "declared",
            Known::Token => "token",
            Known::Internal => "internal",
        }
    }
}

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor {
    /// Its name; may be empty when the caller declared none.
    pub name: String,
    /// How the name is known.
    pub known: Known,
    /// Where the request came from.
    pub ip: Option<IpAddr>,
}

impl Actor {
    /// A part of the server.
    pub fn internal(name: impl Into<String>) -> Actor {
        Actor { name: name.into(), known: Known::Internal, ip: None }
    }

    /// Who it is, for people: its name, or where it called from if it declared none.
    pub fn called(&self) -> String {
        match self.ip {
            _ if !self.name.is_empty() => self.name.clone(),
            Some(ip) => format!("somebody at {ip}"),
            None => "somebody".to_owned(),
        }
    }
}

/// What a change is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Category {
    /// IPAM configuration.
    Ipam,
    /// DHCP configuration.
    Dhcp,
    /// Machines.
    Machines,
    /// Disk keys.
    Crypts,
    /// Access tokens.
    Tokens,
    /// Provisioning.
    Nodes,
    /// The Kubernetes cluster: template, constraints, configuration.
    Cluster,
    /// Repair and reboot queues, incidents.
    Repair,
    /// A word of another service, shown as it is. Never written by this one.
    Other(Box<str>),
}

impl Category {
    /// The category of a stored word.
    pub fn stored(word: &str) -> Category {
        let known = Category::ALL.into_iter().find(|category| category.as_str() == word);
        known.unwrap_or_else(|| Category::Other(word.into()))
    }

    /// Every category this service writes.
    pub const ALL: [Category; 8] = [
        Category::Ipam,
        Category::Dhcp,
        Category::Machines,
        Category::Crypts,
        Category::Tokens,
        Category::Nodes,
        Category::Cluster,
        Category::Repair,
    ];

    /// The word for it.
    pub fn as_str(&self) -> &str {
        match self {
            Category::Ipam => "ipam",
            Category::Dhcp => "dhcp",
            Category::Machines => "machines",
            Category::Crypts => "crypts",
            Category::Tokens => "tokens",
            Category::Nodes => "nodes",
            Category::Cluster => "cluster",
            Category::Repair => "repair",
            Category::Other(word) => word,
        }
    }
}

/// One change, for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// When.
    pub at: Timestamp,
    /// Who.
    pub actor: Actor,
    /// On which server.
    pub host: String,
    /// About what.
    pub category: Category,
    /// Which one of it; empty when there are several.
    pub instance: String,
    /// What was done.
    pub action: String,
    /// With which values.
    pub detail: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_declares_no_name_is_called_by_its_address() {
        let at = Actor { name: String::new(), known: Known::Declared, ip: Some([10, 0, 0, 1].into()) };
        assert_eq!(at.called(), "somebody at 10.0.0.1");
        assert_eq!(Actor { name: "op".to_owned(), ..at }.called(), "op");
        assert_eq!(Actor { ip: None, ..at }.called(), "somebody");
    }

    #[test]
    fn words_are_distinct() {
        let words: std::collections::HashSet<_> = Category::ALL.iter().map(|c| c.as_str()).collect();
        assert_eq!(words.len(), Category::ALL.len());
        for word in ["machines", "image", "assets", "ignition", "ipxe", ""] {
            let category = Category::stored(word);
            assert_eq!(category.as_str(), word);
            assert_eq!(matches!(category, Category::Other(_)), word != "machines", "{word}");
        }
        let words: std::collections::HashSet<_> = Known::ALL.iter().map(|k| k.as_str()).collect();
        assert_eq!(words.len(), Known::ALL.len());
    }
}
