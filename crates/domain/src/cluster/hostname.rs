//! Names of nodes in Kubernetes, where they are not their addresses: a pattern of the node template with a few placeholders.
//!
//! A pattern is judged once, when somebody sets a template. What it makes of a machine is judged in every plan, because serials and
//! roles may have characters that no name in Kubernetes has.

use std::{collections::BTreeMap, fmt, net::IpAddr};

use super::{
    attributes,
    config::Node,
    input::ListedMachine,
    names::{is_dns_subdomain, rules::DNS_SUBDOMAIN},
    shape::{Problem, quote},
};
use crate::limits::HOSTNAME_PATTERN_BYTES_MAX;

/// What is put in from the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostnamePlaceholder {
    /// Its serial.
    Serial,
    /// The number of its rack.
    Rack,
    /// Its place there.
    IndexInRack,
    /// Its role.
    Role,
    /// Its address, `10.0.0.1`.
    Address,
    /// Its address, `10-0-0-1`.
    AddressDashed,
}

impl HostnamePlaceholder {
    /// Every one.
    pub const ALL: [HostnamePlaceholder; 6] = [
        HostnamePlaceholder::Serial,
        HostnamePlaceholder::Rack,
        HostnamePlaceholder::IndexInRack,
        HostnamePlaceholder::Role,
        HostnamePlaceholder::Address,
        HostnamePlaceholder::AddressDashed,
    ];

    /// What stands between the braces.
    pub const fn as_str(self) -> &'static str {
        match self {
            HostnamePlaceholder::Serial => "serial",
            HostnamePlaceholder::Rack => "rack",
            HostnamePlaceholder::IndexInRack => "index-in-rack",
            HostnamePlaceholder::Role => "role",
            HostnamePlaceholder::Address => "address",
            HostnamePlaceholder::AddressDashed => "address-dashed",
        }
    }

    fn value(self, machine: &ListedMachine, address: IpAddr) -> String {
        match self {
            HostnamePlaceholder::Serial => machine.serial.to_string(),
            HostnamePlaceholder::Rack => machine.rack.to_string(),
            HostnamePlaceholder::IndexInRack => machine.index_in_rack.to_string(),
            HostnamePlaceholder::Role => machine.role.to_string(),
            HostnamePlaceholder::Address => address.to_string(),
            HostnamePlaceholder::AddressDashed => address.to_string().replace(['.', ':'], "-"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Of(HostnamePlaceholder),
}

/// How nodes are called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostnamePattern {
    pieces: Vec<Piece>,
}

/// Why a text is no pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostnamePatternError {
    /// Too long.
    #[error("has {0} bytes; at most {HOSTNAME_PATTERN_BYTES_MAX} are allowed")]
    TooLong(usize),
    /// `{` without `}` or the other way round.
    #[error("has a brace without its counterpart; placeholders look like {{serial}}")]
    Brace,
    /// No such placeholder.
    #[error("{} is no placeholder; known: {known}", quote(.0), known = known())]
    Unknown(String),
    /// A text between placeholders that cannot be in a name.
    #[error("{} cannot be in a name: a name has small letters, digits, `-` and `.`", quote(.0))]
    Character(String),
    /// No machine gives a valid name.
    #[error("cannot make a name: {}", DNS_SUBDOMAIN.text)]
    Shape,
    /// Several nodes would get the same name.
    #[error(
        "would give several nodes the same name; it needs {{serial}}, {{address}} or {{address-dashed}}, or both {{rack}} and \
         {{index-in-rack}}. Leave it out to name nodes by their addresses"
    )]
    NotUnique,
}

fn known() -> String {
    HostnamePlaceholder::ALL.map(|placeholder| format!("{{{}}}", placeholder.as_str())).join(", ")
}

impl HostnamePattern {
    /// Reads a pattern; not for an empty text, which means that there is none.
    pub fn parse(text: &str) -> Result<HostnamePattern, HostnamePatternError> {
        if text.len() > HOSTNAME_PATTERN_BYTES_MAX {
            return Err(HostnamePatternError::TooLong(text.len()));
        }
        let (mut pieces, mut rest) = (Vec::new(), text);
        while !rest.is_empty() {
            let (before, behind) = match rest.split_once('{') {
                Some((before, behind)) => (before, Some(behind)),
                None => (rest, None),
            };
            if before.contains('}') {
                return Err(HostnamePatternError::Brace);
            }
            if !before.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'.')) {
                return Err(HostnamePatternError::Character(before.to_owned()));
            }
            if !before.is_empty() {
                pieces.push(Piece::Text(before.to_owned()));
            }
            let Some(behind) = behind else { break };
            let (name, behind) = behind.split_once('}').ok_or(HostnamePatternError::Brace)?;
            if name.contains('{') {
                return Err(HostnamePatternError::Brace);
            }
            let found = HostnamePlaceholder::ALL.into_iter().find(|placeholder| placeholder.as_str() == name);
            pieces.push(Piece::Of(found.ok_or_else(|| HostnamePatternError::Unknown(format!("{{{name}}}")))?));
            rest = behind;
        }
        let pattern = HostnamePattern { pieces };
        // With the shortest value that every placeholder may have.
        if !is_dns_subdomain(&pattern.with(|_| "0".to_owned())) {
            return Err(HostnamePatternError::Shape);
        }
        if pattern.is_unique() { Ok(pattern) } else { Err(HostnamePatternError::NotUnique) }
    }

    /// The name of a machine's node. Kubernetes has no capital letters in names.
    pub fn render(&self, machine: &ListedMachine, address: IpAddr) -> String {
        self.with(|placeholder| placeholder.value(machine, address)).to_ascii_lowercase()
    }

    fn with(&self, value: impl Fn(HostnamePlaceholder) -> String) -> String {
        let piece = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Of(placeholder) => value(*placeholder),
        };
        self.pieces.iter().map(piece).collect()
    }

    /// Whether it has what tells one machine from every other.
    fn is_unique(&self) -> bool {
        let has = |placeholder| self.pieces.contains(&Piece::Of(placeholder));
        has(HostnamePlaceholder::Serial)
            || has(HostnamePlaceholder::Address)
            || has(HostnamePlaceholder::AddressDashed)
            || (has(HostnamePlaceholder::Rack) && has(HostnamePlaceholder::IndexInRack))
    }
}

impl fmt::Display for HostnamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.with(|placeholder| format!("{{{}}}", placeholder.as_str())))
    }
}

/// What is wrong with the names of nodes that were made from machines: no name in Kubernetes, or that of another node.
pub(super) fn check(nodes: &[(&ListedMachine, &Node)]) -> Vec<Problem> {
    let (mut problems, mut first): (Vec<Problem>, BTreeMap<String, &ListedMachine>) = (Vec::new(), BTreeMap::new());
    for (index, (machine, node)) in nodes.iter().enumerate() {
        let path = format!("nodes[{index}].hostname");
        let name = attributes::name(node);
        if !node.hostname.is_empty() && !is_dns_subdomain(&name) {
            let reason = format!(
                "machine {}: {} is no name in Kubernetes: {}",
                machine.serial,
                quote(&name),
                DNS_SUBDOMAIN.text
            );
            problems.push(Problem::new(path, reason));
        } else if let Some(other) = first.get(&name) {
            let reason =
                format!("machine {}: {} is the name of machine {} too", machine.serial, quote(&name), other.serial);
            problems.push(Problem::new(path, reason));
        } else {
            first.insert(name, *machine);
        }
    }
    problems.truncate(crate::limits::PROBLEMS_SHOWN_MAX);
    problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        lifecycle::HealthState,
        machine::{Labels, Rack},
        time::Moment,
    };

    fn machine(serial: &str, rack: u32, index: u32, role: &str) -> ListedMachine {
        let date = Moment::from("2026-11-18T00:00:00Z".parse::<jiff::Timestamp>().expect("a time"));
        ListedMachine {
            serial: serial.parse().expect("a serial"),
            labels: Labels::default(),
            rack: Rack(rack),
            index_in_rack: index,
            role: role.parse().expect("a role"),
            machine_type: String::new(),
            address: None,
            register_date: date,
            retire_date: date,
            state: HealthState::Healthy,
            seconds_in_state: 0.0,
        }
    }

    #[test]
    fn names_are_made_from_machines() {
        let machine = machine("AB12cd", 3, 7, "CS");
        for (pattern, v4, v6) in [
            ("{serial}", "ab12cd", "ab12cd"),
            ("node-{serial}.example.com", "node-ab12cd.example.com", "node-ab12cd.example.com"),
            ("r{rack}-{index-in-rack}", "r3-7", "r3-7"),
            ("{role}-{rack}-{index-in-rack}-{role}", "cs-3-7-cs", "cs-3-7-cs"),
            ("ip-{address-dashed}", "ip-10-69-0-198", "ip-fd00--1"),
            ("{address}", "10.69.0.198", "fd00::1"),
        ] {
            let parsed = HostnamePattern::parse(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
            assert_eq!(parsed.to_string(), pattern);
            for (address, expected) in [("10.69.0.198", v4), ("fd00::1", v6)] {
                assert_eq!(parsed.render(&machine, address.parse().expect("an address")), expected);
            }
        }
    }

    #[test]
    fn patterns_that_cannot_work_are_refused() {
        let long = "a".repeat(HOSTNAME_PATTERN_BYTES_MAX + 1);
        for (pattern, expected) in [
            ("h", HostnamePatternError::NotUnique),
            ("{role}", HostnamePatternError::NotUnique),
            ("{rack}-{role}", HostnamePatternError::NotUnique),
            ("x{index-in-rack}", HostnamePatternError::NotUnique),
            ("{serial", HostnamePatternError::Brace),
            ("serial}", HostnamePatternError::Brace),
            ("{{serial}}", HostnamePatternError::Brace),
            ("{serial}}", HostnamePatternError::Brace),
            ("{}", HostnamePatternError::Unknown("{}".to_owned())),
            ("{Serial}", HostnamePatternError::Unknown("{Serial}".to_owned())),
            ("{serial}-{zone}", HostnamePatternError::Unknown("{zone}".to_owned())),
            ("Node-{serial}", HostnamePatternError::Character("Node-".to_owned())),
            ("{serial}_a", HostnamePatternError::Character("_a".to_owned())),
            ("{serial} ", HostnamePatternError::Character(" ".to_owned())),
            ("\u{e9}-{serial}", HostnamePatternError::Character("\u{e9}-".to_owned())),
            ("-{serial}", HostnamePatternError::Shape),
            ("{serial}.", HostnamePatternError::Shape),
            ("a..{serial}", HostnamePatternError::Shape),
            (&long, HostnamePatternError::TooLong(HOSTNAME_PATTERN_BYTES_MAX + 1)),
        ] {
            assert_eq!(HostnamePattern::parse(pattern), Err(expected), "{pattern}");
        }
    }

    #[test]
    fn names_that_kubernetes_refuses_or_that_two_nodes_share_are_told_with_their_machines() {
        let node = |address: &str, hostname: &str| Node {
            address: address.parse().expect("an address"),
            hostname: hostname.to_owned(),
            user: "u".to_owned(),
            control_plane: false,
            annotations: BTreeMap::new(),
            labels: BTreeMap::new(),
            taints: Vec::new(),
        };
        let machines =
            [machine("a_1", 0, 1, "cs"), machine("b", 0, 2, "cs"), machine("B", 0, 3, "cs"), machine("c", 0, 4, "cs")];
        let nodes = [node("10.0.0.1", "a_1"), node("10.0.0.2", "b"), node("10.0.0.3", "b"), node("10.0.0.4", "")];
        let together: Vec<_> = machines.iter().zip(&nodes).collect();
        let problems: Vec<String> = check(&together).iter().map(ToString::to_string).collect();
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(
            problems[0].starts_with("nodes[0].hostname: machine a_1: \"a_1\" is no name in Kubernetes"),
            "{problems:?}"
        );
        assert_eq!(problems[1], "nodes[2].hostname: machine B: \"b\" is the name of machine b too");
        assert_eq!(check(&together[3..]), []);
    }
}
