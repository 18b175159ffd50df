//! The whole policy as tables.

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

/// What is shown: nothing, or a token of a role, perhaps bound to a machine.
const TOKENS: [Option<(TokenRole, Option<&str>)>; 7] = [
    None,
    Some((TokenRole::Read, None)),
    Some((TokenRole::Machine, None)),
    Some((TokenRole::Machine, Some("m"))),
    Some((TokenRole::Machine, Some("n"))),
    Some((TokenRole::Operator, None)),
    Some((TokenRole::Admin, None)),
];

/// Deeds that are not about a secret of one machine. One column per row of `TOKENS`.
const RIGHTS: [(Deed, &str, &str); 9] = [
    // deed, called from elsewhere, tokens required
    (Deed::ReadRegistry, "yyyyyyy", "-yyyyyy"),
    (Deed::ChangeRegistry, "-----yy", "-----yy"),
    (Deed::ForceState, "-----yy", "-----yy"),
    (Deed::ChangeNodes, "-----yy", "-----yy"),
    (Deed::ChangeCluster, "-----yy", "-----yy"),
    (Deed::ChangeRepair, "-----yy", "-----yy"),
    (Deed::DeleteKeys, "-----yy", "-----yy"),
    (Deed::ReadAudit, "yyyyyyy", "-y---yy"),
    (Deed::ManageTokens, "------y", "------y"),
];

/// Where a caller may be, seen from machine `m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Allowed,
    Registered,
    Leased,
    AnotherMachine,
    Elsewhere,
    Nowhere,
}

const PLACES: [Place; 6] =
    [Place::Allowed, Place::Registered, Place::Leased, Place::AnotherMachine, Place::Elsewhere, Place::Nowhere];

impl Place {
    fn ip(self) -> Option<IpAddr> {
        let text = match self {
            Place::Allowed => "10.1.2.3",
            Place::Registered => "::ffff:198.51.100.4",
            Place::Leased => "198.51.100.77",
            Place::AnotherMachine => "198.51.100.5",
            Place::Elsewhere => "192.0.2.1",
            Place::Nowhere => return None,
        };
        Some(text.parse().expect("an address"))
    }

    fn is_own(self) -> bool {
        matches!(self, Place::Registered | Place::Leased)
    }
}

/// Which machine a request names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Named {
    Machine,
    Unregistered,
    Nothing,
}

fn serial(text: &str) -> Serial {
    Serial::new(text).expect("a serial")
}

fn identity(named: Named) -> Option<MachineIdentity> {
    let address = |text: &str| text.parse::<IpAddr>().expect("an address");
    let machine = MachineIdentity {
        serial: serial("m"),
        registered: vec![address("198.51.100.3"), address("198.51.100.4"), address("2001:db8::4")],
        leased: vec![address("198.51.100.77")],
    };
    match named {
        Named::Machine => Some(machine),
        Named::Unregistered => Some(MachineIdentity::unknown(serial("m"))),
        Named::Nothing => None,
    }
}

fn caller(place: Place, token: Option<(TokenRole, Option<&str>)>) -> Caller {
    let grant = |(role, bound): (TokenRole, Option<&str>)| TokenGrant { role, serial: bound.map(serial) };
    Caller { ip: place.ip(), token: token.map(grant) }
}

fn policy(require_token: bool, crypts: CryptsAccess) -> Policy {
    Policy { allowed: AllowedNetworks::new(["10.0.0.0/8"]).expect("valid"), require_token, crypts }
}

/// Who is given a disk key of machine `m`, whether it is read or stored; one column per row of `TOKENS`.
fn key_rights(named: Named, place: Place, require_token: bool, crypts: CryptsAccess) -> &'static str {
    let is_own = named == Named::Machine && place.is_own();
    match (crypts, require_token) {
        (_, false) if place == Place::Allowed || is_own => "yyyyyyy",
        (CryptsAccess::Open, false) => "yyyyyyy",
        (CryptsAccess::Open, true) if named == Named::Nothing => "--y--yy",
        (CryptsAccess::Open, true) => "--yy-yy",
        (CryptsAccess::Machine, _) if is_own => "--yy-yy",
        (CryptsAccess::Machine, _) if named == Named::Nothing => "-----yy",
        (CryptsAccess::Machine, _) => "---y-yy",
    }
}

#[test]
fn every_caller_and_every_deed() {
    let deeds: Vec<Deed> = Deed::ALL.into_iter().filter(|deed| !deed.is_for_the_machine()).collect();
    assert_eq!(RIGHTS.map(|(deed, ..)| deed).as_slice(), deeds, "every deed has its row");
    let mut seen = 0;
    for deed in Deed::ALL {
        for (named, place, require_token, crypts) in circumstances() {
            for (column, token) in TOKENS.into_iter().enumerate() {
                let columns = match RIGHTS.iter().find(|(row, ..)| *row == deed) {
                    None => key_rights(named, place, require_token, crypts),
                    Some((_, _, required)) if require_token => required,
                    Some(_) if place == Place::Allowed => "yyyyyyy",
                    Some((_, elsewhere, _)) => elsewhere,
                };
                let of = identity(named);
                let answer = permits(deed, of.as_ref(), &caller(place, token), &policy(require_token, crypts));
                let (shown, bound) = (token.map(|token| token.0), token.is_some_and(|token| token.1.is_some()));
                let denied = Denied { deed, shown, bound, token_only: require_token };
                let expected = if columns.as_bytes()[column] == b'y' { Ok(()) } else { Err(denied) };
                assert_eq!(answer, expected, "{deed:?} {named:?} {place:?} {token:?} {require_token} {crypts:?}");
                seen += 1;
            }
        }
    }
    assert_eq!(seen, Deed::ALL.len() * 3 * PLACES.len() * 2 * 2 * TOKENS.len());
}

fn circumstances() -> impl Iterator<Item = (Named, Place, bool, CryptsAccess)> {
    let named = [Named::Machine, Named::Unregistered, Named::Nothing].into_iter();
    let with_places = named.flat_map(|named| PLACES.map(|place| (named, place)));
    let with_tokens = with_places.flat_map(|(named, place)| [false, true].map(|required| (named, place, required)));
    with_tokens.flat_map(|(named, place, required)| {
        [CryptsAccess::Machine, CryptsAccess::Open].map(|crypts| (named, place, required, crypts))
    })
}

#[test]
fn a_denial_says_what_would_help_and_nothing_else() {
    let check = |deed, token, require_token, text: &str| {
        let (caller, policy) = (caller(Place::Elsewhere, token), policy(require_token, CryptsAccess::Machine));
        let texts = [Named::Machine, Named::Unregistered]
            .map(|named| permits(deed, identity(named).as_ref(), &caller, &policy).expect_err(text).to_string());
        assert_eq!(texts, [text, text], "whether there is such a machine is not told");
    };
    let text = "changing the registry needs an address in an allowed network, or a token of role admin or operator";
    check(Deed::ChangeRegistry, None, false, text);
    let text = "reading a disk key needs an address of that machine, a token bound to it, an address in an allowed network, \
        or a token of role admin or operator";
    check(Deed::ReadKey, None, false, text);
    let bound = format!("{text}; the token shown has role machine and is bound to another machine");
    check(Deed::ReadKey, Some((TokenRole::Machine, Some("n"))), false, &bound);
    let text = "storing a disk key needs a token bound to that machine, a token of role machine shown from its address, or a \
        token of role admin or operator";
    check(Deed::PutKey, None, true, text);
    let unbound = format!("{text}; the token shown has role machine and is bound to no machine");
    check(Deed::PutKey, Some((TokenRole::Machine, None)), true, &unbound);
    let text = "managing tokens needs a token of role admin; the token shown has role operator";
    check(Deed::ManageTokens, Some((TokenRole::Operator, None)), true, text);
}

#[test]
fn the_choices_for_disk_keys() {
    assert_eq!(("machine".parse(), "open".parse()), (Ok(CryptsAccess::Machine), Ok(CryptsAccess::Open)));
    assert_eq!(CryptsAccess::default(), CryptsAccess::Machine);
    let error = "all".parse::<CryptsAccess>().expect_err("no such word").to_string();
    assert_eq!(error, "\"all\" is neither machine nor open");
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
