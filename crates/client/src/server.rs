//! About the server itself: version, health, and the description of its API.

use sabakan_wire::rest::paths;
use serde::Deserialize;

use crate::{client::Client, error::Error, limits};

#[derive(Deserialize)]
struct Version {
    version: String,
}

#[derive(Deserialize)]
struct Health {
    health: String,
}

impl Client {
    /// The version of the server.
    pub fn version(&self) -> Result<String, Error> {
        Ok(self.get_json::<Version>(paths::VERSION)?.version)
    }

    /// Whether the server can do its work. An error means that nobody could say.
    pub fn health(&self) -> Result<bool, Error> {
        let (status, body) = self.get_any(paths::HEALTH)?;
        // An unhealthy server answers with an error status and the same shape.
        match serde_json::from_slice::<Health>(&body) {
            Ok(Health { health }) => Ok(status.is_success() && health == "healthy"),
            Err(error) if status.is_success() => Err(self.unexpected(paths::HEALTH, &error)),
            Err(_) => Err(Error::api(status, &body)),
        }
    }

    /// The server's API as an OpenAPI document.
    pub fn openapi(&self) -> Result<String, Error> {
        let body = self.get(paths::OPENAPI, &[], limits::ANSWER_BYTES_MAX)?;
        String::from_utf8(body).map_err(|error| self.unexpected(paths::OPENAPI, &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;

    #[test]
    fn version_of_the_server() {
        let (url, request) = fake::answer(200, r#"{"version":"3.1.9"}"#);
        assert_eq!(Client::new(&url).unwrap().version().unwrap(), "3.1.9");
        assert!(request.join().unwrap().starts_with("GET /version HTTP/1.1\r\n"));
    }

    #[test]
    fn health_is_an_answer_and_not_an_error() {
        let health = |status, body| Client::new(&fake::answer(status, body).0).unwrap().health();
        assert!(health(200, r#"{"health":"healthy"}"#).unwrap());
        assert!(!health(503, r#"{"health":"unhealthy","parts":[]}"#).unwrap());
        assert!(!health(500, r#"{"health":"unhealthy"}"#).unwrap());
        assert!(matches!(health(502, "gateway"), Err(Error::Api { status: 502, .. })));
        assert!(matches!(health(200, "hello"), Err(Error::Decode { .. })));
    }
}
