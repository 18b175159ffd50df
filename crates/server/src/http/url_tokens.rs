//! Tokens in a URL. URLs are logged, kept in histories and sent on by proxies, so a token in one is no longer a secret: such a
//! request is refused, and nothing that writes a URL down writes the value.

use axum::http::Uri;
use percent_encoding::percent_decode_str;

/// Names of query parameters in which other services take a token. No API of ours has a parameter of such a name. Compared without
/// regard to case, and with `-` as `_`.
pub(crate) const TOKEN_PARAMETERS: [&str; 9] = [
    "token",
    "access_token",
    "auth_token",
    "x_auth_token",
    "authorization",
    "bearer",
    "bearer_token",
    "api_key",
    "apikey",
];

/// What stands in place of a value.
const REDACTED: &str = "REDACTED";

/// The first parameter of a URL that is for a token.
pub(crate) fn token_parameter(uri: &Uri) -> Option<&'static str> {
    pieces(uri.query()?).find_map(|(_, piece)| token_name(piece))
}

/// A URL without the values of such parameters, and without a user and password before the host.
pub(crate) fn redacted(uri: &Uri) -> String {
    let mut text = String::new();
    if let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) {
        let authority = authority.as_str();
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        text.push_str(&format!("{scheme}://{host}"));
    }
    text.push_str(uri.path());
    let Some(query) = uri.query() else { return text };
    text.push('?');
    for (separator, piece) in pieces(query) {
        text.extend(separator);
        match piece.split_once('=').filter(|_| token_name(piece).is_some()) {
            Some((name, _)) => text.push_str(&format!("{name}={REDACTED}")),
            None => text.push_str(piece),
        }
    }
    text
}

/// The parts of a query, each with what stands before it. Some programs still separate them by semicolons.
fn pieces(query: &str) -> impl Iterator<Item = (Option<char>, &str)> {
    let ends = query.match_indices(['&', ';']).map(|(at, _)| at).chain([query.len()]);
    ends.scan(0, move |begin, end| {
        let from = std::mem::replace(begin, end + 1);
        let separator = from.checked_sub(1).and_then(|before| query[before..].chars().next());
        Some((separator, &query[from..end]))
    })
}

fn token_name(piece: &str) -> Option<&'static str> {
    let name = piece.split('=').next().unwrap_or_default();
    let name = percent_decode_str(name).decode_utf8_lossy().trim().to_ascii_lowercase().replace(['-', '+'], "_");
    TOKEN_PARAMETERS.into_iter().find(|known| *known == name.trim_matches('_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_tokens_are_not_shown() {
        let rows = [
            ("/version", None, "/version"),
            ("/v?", None, "/v?"),
            ("/v?a=1&b", None, "/v?a=1&b"),
            ("/v?token=s3cret", Some("token"), "/v?token=REDACTED"),
            ("/v?a=1&Access-Token=s3cret&b=2", Some("access_token"), "/v?a=1&Access-Token=REDACTED&b=2"),
            ("/v?%74oken=s3cret", Some("token"), "/v?%74oken=REDACTED"),
            ("/v?token=a=s3cret&&x", Some("token"), "/v?token=REDACTED&&x"),
            ("/v?a=1;authorization=Bearer%20s3cret", Some("authorization"), "/v?a=1;authorization=REDACTED"),
            ("/v?X-Auth-Token=s3cret&token=s3cret", Some("x_auth_token"), "/v?X-Auth-Token=REDACTED&token=REDACTED"),
            ("/v?token", Some("token"), "/v?token"),
            ("/v?tokens=1&my_token=2", None, "/v?tokens=1&my_token=2"),
            ("http://u:s3cret@h:1/v?a=1", None, "http://h:1/v?a=1"),
        ];
        for (url, parameter, shown) in rows {
            let uri: Uri = url.parse().expect("a URL");
            assert_eq!((token_parameter(&uri), redacted(&uri).as_str()), (parameter, shown), "{url}");
        }
    }

    #[test]
    fn names_are_spelled_as_they_are_compared() {
        let spelled = |name: &&str| **name == name.to_ascii_lowercase().replace('-', "_");
        assert!(TOKEN_PARAMETERS.iter().all(spelled));
    }
}
