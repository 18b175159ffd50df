//! Times as people wrote them. A retire date keeps the offset it was given with; the "zero time" that Go programs send for an
//! unset field counts as absent.

use std::{fmt, str::FromStr};

use jiff::{Timestamp, fmt::temporal::Pieces, tz::Offset};

/// An instant together with the offset it was written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    at: Timestamp,
    offset: Offset,
}

/// Why a text is not a time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid time: {0:?}; RFC 3339 is expected, such as 2030-01-02T03:04:05Z, before 9999-12-30")]
pub struct MomentError(pub String);

impl Moment {
    /// The instant.
    pub fn timestamp(self) -> Timestamp {
        self.at
    }

    /// Whether this is `0001-01-01T00:00:00Z`, which stands for "not set".
    pub fn is_zero(self) -> bool {
        // Seconds from year 1 to 1970, the difference between Go's and Unix' epochs.
        self.at.as_second() == -62_135_596_800 && self.at.subsec_nanosecond() == 0
    }

    /// As RFC 3339 in the offset it was written in, fractions of a second cut off.
    pub fn whole_seconds(self) -> String {
        let second = i64::try_from(self.at.as_nanosecond().div_euclid(1_000_000_000));
        let at = second.ok().and_then(|second| Timestamp::from_second(second).ok()).unwrap_or(self.at);
        Moment { at, offset: self.offset }.to_string()
    }

    /// Its year and month, in the offset it was written in.
    pub fn month(self) -> String {
        self.offset.to_datetime(self.at).strftime("%Y-%m").to_string()
    }
}

impl From<Timestamp> for Moment {
    fn from(at: Timestamp) -> Moment {
        Moment { at, offset: Offset::UTC }
    }
}

impl FromStr for Moment {
    type Err = MomentError;

    fn from_str(text: &str) -> Result<Moment, MomentError> {
        let error = || MomentError(text.to_owned());
        // The parser also takes ISO 8601 forms that RFC 3339 does not know.
        if text.as_bytes().get(10).is_none_or(|b| !matches!(b, b'T' | b't')) || text.contains('[') {
            return Err(error());
        }
        let at: Timestamp = text.parse().map_err(|_| error())?;
        let offset = Pieces::parse(text).ok().and_then(|p| p.to_numeric_offset()).ok_or_else(error)?;
        // RFC 3339 counts hours to 23; stricter readers would fail on what they get from us.
        if offset.seconds().abs() >= 24 * 60 * 60 {
            return Err(error());
        }
        Ok(Moment { at, offset })
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.offset == Offset::UTC { self.at.fmt(f) } else { self.at.display_with_offset(self.offset).fmt(f) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_what_was_written() {
        let check = |text: &str, expected: &str| {
            let moment: Moment = text.parse().expect(text);
            assert_eq!(moment.to_string(), expected);
        };
        check("2030-01-02T03:04:05+09:00", "2030-01-02T03:04:05+09:00");
        check("2030-01-02T03:04:05-00:30", "2030-01-02T03:04:05-00:30");
        check("2030-01-02T03:04:05Z", "2030-01-02T03:04:05Z");
        check("2030-01-02T03:04:05+00:00", "2030-01-02T03:04:05Z");
        check("2030-01-02T03:04:05.120Z", "2030-01-02T03:04:05.12Z");
        check("2026-11-15T19:36:21.214789506Z", "2026-11-15T19:36:21.214789506Z");
        check("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z");
    }

    #[test]
    fn months_and_seconds_are_those_of_its_offset() {
        for (text, month, seconds) in [
            ("2030-01-02T03:04:05.9Z", "2030-01", "2030-01-02T03:04:05Z"),
            ("2030-01-01T03:04:05+09:00", "2030-01", "2030-01-01T03:04:05+09:00"),
            ("2029-12-31T23:04:05.5-05:00", "2029-12", "2029-12-31T23:04:05-05:00"),
            ("1969-12-31T23:59:59.5Z", "1969-12", "1969-12-31T23:59:59Z"),
        ] {
            let moment: Moment = text.parse().expect(text);
            assert_eq!((moment.month().as_str(), moment.whole_seconds().as_str()), (month, seconds));
        }
    }

    #[test]
    fn zero_time() {
        let zero: Moment = "0001-01-01T00:00:00Z".parse().expect("zero");
        assert!(zero.is_zero());
        assert!(!Moment::from(Timestamp::UNIX_EPOCH).is_zero());
    }

    #[test]
    fn refuses_what_is_not_rfc_3339() {
        for bad in [
            "",
            "tomorrow",
            "2030-01-02",
            "2030-01-02T03:04:05",
            "2030-01-02 03:04:05Z",
            "2030-13-02T03:04:05Z",
            "2030-01-02T03:04:05+09:00[Asia/Tokyo]",
            "2030-01-02T03:04:05Zjunk",
            "2030-01-02T03:04:05+25:00",
            "2030-01-02T03:04:05-24:00",
        ] {
            assert!(bad.parse::<Moment>().is_err(), "{bad:?}");
        }
    }
}
