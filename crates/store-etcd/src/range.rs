//! etcd's key ranges: `[key, end)` in byte order, where an end of one zero byte means "to the last key".

/// A half-open range of keys as etcd's requests express it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRange {
    pub key: Vec<u8>,
    pub end: Vec<u8>,
}

const UNBOUNDED: &[u8] = &[0];

impl KeyRange {
    /// Every key that starts with `prefix`.
    pub fn of_prefix(prefix: &str) -> KeyRange {
        let mut end = prefix.as_bytes().to_vec();
        match end.last_mut() {
            // UTF-8 has no byte 0xff, so the last byte can always be raised.
            Some(last) => *last += 1,
            // etcd refuses an empty key; one zero byte comes before every other.
            None => return KeyRange { key: UNBOUNDED.to_vec(), end: UNBOUNDED.to_vec() },
        }
        KeyRange { key: prefix.as_bytes().to_vec(), end }
    }

    /// The part of the range behind `after`.
    pub fn after(self, after: &str) -> KeyRange {
        KeyRange { key: self.key.max(successor(after)), end: self.end }
    }

    pub fn contains(&self, key: &str) -> bool {
        self.key.as_slice() <= key.as_bytes() && (self.is_unbounded() || key.as_bytes() < self.end.as_slice())
    }

    /// The range with one key cut out: one or two ranges.
    pub fn without(self, key: &str) -> Vec<KeyRange> {
        if !self.contains(key) {
            return vec![self];
        }
        let before = KeyRange { key: self.key, end: key.as_bytes().to_vec() };
        let behind = KeyRange { key: successor(key), end: self.end };
        [before, behind].into_iter().filter(|range| !range.is_empty()).collect()
    }

    /// The smallest range that holds this one and `key`.
    pub fn including(self, key: &str) -> KeyRange {
        let end = if self.is_unbounded() { self.end } else { self.end.max(successor(key)) };
        KeyRange { key: self.key.min(key.as_bytes().to_vec()), end }
    }

    pub fn is_empty(&self) -> bool {
        !self.is_unbounded() && self.key >= self.end
    }

    fn is_unbounded(&self) -> bool {
        self.end == UNBOUNDED
    }
}

/// The next possible key.
fn successor(key: &str) -> Vec<u8> {
    let mut next = key.as_bytes().to_vec();
    next.push(0);
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(key: &str, end: &str) -> KeyRange {
        KeyRange { key: key.into(), end: end.into() }
    }

    #[test]
    fn a_prefix_ends_before_the_next_sibling() {
        assert_eq!(KeyRange::of_prefix("/a/"), range("/a/", "/a0"));
        assert_eq!(KeyRange::of_prefix(""), range("\0", "\0"));
        assert_eq!(KeyRange::of_prefix("ü").end, [0xc3, 0xbd]);
        assert!(KeyRange::of_prefix("").contains("z"));
        assert!(KeyRange::of_prefix("/a/").contains("/a/x"));
        assert!(!KeyRange::of_prefix("/a/").contains("/a0"));
        assert!(!KeyRange::of_prefix("/a/").contains("/a"));
    }

    #[test]
    fn a_page_starts_behind_the_last_key() {
        assert_eq!(KeyRange::of_prefix("/a/").after("/a/k"), range("/a/k\0", "/a0"));
        assert_eq!(KeyRange::of_prefix("/a/").after("/"), range("/a/", "/a0"));
        assert!(KeyRange::of_prefix("/a/").after("/b").is_empty());
        assert_eq!(KeyRange::of_prefix("").after("k"), range("k\0", "\0"));
    }

    #[test]
    fn one_key_can_be_cut_out() {
        let check = |prefix: &str, expected: &[KeyRange]| {
            assert_eq!(KeyRange::of_prefix(prefix).without("/a/head"), expected, "{prefix}");
        };
        check("/b/", &[range("/b/", "/b0")]);
        check("/a/machines/", &[range("/a/machines/", "/a/machines0")]);
        check("/a/", &[range("/a/", "/a/head"), range("/a/head\0", "/a0")]);
        check("/a/head", &[range("/a/head\0", "/a/heae")]);
        check("", &[range("\0", "/a/head"), range("/a/head\0", "\0")]);
    }

    #[test]
    fn one_key_can_be_included() {
        let check = |prefix: &str, expected: KeyRange| {
            assert_eq!(KeyRange::of_prefix(prefix).including("/m/head"), expected, "{prefix}");
        };
        check("/m/", range("/m/", "/m0"));
        check("/m/machines/", range("/m/head", "/m/machines0"));
        check("/m/audit/", range("/m/audit/", "/m/head\0"));
        check("/states/", range("/m/head", "/states0"));
        check("", range("\0", "\0"));
    }
}
