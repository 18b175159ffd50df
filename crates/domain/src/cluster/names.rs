//! How Kubernetes lets things be named. Pure functions of a text; what to tell people about a wrong one is in the rules of
//! [`rules`], which the tables of [`super::shape`] point to.

use crate::{limits::ANNOTATIONS_BYTES_MAX, words::is_word};

/// Longest DNS name in bytes.
const SUBDOMAIN_BYTES_MAX: usize = 253;
/// Longest part of a DNS name in bytes.
const LABEL_BYTES_MAX: usize = 63;

/// One part of a DNS name (RFC 1123): at most 63 small letters, digits and `-`, a letter or digit at both ends.
pub fn is_dns_label(text: &str) -> bool {
    text.len() <= LABEL_BYTES_MAX && is_dns_part(text)
}

/// A DNS name (RFC 1123): at most 253 bytes, parts joined by `.`.
pub fn is_dns_subdomain(text: &str) -> bool {
    // Kubernetes bounds only the whole here, not its parts; what it accepts is accepted.
    text.len() <= SUBDOMAIN_BYTES_MAX && text.split('.').all(is_dns_part)
}

/// The key of a label or taint: a name, or a DNS name, `/` and a name.
pub fn is_label_key(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_dns_subdomain(prefix) && is_word(name),
        None => is_word(text),
    }
}

/// The value of a label or taint; may be empty.
pub fn is_label_value(text: &str) -> bool {
    text.is_empty() || is_word(text)
}

/// The key of an annotation: that of a label, but its DNS name may have capital letters.
pub fn is_annotation_key(text: &str) -> bool {
    let relaxed = |(prefix, name): (&str, &str)| is_dns_subdomain(&prefix.to_ascii_lowercase()) && is_word(name);
    is_label_key(text) || text.split_once('/').is_some_and(relaxed)
}

/// Whether annotations are small enough together.
pub fn annotations_fit<'a>(annotations: impl IntoIterator<Item = (&'a str, &'a str)>) -> bool {
    annotations.into_iter().map(|(key, value)| key.len() + value.len()).sum::<usize>() <= ANNOTATIONS_BYTES_MAX
}

/// A service with its namespace, `namespace/name`.
pub fn is_namespaced_name(text: &str) -> bool {
    text.split_once('/').is_some_and(|(namespace, name)| is_dns_label(namespace) && is_dns_label(name))
}

/// Small letters, digits and `-`, a letter or digit at both ends.
fn is_dns_part(text: &str) -> bool {
    let edge = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().is_some_and(edge) && bytes.last().is_some_and(edge) && bytes.iter().all(|b| edge(b) || *b == b'-')
}

/// The same with their texts for people.
pub mod rules {
    use crate::cluster::shape::Rule;

    /// See [`super::is_dns_subdomain`].
    pub const DNS_SUBDOMAIN: Rule = Rule {
        name: "DNS name",
        text: "at most 253 small letters, digits, `-` and `.`, with a letter or digit at both ends of every part",
        accepts: super::is_dns_subdomain,
    };
    /// See [`super::is_label_key`].
    pub const LABEL_KEY: Rule = Rule {
        name: "label key",
        text: "1 to 63 letters, digits, `_`, `.` and `-` with a letter or digit at both ends, if need be after a DNS name and \
               `/`, such as `example.com/name`",
        accepts: super::is_label_key,
    };
    /// See [`super::is_label_value`].
    pub const LABEL_VALUE: Rule = Rule {
        name: "label value",
        text: "empty, or 1 to 63 letters, digits, `_`, `.` and `-` with a letter or digit at both ends",
        accepts: super::is_label_value,
    };
    /// See [`super::is_annotation_key`].
    pub const ANNOTATION_KEY: Rule = Rule {
        name: "annotation key",
        text: "like a label key; the DNS name may have capital letters",
        accepts: super::is_annotation_key,
    };
    /// See [`super::is_namespaced_name`].
    pub const NAMESPACED_NAME: Rule = Rule {
        name: "service",
        text: "namespace and name of a Kubernetes service, such as `kube-system/dns`",
        accepts: super::is_namespaced_name,
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(accepts: fn(&str) -> bool, good: &[&str], bad: &[&str]) {
        for text in good {
            assert!(accepts(text), "{text:?} is fine");
        }
        for text in bad {
            assert!(!accepts(text), "{text:?} is not");
        }
    }

    #[test]
    fn dns_names() {
        let (l63, l64) = ("a".repeat(63), "a".repeat(64));
        check(is_dns_label, &["a", "0", "a-b", "a--b", &l63], &["", "-a", "a-", "A", "a.b", "a_b", "é", &l64]);
        let long = format!("{}a", "ab.".repeat(84));
        let longer = format!("{}aa", "ab.".repeat(84));
        assert_eq!((long.len(), longer.len()), (253, 254));
        check(
            is_dns_subdomain,
            &["a", "cluster.local", "1.2.3", "a-b.c", &l64, &long],
            &["", ".", "a.", ".a", "a..b", "a.-b", "a.B", "a b", "a/b", &longer],
        );
    }

    #[test]
    fn label_keys() {
        let (name63, name64) = ("n".repeat(63), "n".repeat(64));
        let prefix253 = format!("{}a/x", "ab.".repeat(84));
        let prefix254 = format!("{}aa/x", "ab.".repeat(84));
        let with_prefix = format!("example.com/{name63}");
        check(
            is_label_key,
            &["a", "A_b.c-9", "example.com/a", "cke.cybozu.com/role", &name63, &with_prefix, &prefix253],
            &["", "/", "/a", "a/", "a/b/c", "-a", "a-", "Example.com/a", "a b", "example.com/-", &name64, &prefix254],
        );
    }

    #[test]
    fn annotation_keys_may_have_capitals_before_the_slash() {
        check(
            is_annotation_key,
            &["a", "Example.COM/a", "example.com/A"],
            &["", "/a", "a/", "Exam_ple/a", "a/b/c", "É.com/a"],
        );
    }

    #[test]
    fn label_values() {
        let (v63, v64) = ("v".repeat(63), "v".repeat(64));
        check(is_label_value, &["", "a", "6.0", "A_b.c-9", &v63], &["-1", "+2", "a ", "a/b", "日", ".5", &v64]);
    }

    #[test]
    fn services() {
        check(is_namespaced_name, &["a/b", "kube-system/dns"], &["", "a", "/", "a/", "/b", "a/b/c", "A/b", "a.b/c"]);
    }

    #[test]
    fn annotations_are_bounded_together() {
        let value = "v".repeat(ANNOTATIONS_BYTES_MAX - 4);
        assert!(annotations_fit([("ab", value.as_str()), ("cd", "")]));
        assert!(!annotations_fit([("ab", value.as_str()), ("cd", "e")]));
        assert!(annotations_fit([]));
    }
}
