//! Machines: `/api/v1/machines`.

use sabakan_wire::rest::{MachineInput, MachineJson, QueryParams, paths};

use crate::{
    client::{Client, encoded},
    error::Error,
    limits,
};

impl Client {
    /// The machines that match all conditions. None at all is an error with status 404.
    pub fn list_machines(&self, query: &QueryParams) -> Result<Vec<MachineJson>, Error> {
        self.decode(paths::MACHINES, &self.get(paths::MACHINES, query.pairs(), limits::LIST_BYTES_MAX)?)
    }

    /// The same as the server's own JSON, with fields of newer servers and the order of keys.
    pub fn list_machines_text(&self, query: &QueryParams) -> Result<String, Error> {
        let body = self.get(paths::MACHINES, query.pairs(), limits::LIST_BYTES_MAX)?;
        String::from_utf8(body).map_err(|error| self.unexpected(paths::MACHINES, &error))
    }

    /// Registers all of them or none.
    pub fn create_machines(&self, machines: &[MachineInput]) -> Result<(), Error> {
        self.send_json("POST", paths::MACHINES, &machines)
    }

    /// Removes a retired machine.
    pub fn remove_machine(&self, serial: &str) -> Result<(), Error> {
        self.delete(&format!("{}/{}", paths::MACHINES, encoded(serial)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;

    #[test]
    fn conditions_travel_encoded() {
        let (url, request) = fake::answer(200, "[]");
        let mut query = QueryParams::default();
        query.push("labels", "a=1,b=x y&z");
        query.push("without-state", "retired");
        query.push("serial", "");
        assert_eq!(Client::new(&url).unwrap().list_machines(&query).unwrap(), []);
        let request = request.join().unwrap();
        let expected = "GET /api/v1/machines?labels=a%3D1%2Cb%3Dx%20y%26z&without-state=retired HTTP/1.1\r\n";
        assert!(request.starts_with(expected), "{request}");
    }

    #[test]
    fn too_many_conditions_are_not_sent() {
        let mut query = QueryParams::default();
        query.push("serial", "a".repeat(limits::URL_BYTES_MAX));
        // Nobody listens on this port: a request would be told by another error.
        let error = Client::new("http://127.0.0.1:1").unwrap().list_machines(&query).unwrap_err();
        let expected = "the request cannot be sent: it names too much at once: 65576 bytes, at most 65534";
        assert_eq!(error.to_string(), expected);
        query = QueryParams::default();
        query.push("serial", "a".repeat(limits::URL_BYTES_MAX - "http://127.0.0.1:1/api/v1/machines?serial=".len()));
        let error = Client::new("http://127.0.0.1:1").unwrap().list_machines(&query).unwrap_err();
        assert!(matches!(error, Error::Connect { .. }), "{error}");
    }

    #[test]
    fn serial_is_one_segment_of_the_path() {
        let check = |serial: &str, expected: &str| {
            let (url, request) = fake::answer(200, "");
            Client::new(&url).unwrap().remove_machine(serial).unwrap();
            let request = request.join().unwrap();
            assert!(request.starts_with(&format!("DELETE /api/v1/machines/{expected} HTTP/1.1\r\n")), "{request}");
        };
        check("1234-abcd_X", "1234-abcd_X");
        check("SRV 0001", "SRV%200001");
        check("a/../b?c#d%", "a%2F%2E%2E%2Fb%3Fc%23d%25");
        check("..", "%2E%2E");
        check("日", "%E6%97%A5");
    }

    #[test]
    fn registration_sends_only_what_was_given() {
        let (url, request) = fake::answer(201, "");
        let machine = MachineInput {
            serial: Some("a".into()),
            rack: Some(1),
            role: Some("boot".into()),
            ..MachineInput::default()
        };
        Client::new(&url).unwrap().create_machines(&[machine]).unwrap();
        let request = request.join().unwrap();
        assert!(request.starts_with("POST /api/v1/machines HTTP/1.1\r\n"), "{request}");
        assert!(request.contains("content-type: application/json\r\n"), "{request}");
        assert!(request.ends_with("\r\n\r\n[{\"serial\":\"a\",\"rack\":1,\"role\":\"boot\"}]"), "{request}");
    }

    #[test]
    fn list_of_something_else_is_an_unexpected_answer() {
        let (url, _request) = fake::answer(200, "<html>");
        let error = Client::new(&url).unwrap().list_machines(&QueryParams::default()).unwrap_err();
        let expected = format!("unexpected answer from {url}/api/v1/machines: expected value at line 1 column 1");
        assert_eq!(error.to_string(), expected);
    }
}
