//! The text of a bearer token, `sbk_<id>_<secret>`, and what is kept of it. The id finds the record; the secret proves the right to
//! use it. Only the hash of the secret is kept: 32 random bytes cannot be guessed, so that a slow password hash would add nothing.
//! Storing and revoking is elsewhere; what a role may do is `sabakan_domain::access`.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::Timestamp;
use sabakan_domain::{access::TokenRole, words::Serial};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use zeroize::{Zeroize as _, Zeroizing};

/// What every token begins with, so that scanners find one that was published by mistake.
pub const TOKEN_PREFIX: &str = "sbk";

/// Characters of an id: six bytes as lower-case hexadecimal digits.
pub const ID_CHARS: usize = 12;

const SECRET_BYTES: usize = 32;

/// Base64 without padding.
const SECRET_CHARS: usize = (SECRET_BYTES * 4).div_ceil(3);

/// A token as its owner has it. Cannot be printed by accident, and its secret is wiped from memory.
pub struct TokenText {
    id: String,
    secret: Zeroizing<[u8; SECRET_BYTES]>,
}

/// What is kept of a token. The secret cannot be found from it.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenRecordFields {
    /// Finds it; public.
    pub id: String,
    /// Names its owner in the audit log.
    pub name: String,
    /// What it is good for.
    pub role: TokenRole,
    /// The machine it is bound to.
    pub serial: Option<Serial>,
    /// SHA-256 of the secret.
    pub sha256: [u8; 32],
    /// Since when it exists.
    pub created: Timestamp,
}

/// A text that is no token. Says nothing about the text: most of it may be a real one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed token")]
pub struct MalformedToken;

/// The system gives no random bytes.
#[derive(Debug, thiserror::Error)]
#[error("cannot make a token: no random bytes")]
pub struct NoRandomness(#[from] getrandom::Error);

/// Makes a token and what is to be kept of it. The text is shown to its owner once and exists nowhere else.
pub fn issue(
    name: impl Into<String>,
    (role, serial): (TokenRole, Option<Serial>),
    now: Timestamp,
) -> Result<(TokenText, TokenRecordFields), NoRandomness> {
    let text = TokenText::generate()?;
    let record =
        TokenRecordFields { id: text.id.clone(), name: name.into(), role, serial, sha256: text.sha256(), created: now };
    Ok((text, record))
}

impl TokenText {
    /// A new one.
    pub fn generate() -> Result<TokenText, NoRandomness> {
        let mut id = [0; ID_CHARS / 2];
        let mut secret = Zeroizing::new([0; SECRET_BYTES]);
        getrandom::fill(&mut id)?;
        getrandom::fill(&mut *secret)?;
        Ok(TokenText { id: hex::encode(id), secret })
    }

    /// Reads what a caller sent. Each token has exactly one text: nothing is trimmed, and case matters.
    pub fn parse(text: &str) -> Result<TokenText, MalformedToken> {
        // The secret comes last because base64 for URLs uses the underscore, too.
        let mut parts = text.splitn(3, '_');
        let (Some(TOKEN_PREFIX), Some(id), Some(encoded)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(MalformedToken);
        };
        let is_id = id.len() == ID_CHARS && id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if !is_id || encoded.len() != SECRET_CHARS {
            return Err(MalformedToken);
        }
        let mut secret = Zeroizing::new([0; SECRET_BYTES]);
        match URL_SAFE_NO_PAD.decode_slice(encoded, &mut *secret) {
            Ok(SECRET_BYTES) => Ok(TokenText { id: id.to_owned(), secret }),
            Ok(_) | Err(_) => Err(MalformedToken),
        }
    }

    /// Finds its record; not secret.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The whole text, for its owner.
    pub fn expose(&self) -> Zeroizing<String> {
        let mut encoded = [0; SECRET_CHARS];
        let length = URL_SAFE_NO_PAD.encode_slice(self.secret.as_slice(), &mut encoded);
        let encoded_text = length.ok().and_then(|length| std::str::from_utf8(&encoded[..length]).ok());
        let text =
            format!("{TOKEN_PREFIX}_{}_{}", self.id, encoded_text.expect("base64 of 32 bytes fits and is ASCII"));
        encoded.zeroize();
        Zeroizing::new(text)
    }

    /// What is kept of the secret.
    pub fn sha256(&self) -> [u8; 32] {
        Sha256::digest(self.secret.as_slice()).into()
    }

    /// Whether this is the token the record was made for. Takes as long for a nearly right secret as for a wrong one.
    pub fn matches(&self, record: &TokenRecordFields) -> bool {
        self.id == record.id && bool::from(self.sha256().ct_eq(&record.sha256))
    }
}

impl fmt::Debug for TokenText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenText(..)")
    }
}

impl fmt::Debug for TokenRecordFields {
    /// Without the hash: it opens nothing, but looks like something that does.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TokenRecordFields { id, name, role, serial, sha256: _, created } = self;
        f.debug_struct("TokenRecordFields")
            .field("id", id)
            .field("name", name)
            .field("role", role)
            .field("serial", serial)
            .field("created", created)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn issued() -> (TokenText, TokenRecordFields) {
        let now = "2026-11-15T00:00:00Z".parse().expect("a time");
        issue("ci", (TokenRole::Operator, None), now).expect("random bytes")
    }

    #[test]
    fn a_token_is_recognised_again() {
        let (token, record) = issued();
        let text = token.expose();
        assert_eq!(text.len(), "sbk_".len() + 12 + "_".len() + 43);
        let read = TokenText::parse(&text).expect("a token");
        assert_eq!((read.id(), read.expose()), (record.id.as_str(), text));
        assert!(read.matches(&record));
        assert_eq!((record.name.as_str(), record.role), ("ci", TokenRole::Operator));
    }

    #[test]
    fn secrets_with_underscores_are_read_whole() {
        let token = TokenText { id: "0123456789ab".into(), secret: Zeroizing::new([0xff; SECRET_BYTES]) };
        let text = token.expose();
        assert_eq!(text.as_str(), format!("sbk_0123456789ab_{}8", "_".repeat(42)));
        assert_eq!(*TokenText::parse(&text).expect("a token").secret, [0xff; SECRET_BYTES]);
    }

    #[test]
    fn another_secret_or_another_id_does_not_match() {
        let (token, record) = issued();
        for byte in 0..SECRET_BYTES {
            let mut secret = token.secret.clone();
            secret[byte] ^= 1;
            assert!(!TokenText { id: token.id.clone(), secret }.matches(&record), "byte {byte}");
        }
        let (other, other_record) = issued();
        assert!(!other.matches(&record));
        let stolen_id = TokenText { id: record.id.clone(), secret: other.secret };
        assert!(!stolen_id.matches(&record) && !stolen_id.matches(&other_record));
        // The empty hash of a damaged record matches nobody.
        assert!(!token.matches(&TokenRecordFields { sha256: [0; 32], ..record }));
    }

    #[test]
    fn malformed_texts_are_refused() {
        let secret = "A".repeat(43);
        assert!(TokenText::parse(&format!("sbk_0123456789ab_{secret}")).is_ok());
        for bad in [
            String::new(),
            "sbk".into(),
            "sbk__".into(),
            "sbk_0123456789ab".into(),
            "sbk_0123456789ab_".into(),
            format!("sbx_0123456789ab_{secret}"),
            format!("SBK_0123456789ab_{secret}"),
            format!(" sbk_0123456789ab_{secret}"),
            format!("sbk_0123456789ab_{secret}\n"),
            format!("sbk_0123456789AB_{secret}"),
            format!("sbk_0123456789a_{secret}"),
            format!("sbk_0123456789abc_{secret}"),
            format!("sbk_0123456789ag_{secret}"),
            format!("sbk_012345/../ab_{secret}"),
            format!("sbk_0123456789ab_{secret}A"),
            format!("sbk_0123456789ab_{}", "A".repeat(42)),
            format!("sbk_0123456789ab_{}=", "A".repeat(42)),
            format!("sbk_0123456789ab_{}+", "A".repeat(42)),
            // The last two bits belong to no byte; were they ignored, one token would have four texts.
            format!("sbk_0123456789ab_{}B", "A".repeat(42)),
            format!("sbk_0123456789ab_{}é", "A".repeat(41)),
        ] {
            assert_eq!(TokenText::parse(&bad).err(), Some(MalformedToken), "{bad:?}");
        }
        assert_eq!(MalformedToken.to_string(), "malformed token");
    }

    #[test]
    fn nothing_secret_is_printed() {
        let (token, record) = issued();
        assert_eq!(format!("{token:?} {token:#?}"), "TokenText(..) TokenText(..)");
        let shown = format!("{record:?}");
        assert!(shown.contains(&record.id) && shown.contains("Operator"), "{shown}");
        assert!(!shown.contains("sha256") && !shown.contains(&format!("{:?}", record.sha256)), "{shown}");
    }
}
