//! Who may do what. [`permits`] is the whole policy: a caller has a right because the deed is open to everybody, because it calls
//! from an allowed network, or because it showed a token of a sufficient role. Checking the token itself is for the service.

use std::{fmt, net::IpAddr, str::FromStr};

use ipnet::IpNet;

/// Networks from which changes are accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedNetworks(Vec<IpNet>);

/// A text that is neither an address nor a network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither an address such as 10.0.0.1 nor a network such as 10.0.0.0/8")]
pub struct NetworkError(pub String);

impl AllowedNetworks {
    /// Reads addresses and networks. A bare address, IPv4 or IPv6, means that one address.
    pub fn new<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Result<AllowedNetworks, NetworkError> {
        let parse = |text: T| {
            let text = text.as_ref().trim();
            let net = IpNet::from_str(text).or_else(|_| IpAddr::from_str(text).map(IpNet::from));
            net.map_err(|_| NetworkError(text.to_owned()))
        };
        texts.into_iter().map(parse).collect::<Result<_, _>>().map(AllowedNetworks)
    }

    /// Whether changes from this peer are accepted. IPv4 addresses written as IPv6 count as IPv4.
    pub fn contains(&self, peer: IpAddr) -> bool {
        let peer = peer.to_canonical();
        self.0.iter().any(|net| net.contains(&peer))
    }
}

impl Default for AllowedNetworks {
    /// This machine only.
    fn default() -> AllowedNetworks {
        AllowedNetworks::new(["127.0.0.1", "::1"]).expect("both are addresses")
    }
}

impl fmt::Display for AllowedNetworks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<_> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&texts.join(","))
    }
}

/// What a token is good for. Names exist once, in [`TokenRole::as_str`]; parsing and lists derive from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
pub enum TokenRole {
    /// Everything, including other tokens.
    Admin,
    /// The daily work of those who run the machines.
    Operator,
    /// What a managed machine does for itself: look things up, keep its disk keys.
    Machine,
    /// Looking, but not at disk keys.
    Read,
}

/// A word that names no role of a token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no role of a token; roles are {roles}", roles = TokenRole::ALL.map(TokenRole::as_str).join(", "))]
pub struct UnknownTokenRole(pub String);

/// What a request wants to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Deed {
    /// Look at machines, states, labels, configurations, events.
    ReadRegistry,
    /// Register, label, move along the lifecycle, configure, remove.
    ChangeRegistry,
    /// Change a state against the lifecycle.
    ForceState,
    /// Make, describe and forget nodes, and ask verbs and power changes of them.
    ChangeNodes,
    /// Change the template, the constraints or the configuration of the Kubernetes cluster.
    ChangeCluster,
    /// Ask for repairs and reboots, take them back, and say how and when automatic repair works.
    ChangeRepair,
    /// Fetch a disk key.
    ReadKey,
    /// Store a disk key.
    PutKey,
    /// Delete the disk keys of a machine: its data is gone after that.
    DeleteKeys,
    /// Look at the audit log.
    ReadAudit,
    /// Create, list and revoke tokens.
    ManageTokens,
}

/// Who asks, as far as rights are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller {
    /// The peer of the connection, never a proxy's word for it. Without one, no network gives it a right.
    pub ip: Option<IpAddr>,
    /// The role of the token it showed. Only of a token that was found, compared and is not revoked.
    pub token: Option<TokenRole>,
}

/// What the operator of the server decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Networks whose callers may do everything.
    pub allowed: AllowedNetworks,
    /// With it addresses give no right, and nothing is open to everybody.
    pub require_token: bool,
}

/// Why a request was turned away. Its text says what would be needed, but neither which networks are allowed nor which tokens exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.text())]
pub struct Denied {
    /// What was wanted.
    pub deed: Deed,
    /// The role of the token that was shown, if any.
    pub shown: Option<TokenRole>,
    /// Whether only a token would have helped.
    pub token_only: bool,
}

/// Decides whether the caller may do it.
pub fn permits(deed: Deed, caller: &Caller, policy: &Policy) -> Result<(), Denied> {
    let by_token = caller.token.is_some_and(|role| role.grants(deed));
    let by_address = || caller.ip.is_some_and(|ip| policy.allowed.contains(ip));
    if by_token || (!policy.require_token && (deed.is_open() || by_address())) {
        return Ok(());
    }
    Err(Denied { deed, shown: caller.token, token_only: policy.require_token })
}

impl TokenRole {
    /// Every role, from most to fewest rights.
    pub const ALL: [TokenRole; 4] = [TokenRole::Admin, TokenRole::Operator, TokenRole::Machine, TokenRole::Read];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            TokenRole::Admin => "admin",
            TokenRole::Operator => "operator",
            TokenRole::Machine => "machine",
            TokenRole::Read => "read",
        }
    }

    /// Whether a token of this role is enough, wherever the caller is.
    pub const fn grants(self, deed: Deed) -> bool {
        use TokenRole::{Admin, Machine, Operator, Read};
        match deed {
            Deed::ReadRegistry => true,
            Deed::ReadAudit => matches!(self, Admin | Operator | Read),
            Deed::ReadKey | Deed::PutKey => matches!(self, Admin | Operator | Machine),
            Deed::ChangeRegistry
            | Deed::ForceState
            | Deed::ChangeNodes
            | Deed::ChangeCluster
            | Deed::ChangeRepair
            | Deed::DeleteKeys => matches!(self, Admin | Operator),
            Deed::ManageTokens => matches!(self, Admin),
        }
    }
}

impl Deed {
    /// Every deed.
    pub const ALL: [Deed; 11] = [
        Deed::ReadRegistry,
        Deed::ChangeRegistry,
        Deed::ForceState,
        Deed::ChangeNodes,
        Deed::ChangeCluster,
        Deed::ChangeRepair,
        Deed::ReadKey,
        Deed::PutKey,
        Deed::DeleteKeys,
        Deed::ReadAudit,
        Deed::ManageTokens,
    ];

    /// What it is, for people.
    pub const fn text(self) -> &'static str {
        match self {
            Deed::ReadRegistry => "reading the registry",
            Deed::ChangeRegistry => "changing the registry",
            Deed::ForceState => "forcing a state",
            Deed::ChangeNodes => "changing nodes",
            Deed::ChangeCluster => "changing the cluster",
            Deed::ChangeRepair => "changing repairs",
            Deed::ReadKey => "reading a disk key",
            Deed::PutKey => "storing a disk key",
            Deed::DeleteKeys => "deleting disk keys",
            Deed::ReadAudit => "reading the audit log",
            Deed::ManageTokens => "managing tokens",
        }
    }

    /// Whether everybody may do it unless tokens are required. Keys are among it: machines boot before they have any token.
    pub const fn is_open(self) -> bool {
        match self {
            Deed::ReadRegistry | Deed::ReadAudit | Deed::ReadKey | Deed::PutKey => true,
            Deed::ChangeRegistry
            | Deed::ForceState
            | Deed::ChangeNodes
            | Deed::ChangeCluster
            | Deed::ChangeRepair
            | Deed::DeleteKeys
            | Deed::ManageTokens => false,
        }
    }
}

impl Denied {
    fn text(&self) -> String {
        let enough = TokenRole::ALL.into_iter().filter(|role| role.grants(self.deed)).map(TokenRole::as_str);
        let roles = enough.collect::<Vec<_>>().join(" or ");
        let address = if self.token_only { "" } else { "an address in an allowed network, or " };
        let shown = self.shown.map(|role| format!("; the token shown has role {role}")).unwrap_or_default();
        format!("{} needs {address}a token of role {roles}{shown}", self.deed.text())
    }
}

impl fmt::Display for TokenRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for TokenRole {
    type Err = UnknownTokenRole;

    fn from_str(text: &str) -> Result<TokenRole, UnknownTokenRole> {
        TokenRole::ALL.into_iter().find(|role| role.as_str() == text).ok_or_else(|| UnknownTokenRole(text.to_owned()))
    }
}

impl TryFrom<String> for TokenRole {
    type Error = UnknownTokenRole;

    fn try_from(text: String) -> Result<TokenRole, UnknownTokenRole> {
        text.parse()
    }
}

impl From<TokenRole> for &'static str {
    fn from(role: TokenRole) -> &'static str {
        role.as_str()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn membership() {
        let allowed = AllowedNetworks::new(["127.0.0.1", "10.0.0.0/8", "2001:db8::1", "fd00::/8"]).expect("valid");
        for (peer, expected) in [
            ("127.0.0.1", true),
            ("127.0.0.2", false),
            ("10.255.0.1", true),
            ("11.0.0.1", false),
            ("::ffff:10.1.2.3", true),
            ("2001:db8::1", true),
            ("2001:db8::2", false), // a bare IPv6 address is one address
            ("fd12::1", true),
            ("::1", false),
        ] {
            assert_eq!(allowed.contains(peer.parse().expect(peer)), expected, "{peer}");
        }
        assert!(AllowedNetworks::default().contains("::1".parse().expect("address")));
        assert!(AllowedNetworks::new(["10.0.0.0/33"]).is_err());
        assert!(AllowedNetworks::new(["localhost"]).is_err());
    }

    /// One row per deed; one column per token: none, read, machine, operator, admin.
    const RIGHTS: [(Deed, &str, &str); 11] = [
        // deed, called from elsewhere, tokens required
        (Deed::ReadRegistry, "yyyyy", "-yyyy"),
        (Deed::ChangeRegistry, "---yy", "---yy"),
        (Deed::ForceState, "---yy", "---yy"),
        (Deed::ChangeNodes, "---yy", "---yy"),
        (Deed::ChangeCluster, "---yy", "---yy"),
        (Deed::ChangeRepair, "---yy", "---yy"),
        (Deed::ReadKey, "yyyyy", "--yyy"),
        (Deed::PutKey, "yyyyy", "--yyy"),
        (Deed::DeleteKeys, "---yy", "---yy"),
        (Deed::ReadAudit, "yyyyy", "-y-yy"),
        (Deed::ManageTokens, "----y", "----y"),
    ];

    const TOKENS: [Option<TokenRole>; 5] =
        [None, Some(TokenRole::Read), Some(TokenRole::Machine), Some(TokenRole::Operator), Some(TokenRole::Admin)];

    #[test]
    fn every_caller_and_every_deed() {
        let allowed = AllowedNetworks::new(["10.0.0.0/8"]).expect("valid");
        let inside: IpAddr = "10.1.2.3".parse().expect("an address");
        let places = [Some(inside), Some("192.0.2.1".parse().expect("an address")), None];
        assert_eq!(RIGHTS.map(|(deed, ..)| deed), Deed::ALL, "every deed has its row");
        let mut seen = 0;
        for (deed, elsewhere, required) in RIGHTS {
            for (column, token) in TOKENS.into_iter().enumerate() {
                for (ip, require_token) in places.iter().flat_map(|ip| [(*ip, false), (*ip, true)]) {
                    let policy = Policy { allowed: allowed.clone(), require_token };
                    let expected = match (require_token, ip == Some(inside)) {
                        (true, _) => required.as_bytes()[column] == b'y',
                        (false, true) => true,
                        (false, false) => elsewhere.as_bytes()[column] == b'y',
                    };
                    let answer = permits(deed, &Caller { ip, token }, &policy);
                    let denied = Denied { deed, shown: token, token_only: require_token };
                    let expected = if expected { Ok(()) } else { Err(denied) };
                    assert_eq!(answer, expected, "{deed:?} {token:?} {ip:?} {require_token}");
                    seen += 1;
                }
            }
        }
        assert_eq!(seen, Deed::ALL.len() * 5 * 3 * 2);
    }

    #[test]
    fn a_denial_says_what_would_help_and_nothing_else() {
        let policy =
            |require_token| Policy { allowed: AllowedNetworks::new(["10.0.0.0/8"]).expect("valid"), require_token };
        let check = |deed, token, require_token, text: &str| {
            let ip = Some("192.0.2.1".parse().expect("an address"));
            let denied = permits(deed, &Caller { ip, token }, &policy(require_token)).expect_err(text);
            assert_eq!(denied.to_string(), text);
        };
        let text = "changing the registry needs an address in an allowed network, or a token of role admin or operator";
        check(Deed::ChangeRegistry, None, false, text);
        let text = "storing a disk key needs a token of role admin or operator or machine";
        check(Deed::PutKey, None, true, text);
        let text = "managing tokens needs a token of role admin; the token shown has role operator";
        check(Deed::ManageTokens, Some(TokenRole::Operator), true, text);
    }

    #[test]
    fn roles_have_one_word_each() {
        use serde::{Deserialize as _, de::IntoDeserializer as _, de::value::Error};
        let words = TokenRole::ALL.map(TokenRole::as_str);
        assert_eq!(words, ["admin", "operator", "machine", "read"]);
        for (role, word) in TokenRole::ALL.into_iter().zip(words) {
            assert_eq!(word.parse(), Ok(role));
            assert_eq!(role.to_string(), word);
            let read: Result<TokenRole, Error> = TokenRole::deserialize(word.into_deserializer());
            assert_eq!(read, Ok(role));
        }
        for bad in ["", "Admin", "admin ", "root"] {
            let error = bad.parse::<TokenRole>().expect_err(bad).to_string();
            assert_eq!(error, format!("{bad:?} is no role of a token; roles are admin, operator, machine, read"));
            let read: Result<TokenRole, Error> = TokenRole::deserialize(bad.into_deserializer());
            assert!(read.is_err(), "{bad:?}");
        }
    }
}
