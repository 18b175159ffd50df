//! Who may do what. [`permits`] is the whole policy: a caller has a right because the deed is open to everybody, because it calls
//! from an allowed network, because it showed a token of a sufficient role, or because what it wants is a secret of the machine it
//! is. Checking the token itself and finding the machine's addresses is for the service.

#[cfg(test)]
mod tests;

use std::{fmt, net::IpAddr, str::FromStr};

use ipnet::IpNet;

use crate::{machine::Machine, words::Serial};

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
    /// What a managed machine does for itself: look things up, keep its disk keys. Whose keys, a serial in the token says, or the
    /// address it is shown from.
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

/// What a token that was found, compared and is not revoked says about its holder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenGrant {
    /// What it is good for.
    pub role: TokenRole,
    /// The machine it was made for. Only a token of role `machine` has one.
    pub serial: Option<Serial>,
}

/// Who asks, as far as rights are concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The peer of the connection, never a proxy's word for it. Without one, no network gives it a right.
    pub ip: Option<IpAddr>,
    /// The token it showed.
    pub token: Option<TokenGrant>,
}

/// The machine whose secret is wanted: what a caller has to be, or to call from, to be that machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineIdentity {
    /// The serial that was asked for, whether or not such a machine is registered.
    pub serial: Serial,
    /// The addresses of its operating system, never of its BMC. A machine that is not registered has none.
    pub registered: Vec<IpAddr>,
    /// The addresses that were leased to its interfaces and have not expired. Nothing leases addresses yet.
    pub leased: Vec<IpAddr>,
}

/// To whom the disk keys of a machine are given, besides operators.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum CryptsAccess {
    /// To that machine.
    #[default]
    Machine,
    /// To everybody; where tokens are required, to every token of role `machine` that is bound to no other machine.
    Open,
}

/// A word that names no such choice.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither machine nor open")]
pub struct UnknownCryptsAccess(pub String);

/// What the operator of the server decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Networks whose callers may do everything.
    pub allowed: AllowedNetworks,
    /// With it addresses alone give no right, and nothing is open to everybody.
    pub require_token: bool,
    /// Who may have disk keys.
    pub crypts: CryptsAccess,
}

/// Why a request was turned away. Its text says what would be needed, but neither which networks are allowed, nor which tokens
/// exist, nor whether there is such a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.text())]
pub struct Denied {
    /// What was wanted.
    pub deed: Deed,
    /// The role of the token that was shown, if any.
    pub shown: Option<TokenRole>,
    /// Whether that token is bound to a machine.
    pub bound: bool,
    /// Whether only a token would have helped.
    pub token_only: bool,
}

/// Decides whether the caller may do it. `of` is the machine the deed is about; only [`Deed::is_for_the_machine`] looks at it.
pub fn permits(deed: Deed, of: Option<&MachineIdentity>, caller: &Caller, policy: &Policy) -> Result<(), Denied> {
    let by_token = caller.token.as_ref().is_some_and(|token| token.role.grants(deed));
    let by_address = || caller.ip.is_some_and(|ip| policy.allowed.contains(ip));
    let by_place = !policy.require_token && (deed.is_open() || by_address());
    if by_token || by_place || (deed.is_for_the_machine() && gives_keys(of, caller, policy)) {
        return Ok(());
    }
    let token = caller.token.as_ref();
    Err(Denied {
        deed,
        shown: token.map(|token| token.role),
        bound: token.is_some_and(|token| token.serial.is_some()),
        token_only: policy.require_token,
    })
}

/// Whether somebody who is no operator is given the secrets of a machine: because it is that machine, or because the site gives them
/// to everybody.
fn gives_keys(of: Option<&MachineIdentity>, caller: &Caller, policy: &Policy) -> bool {
    let is_open = policy.crypts == CryptsAccess::Open;
    let is_there = of.is_some_and(|machine| caller.ip.is_some_and(|ip| machine.has_address(ip)));
    match &caller.token {
        Some(TokenGrant { role: TokenRole::Machine, serial: Some(bound) })
            if of.is_some_and(|machine| machine.serial == *bound) =>
        {
            true
        }
        // The token says that a machine asks, the address which one.
        Some(TokenGrant { role: TokenRole::Machine, serial: None }) => is_there || is_open,
        _ => !policy.require_token && (is_there || is_open),
    }
}

impl MachineIdentity {
    /// A machine nobody registered: no address is its own.
    pub fn unknown(serial: Serial) -> MachineIdentity {
        MachineIdentity { serial, registered: Vec::new(), leased: Vec::new() }
    }

    fn has_address(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        self.registered.iter().chain(&self.leased).any(|own| own.to_canonical() == ip)
    }
}

impl From<&Machine> for MachineIdentity {
    fn from(machine: &Machine) -> MachineIdentity {
        MachineIdentity {
            serial: machine.serial.clone(),
            registered: machine.ipv4().map(IpAddr::from).collect(),
            leased: Vec::new(),
        }
    }
}

impl CryptsAccess {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            CryptsAccess::Machine => "machine",
            CryptsAccess::Open => "open",
        }
    }
}

impl FromStr for CryptsAccess {
    type Err = UnknownCryptsAccess;

    fn from_str(text: &str) -> Result<CryptsAccess, UnknownCryptsAccess> {
        let all = [CryptsAccess::Machine, CryptsAccess::Open];
        all.into_iter().find(|one| one.as_str() == text).ok_or_else(|| UnknownCryptsAccess(text.to_owned()))
    }
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

    /// Whether a token of this role is enough, wherever the caller is and whatever machine the deed is about.
    pub const fn grants(self, deed: Deed) -> bool {
        use TokenRole::{Admin, Operator, Read};
        match deed {
            Deed::ReadRegistry => true,
            Deed::ReadAudit => matches!(self, Admin | Operator | Read),
            Deed::ChangeRegistry
            | Deed::ForceState
            | Deed::ChangeNodes
            | Deed::ChangeCluster
            | Deed::ChangeRepair
            | Deed::ReadKey
            | Deed::PutKey
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

    /// Whether everybody may do it unless tokens are required.
    pub const fn is_open(self) -> bool {
        match self {
            Deed::ReadRegistry | Deed::ReadAudit => true,
            Deed::ChangeRegistry
            | Deed::ForceState
            | Deed::ChangeNodes
            | Deed::ChangeCluster
            | Deed::ChangeRepair
            | Deed::ReadKey
            | Deed::PutKey
            | Deed::DeleteKeys
            | Deed::ManageTokens => false,
        }
    }

    /// Whether it is about a secret of one machine, which that machine itself may have. It boots before it has any token.
    pub const fn is_for_the_machine(self) -> bool {
        matches!(self, Deed::ReadKey | Deed::PutKey)
    }
}

impl Denied {
    fn text(&self) -> String {
        let enough = TokenRole::ALL.into_iter().filter(|role| role.grants(self.deed)).map(TokenRole::as_str);
        let roles = enough.collect::<Vec<_>>().join(" or ");
        let machine = match (self.deed.is_for_the_machine(), self.token_only) {
            (false, _) => "",
            (true, false) => "an address of that machine, a token bound to it, ",
            (true, true) => "a token bound to that machine, a token of role machine shown from its address, or ",
        };
        let address = if self.token_only { "" } else { "an address in an allowed network, or " };
        let shown = self.shown.map(|role| format!("; the token shown has role {role}")).unwrap_or_default();
        let bound = match (self.shown, self.bound) {
            (Some(TokenRole::Machine), true) if self.deed.is_for_the_machine() => " and is bound to another machine",
            (Some(TokenRole::Machine), false) if self.deed.is_for_the_machine() => " and is bound to no machine",
            _ => "",
        };
        format!("{} needs {machine}{address}a token of role {roles}{shown}{bound}", self.deed.text())
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
