//! Machines: `/api/v1/machines`, and what can be changed of one: `/api/v1/state`, `/api/v1/labels`, `/api/v1/retire-date`.

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
        self.delete(&one(paths::MACHINES, serial)).map(drop)
    }

    /// The state of a machine, one word.
    pub fn get_state(&self, serial: &str) -> Result<String, Error> {
        let path = one(paths::STATE, serial);
        let body = self.get(&path, &[], limits::ANSWER_BYTES_MAX)?;
        String::from_utf8(body).map_err(|error| self.unexpected(&path, &error))
    }

    /// Moves a machine along its lifecycle; with `force` also against it, but never into `retired`.
    pub fn put_state(&self, serial: &str, state: &str, force: bool) -> Result<(), Error> {
        let query: &[_] = if force { &[("force".to_owned(), "true".to_owned())] } else { &[] };
        self.put_bytes(&one(paths::STATE, serial), query, TEXT, state.as_bytes())
    }

    /// Sets a label.
    pub fn put_label(&self, serial: &str, name: &str, value: &str) -> Result<(), Error> {
        self.put_bytes(&two(paths::LABELS, serial, name), &[], TEXT, value.as_bytes())
    }

    /// Takes a label away. An error with status 404 if it is not there.
    pub fn remove_label(&self, serial: &str, name: &str) -> Result<(), Error> {
        self.delete(&two(paths::LABELS, serial, name)).map(drop)
    }

    /// Says when a machine should go: a time as in RFC 3339.
    pub fn put_retire_date(&self, serial: &str, date: &str) -> Result<(), Error> {
        self.put_bytes(&one(paths::RETIRE_DATE, serial), &[], TEXT, date.as_bytes())
    }
}

const TEXT: &str = "text/plain";

/// The path of one thing.
pub(crate) fn one(path: &str, name: &str) -> String {
    format!("{path}/{}", encoded(name))
}

/// The path of a part of one thing.
pub(crate) fn two(path: &str, name: &str, part: &str) -> String {
    format!("{path}/{}/{}", encoded(name), encoded(part))
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
    fn a_change_of_a_machine_is_a_text() {
        let check = |change: &dyn Fn(&Client) -> Result<(), Error>, line: &str, body: &str| {
            let (url, request) = fake::answer(200, "");
            change(&Client::new(&url).unwrap()).unwrap();
            let request = request.join().unwrap();
            assert!(request.starts_with(&format!("{line} HTTP/1.1\r\n")), "{request}");
            assert!(request.ends_with(&format!("\r\n\r\n{body}")), "{request}");
        };
        check(&|client| client.put_state("a b", "retiring", false), "PUT /api/v1/state/a%20b", "retiring");
        check(&|client| client.put_state("a", "healthy", true), "PUT /api/v1/state/a?force=true", "healthy");
        check(&|client| client.put_label("a", "x.y", " v"), "PUT /api/v1/labels/a/x%2Ey", " v");
        check(&|client| client.put_label("a", "x", ""), "PUT /api/v1/labels/a/x", "");
        check(&|client| client.remove_label("a", "x"), "DELETE /api/v1/labels/a/x", "");
        let date = "2030-01-02T00:00:00Z";
        check(&|client| client.put_retire_date("a", date), "PUT /api/v1/retire-date/a", date);
        let (url, _request) = fake::answer(200, "retired");
        assert_eq!(Client::new(&url).unwrap().get_state("a").unwrap(), "retired");
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
