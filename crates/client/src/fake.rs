//! A server for tests that answers one request with given bytes and hands the request back. It understands just enough HTTP to know
//! where a request ends.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    thread::JoinHandle,
};

/// Answers one request. Gives the server's URL, and the request as it arrived.
pub fn answer(status: u16, body: &str) -> (String, JoinHandle<String>) {
    let response = format!("HTTP/1.1 {status} x\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
    serve(move |stream| {
        let request = read_request(stream);
        stream.write_all(response.as_bytes()).expect("the client reads the answer");
        request
    })
}

/// Answers one request after the other, each on a connection of its own.
pub fn answers(bodies: &[&str]) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    let bodies: Vec<String> = bodies.iter().map(|body| (*body).to_owned()).collect();
    let one = move |body: String| {
        let (mut stream, _) = listener.accept().expect("a connection");
        let request = read_request(&mut stream);
        let head = format!("HTTP/1.1 200 x\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
        stream.write_all(format!("{head}{body}").as_bytes()).expect("the client reads the answer");
        request
    };
    (url, std::thread::spawn(move || bodies.into_iter().map(one).collect()))
}

/// Accepts one connection and lets `act` do with it what it likes.
pub fn serve<T: Send + 'static>(act: impl FnOnce(&mut TcpStream) -> T + Send + 'static) -> (String, JoinHandle<T>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    let handle = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        act(&mut stream)
    });
    (url, handle)
}

/// Reads up to the end of the head.
pub fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).expect("readable") == 1 {
        head.push(byte[0]);
    }
    String::from_utf8(head).expect("UTF-8")
}

fn read_request(stream: &mut TcpStream) -> String {
    let mut request = read_head(stream);
    let length = request
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .map_or(0, |n| n.parse().expect("a number"));
    let mut body = vec![0; length];
    stream.read_exact(&mut body).expect("a whole body");
    request.push_str(&String::from_utf8(body).expect("UTF-8"));
    request
}
