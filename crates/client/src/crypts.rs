//! Disk keys: `/api/v1/crypts`.

use sabakan_wire::rest::paths;

use crate::{
    client::Client,
    error::Error,
    limits,
    machines::{one, two},
};

impl Client {
    /// Stores the key of a disk. An error with status 409 if it has one. Sent to another host only over HTTPS: a server that
    /// refuses a key because it came in the clear has been sent it already.
    pub fn put_key(&self, serial: &str, disk: &str, key: &[u8]) -> Result<(), Error> {
        self.require_private("a disk key")?;
        self.put_bytes(&two(paths::CRYPTS, serial, disk), &[], "application/octet-stream", key)
    }

    /// The key of a disk. Only status 404 means that there is none.
    pub fn get_key(&self, serial: &str, disk: &str) -> Result<Vec<u8>, Error> {
        self.get(&two(paths::CRYPTS, serial, disk), &[], limits::ANSWER_BYTES_MAX)
    }

    /// Deletes every key of a retiring machine, which makes it retired. Gives the disks.
    pub fn delete_keys(&self, serial: &str) -> Result<Vec<String>, Error> {
        let path = one(paths::CRYPTS, serial);
        self.decode(&path, &self.delete(&path)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;

    #[test]
    fn keys_are_bytes() {
        let (url, request) = fake::answer(201, r#"{"status":201,"path":"abc"}"#);
        Client::new(&url).unwrap().put_key("a", "pci-0000:00", b"secret").unwrap();
        let request = request.join().unwrap();
        assert!(request.starts_with("PUT /api/v1/crypts/a/pci-0000%3A00 HTTP/1.1\r\n"), "{request}");
        assert!(request.contains("content-type: application/octet-stream\r\n"), "{request}");
        assert!(request.ends_with("\r\n\r\nsecret"), "{request}");
        let (url, _request) = fake::answer(200, "\0\n\u{7f}");
        assert_eq!(Client::new(&url).unwrap().get_key("a", "b").unwrap(), b"\0\n\x7f");
        let (url, request) = fake::answer(200, r#"["abc"]"#);
        assert_eq!(Client::new(&url).unwrap().delete_keys("a").unwrap(), ["abc"]);
        assert!(request.join().unwrap().starts_with("DELETE /api/v1/crypts/a HTTP/1.1\r\n"));
    }

    #[test]
    fn keys_do_not_leave_the_host_in_the_clear() {
        // An address for documentation: nobody is there, and nobody is asked.
        let error = Client::new("http://192.0.2.1:1").unwrap().put_key("a", "b", b"secret").unwrap_err();
        assert!(matches!(error, Error::Exposed { what: "a disk key", .. }), "{error:?}");
    }
}
