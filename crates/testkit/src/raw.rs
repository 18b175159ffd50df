//! HTTP by hand, for requests no well-behaved client sends.

use std::{
    io::{Read as _, Write as _},
    net::{IpAddr, SocketAddr, TcpStream},
    time::Duration,
};

use serde_json::Value;
use tokio::net::TcpSocket;

/// An answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// Headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: String,
}

impl Answer {
    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {:?}", self.body))
    }

    /// The text of an error body.
    pub fn error(&self) -> String {
        let json = self.json();
        json["error"].as_str().unwrap_or_else(|| panic!("no error in {json}")).to_owned()
    }

    /// A header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }
}

/// Sends one request and reads the answer to its end. HTTP/1.0, so that the body comes as it is.
pub fn request(url: &str, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
    exchange(connect(url), method, path, headers, body)
}

/// The same from another address of this host, such as any of 127.0.0.0/8.
pub fn request_from(
    source: IpAddr,
    url: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Answer {
    exchange(connect_from(source, url), method, path, headers, body)
}

fn exchange(mut stream: TcpStream, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
    let mut head = format!("{method} {path} HTTP/1.0\r\nhost: test\r\ncontent-length: {}\r\n", body.len());
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes()).expect("the head is sent");
    // A server that refuses a large body may answer and close before it has all of it.
    let _refused_early = stream.write_all(body);
    read_answer(stream)
}

/// A connection to the server of a URL such as `http://127.0.0.1:1234`.
pub fn connect(url: &str) -> TcpStream {
    let address = url.trim_start_matches("http://");
    let stream = TcpStream::connect(address).unwrap_or_else(|error| panic!("{address}: {error}"));
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    stream
}

/// The same from another address of this host.
pub fn connect_from(source: IpAddr, url: &str) -> TcpStream {
    let address = url.trim_start_matches("http://").parse().expect("an address and a port");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("a runtime");
    let connecting = async {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::new(source, 0))?;
        socket.connect(address).await?.into_std()
    };
    let stream = runtime.block_on(connecting).unwrap_or_else(|error| panic!("{source} to {address}: {error}"));
    stream.set_nonblocking(false).expect("blocking");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    stream
}

/// Reads an answer until the server closes the connection.
pub fn read_answer(mut stream: TcpStream) -> Answer {
    let mut bytes = Vec::new();
    // A reset after the answer is the end of it as well.
    let _reset_at_the_end = stream.read_to_end(&mut bytes);
    let text = String::from_utf8(bytes).expect("UTF-8");
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer but {text:?}"));
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok());
    let header = |line: &str| line.split_once(": ").map(|(n, v)| (n.to_ascii_lowercase(), v.to_owned()));
    Answer {
        status: status.unwrap_or_else(|| panic!("no status in {head:?}")),
        headers: lines.filter_map(header).collect(),
        body: body.to_owned(),
    }
}
