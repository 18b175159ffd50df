//! Times as people wrote them. A retire date keeps the offset it was given with; the "zero time" that Go programs send for an
//! unset field counts as absent.

use std::{fmt, str::FromStr};

use jiff::{
    Timestamp,
    civil::DateTime,
    fmt::temporal::{Pieces, PiecesOffset},
    tz::Offset,
};

/// A date and time together with the offset it was written in. It goes to the end of the year 9999, later than an instant can: the
/// last day of that year is what people write for "never".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    civil: DateTime,
    offset: Offset,
}

/// Why a text is not a time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MomentError {
    /// Another format, or a day that does not exist.
    #[error("invalid time: {0:?}; RFC 3339 is expected, such as 2030-01-02T03:04:05Z")]
    Format(String),
    /// A second that only some days have.
    #[error("invalid time: {0:?}; a leap second (:60) cannot be kept, give second 59 or the next minute")]
    LeapSecond(String),
}

impl Moment {
    /// The instant; for the last hours of the year 9999 the latest there is.
    pub fn timestamp(self) -> Timestamp {
        let limit = if self.civil.year() > 0 { Timestamp::MAX } else { Timestamp::MIN };
        self.offset.to_timestamp(self.civil).unwrap_or(limit)
    }

    /// Whether this is `0001-01-01T00:00:00Z`, which stands for "not set".
    pub fn is_zero(self) -> bool {
        // Seconds from year 1 to 1970, the difference between Go's and Unix' epochs.
        let at = self.timestamp();
        at.as_second() == -62_135_596_800 && at.subsec_nanosecond() == 0
    }

    /// As RFC 3339 in the offset it was written in, fractions of a second cut off.
    pub fn whole_seconds(self) -> String {
        let civil = self.civil.with().subsec_nanosecond(0).build().unwrap_or(self.civil);
        Moment { civil, offset: self.offset }.to_string()
    }

    /// Its year and month, in the offset it was written in.
    pub fn month(self) -> String {
        self.civil.strftime("%Y-%m").to_string()
    }
}

impl From<Timestamp> for Moment {
    fn from(at: Timestamp) -> Moment {
        Moment { civil: Offset::UTC.to_datetime(at), offset: Offset::UTC }
    }
}

impl FromStr for Moment {
    type Err = MomentError;

    fn from_str(text: &str) -> Result<Moment, MomentError> {
        let error = || MomentError::Format(text.to_owned());
        // The parser also takes ISO 8601 forms that RFC 3339 does not know.
        let has = |place: usize, wanted: &[u8]| text.as_bytes().get(place).is_some_and(|b| wanted.contains(b));
        if !has(10, b"Tt") || !has(13, b":") || !has(16, b":") || text.contains('[') {
            return Err(error());
        }
        // The parser would silently take the second before.
        if text.get(17..19) == Some("60") {
            return Err(MomentError::LeapSecond(text.to_owned()));
        }
        let pieces = Pieces::parse(text).map_err(|_| error())?;
        let offset = match pieces.offset().ok_or_else(error)? {
            PiecesOffset::Numeric(offset) => offset.offset(),
            _ => Offset::UTC,
        };
        // RFC 3339 counts hours to 23 and knows no seconds; stricter readers would fail on what they get from us.
        if offset.seconds().abs() >= 24 * 60 * 60 || offset.seconds() % 60 != 0 {
            return Err(error());
        }
        Ok(Moment { civil: pieces.date().to_datetime(pieces.time().ok_or_else(error)?), offset })
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.civil.fmt(f)?;
        if self.offset == Offset::UTC {
            return f.write_str("Z");
        }
        let minutes = self.offset.seconds().abs() / 60;
        let sign = if self.offset.is_negative() { '-' } else { '+' };
        write!(f, "{sign}{:02}:{:02}", minutes / 60, minutes % 60)
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
        check("9999-12-31T00:00:00Z", "9999-12-31T00:00:00Z");
        check("9999-12-31T23:59:59.999999999Z", "9999-12-31T23:59:59.999999999Z");
        check("9999-12-31T23:59:59-12:00", "9999-12-31T23:59:59-12:00");
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
    fn the_end_of_time_is_later_than_everything_else() {
        let end: Moment = "9999-12-31T23:59:59-12:00".parse().expect("a time");
        assert_eq!(end.timestamp(), Timestamp::MAX);
        let before: Moment = "9999-12-30T00:00:00Z".parse().expect("a time");
        assert!(before.timestamp() < end.timestamp());
        assert_eq!((end.month().as_str(), end.is_zero()), ("9999-12", false));
    }

    #[test]
    fn a_leap_second_is_refused_by_name() {
        for text in ["2016-12-31T23:59:60Z", "2030-01-02T03:04:60.5+09:00"] {
            let error = text.parse::<Moment>().expect_err(text).to_string();
            assert!(error.contains("leap second"), "{error}");
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
            "2030-01-02T03:04Z",
            "2030-01-02T030405Z",
            "2030-01-02T03:04:61Z",
            "2030-01-02T03:04:05+09:00:30",
            "10000-01-01T00:00:00Z",
        ] {
            assert!(bad.parse::<Moment>().is_err(), "{bad:?}");
        }
    }
}
