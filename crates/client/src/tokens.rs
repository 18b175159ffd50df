//! Access tokens: `/api/v1/tokens`.

use sabakan_wire::rest::{NewTokenJson, TokenJson, TokenRequest, paths};

use crate::{client::Client, error::Error, machines::one};

impl Client {
    /// Makes a token. Its text is in this answer and nowhere else.
    pub fn create_token(&self, name: &str, role: &str) -> Result<NewTokenJson, Error> {
        self.make_token(&TokenRequest { name: name.to_owned(), role: role.to_owned(), serial: None })
    }

    /// Makes a token that is bound to one machine.
    pub fn create_machine_token(&self, name: &str, serial: &str) -> Result<NewTokenJson, Error> {
        let serial = Some(serial.to_owned());
        self.make_token(&TokenRequest { name: name.to_owned(), role: "machine".to_owned(), serial })
    }

    /// Makes a token as asked.
    pub fn make_token(&self, request: &TokenRequest) -> Result<NewTokenJson, Error> {
        self.decode(paths::TOKENS, &self.exchange_json("POST", paths::TOKENS, request)?)
    }

    /// Every token, without its secret.
    pub fn list_tokens(&self) -> Result<Vec<TokenJson>, Error> {
        self.get_json(paths::TOKENS)
    }

    /// Takes a token away.
    pub fn revoke_token(&self, id: &str) -> Result<(), Error> {
        self.delete(&one(paths::TOKENS, id)).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;

    #[test]
    fn tokens_are_made_and_revoked() {
        let (url, request) = fake::answer(201, r#"{"id":"i","name":"ci","role":"read","token":"t"}"#);
        assert_eq!(Client::new(&url).unwrap().create_token("ci", "read").unwrap().token, "t");
        let request = request.join().unwrap();
        assert!(request.starts_with("POST /api/v1/tokens HTTP/1.1\r\n"), "{request}");
        assert!(request.ends_with(r#"{"name":"ci","role":"read"}"#), "{request}");
        let (url, request) = fake::answer(201, r#"{"id":"i","name":"ci","role":"machine","serial":"m","token":"t"}"#);
        let made = Client::new(&url).unwrap().create_machine_token("ci", "m").unwrap();
        assert_eq!(made.serial.as_deref(), Some("m"));
        assert!(request.join().unwrap().ends_with(r#"{"name":"ci","role":"machine","serial":"m"}"#));
        let (url, request) = fake::answer(200, "");
        Client::new(&url).unwrap().revoke_token("i").unwrap();
        assert!(request.join().unwrap().starts_with("DELETE /api/v1/tokens/i HTTP/1.1\r\n"));
        let (url, _request) = fake::answer(200, "[]");
        assert_eq!(Client::new(&url).unwrap().list_tokens().unwrap(), []);
    }
}
