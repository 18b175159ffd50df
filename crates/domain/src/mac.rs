//! Hardware addresses of network interfaces.

use std::{fmt, str::FromStr};

/// The hardware address of a network interface. Written in one way only, so that equal addresses are equal texts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Mac(pub [u8; 6]);

/// A text that is no hardware address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a MAC address such as 52:54:00:12:34:56")]
pub struct NotMac(pub String);

impl FromStr for Mac {
    type Err = NotMac;

    /// Six pairs of hexadecimal digits with colons between them; capitals mean the same.
    fn from_str(text: &str) -> Result<Mac, NotMac> {
        let wrong = || NotMac(text.to_owned());
        let pairs: Vec<&str> = text.split(':').collect();
        let pairs: [&str; 6] = pairs.try_into().map_err(|_| wrong())?;
        let mut bytes = [0; 6];
        for (byte, pair) in bytes.iter_mut().zip(pairs) {
            // A sign would be read as a number too.
            if pair.len() != 2 || !pair.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Err(wrong());
            }
            *byte = u8::from_str_radix(pair, 16).map_err(|_| wrong())?;
        }
        Ok(Mac(bytes))
    }
}

impl TryFrom<String> for Mac {
    type Error = NotMac;

    fn try_from(text: String) -> Result<Mac, NotMac> {
        text.parse()
    }
}

impl From<Mac> for String {
    fn from(mac: Mac) -> String {
        mac.to_string()
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_in_one_way() {
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(text.parse::<Mac>().ok().map(|mac| mac.to_string()).as_deref(), expected, "{text}");
        };
        check("52:54:00:BB:00:0f", Some("52:54:00:bb:00:0f"));
        for bad in ["", "xx", "52-54-00-EE-00-01", "52:54:00:bb:00", "52:54:00:bb:00:01:02", "5:54:00:bb:00:01"] {
            check(bad, None);
        }
        for bad in ["+2:54:00:bb:00:01", "52:54:00:bb:00:0g", " 52:54:00:bb:00:01", "525400bb0001"] {
            check(bad, None);
        }
    }
}
