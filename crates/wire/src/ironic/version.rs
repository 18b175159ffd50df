//! Versions of the API. The major number is always 1; everything depends on the minor one.

use std::fmt;

/// The minor number of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u16);

/// The header that names the version a request speaks, and the one an answer does.
pub const VERSION_HEADER: &str = "x-openstack-ironic-api-version";
/// The lowest version this server speaks.
pub const MIN_VERSION_HEADER: &str = "x-openstack-ironic-api-minimum-version";
/// The highest one.
pub const MAX_VERSION_HEADER: &str = "x-openstack-ironic-api-maximum-version";
/// The header that all OpenStack services share; its value begins with the name of the service.
pub const API_VERSION: &str = "openstack-api-version";
/// The id of a request, in answers.
pub const REQUEST_ID: &str = "openstack-request-id";

/// Why a version is not spoken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VersionError {
    /// Not two numbers.
    #[error("Invalid value for X-OpenStack-Ironic-API-Version header")]
    Malformed,
    /// Another major number.
    #[error(
        "Mutually exclusive versions requested. Version {0} requested but not supported by this service. The supported version \
         range is: [{min}, {max}].", min = Version::MIN, max = Version::MAX
    )]
    Major(String),
    /// Out of range.
    #[error(
        "Version {0} was requested but the minor version is not supported by this service. The supported version range is: \
         [{min}, {max}].", min = Version::MIN, max = Version::MAX
    )]
    Minor(String),
}

impl Version {
    /// What a request without a version speaks.
    pub const MIN: Version = Version(1);
    /// The highest one whose nodes this server shows and changes as clients expect.
    pub const MAX: Version = Version(115);

    /// The version a request asks for. `own`: the header of this API; `shared`: the one of all services.
    pub fn negotiate(own: Option<&str>, shared: Option<&str>) -> Result<Version, VersionError> {
        let shared = shared.and_then(|value| value.trim().strip_prefix("baremetal "));
        let Some(text) = own.or(shared).map(str::trim) else { return Ok(Version::MIN) };
        if text.eq_ignore_ascii_case("latest") {
            return Ok(Version::MAX);
        }
        let (major, minor) = text.split_once('.').ok_or(VersionError::Malformed)?;
        let number = |text: &str| text.parse::<u16>().map_err(|_| VersionError::Malformed);
        let (major, minor) = (number(major)?, number(minor)?);
        if major != 1 {
            return Err(VersionError::Major(text.to_owned()));
        }
        let version = Version(minor);
        let range = Version::MIN..=Version::MAX;
        if range.contains(&version) { Ok(version) } else { Err(VersionError::Minor(text.to_owned())) }
    }

    /// Whether it has what came with a minor version.
    pub fn has(self, since: u16) -> bool {
        self.0 >= since
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_headers_ask_for() {
        let check = |own: Option<&str>, shared: Option<&str>, expected: Result<Version, ()>| {
            assert_eq!(Version::negotiate(own, shared).map_err(drop), expected, "{own:?} {shared:?}");
        };
        check(None, None, Ok(Version(1)));
        check(Some("1.31"), None, Ok(Version(31)));
        check(Some("latest"), None, Ok(Version::MAX));
        check(None, Some("baremetal 1.50"), Ok(Version(50)));
        check(None, Some("compute 2.1"), Ok(Version(1)));
        check(Some("1.5"), Some("baremetal 1.50"), Ok(Version(5)));
        for bad in ["1.0", "1.116", "1.999", "2.0", "9.9", "abc", "1", "", "1.x", "1.99999"] {
            check(Some(bad), None, Err(()));
        }
        let text = VersionError::Minor("1.116".to_owned()).to_string();
        assert!(text.ends_with("The supported version range is: [1.1, 1.115]."), "{text}");
    }
}
