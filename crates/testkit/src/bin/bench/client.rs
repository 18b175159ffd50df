//! Clients that cost as little as possible: requests as bytes on connections that stay open, answers read to their last byte and
//! looked at no further. They share the machine with the server, so whatever they spend the figures would lack.

use std::{
    io::{BufRead, BufReader, Read as _, Write as _},
    net::TcpStream,
    sync::Barrier,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, anyhow, bail, ensure};
use sabakan_testkit::raw;

/// Enough that a large answer takes few calls, little enough that it stays in the processor's cache.
const BUFFER_BYTES: usize = 128 * 1024;

/// A connection that stays open.
pub struct Connection {
    stream: BufReader<TcpStream>,
    /// Of the line that is being read.
    line: Vec<u8>,
}

impl Connection {
    /// To the server of a URL such as `http://127.0.0.1:1234`.
    pub fn open(url: &str) -> anyhow::Result<Connection> {
        let stream = raw::connect(url);
        // Otherwise the kernel holds small requests back until the last answer is acknowledged.
        stream.set_nodelay(true)?;
        Ok(Connection { stream: BufReader::with_capacity(BUFFER_BYTES, stream), line: Vec::new() })
    }

    /// Sends a request and reads the answer to its end.
    pub fn ask(&mut self, request: &[u8]) -> anyhow::Result<Outcome> {
        let head = self.head(request)?;
        match head.length {
            Length::Chunked => self.skip_chunks()?,
            Length::Known(length) => self.skip(length)?,
        }
        Ok(head.outcome)
    }

    /// The same, and keeps the answer.
    pub fn fetch(&mut self, request: &[u8]) -> anyhow::Result<Vec<u8>> {
        let head = self.head(request)?;
        ensure!(head.outcome == Outcome::Answered, "the server could not answer");
        let Length::Known(length) = head.length else { bail!("an answer whose length is not known") };
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        Ok(body)
    }

    fn head(&mut self, request: &[u8]) -> anyhow::Result<Head> {
        self.stream.get_mut().write_all(request)?;
        let status = self.line()?.to_owned();
        let code = status.split(' ').nth(1);
        let outcome = match code {
            Some("200" | "201" | "204") => Outcome::Answered,
            // What a server says whose store does not keep up. That is a result, not the end of the measurement.
            Some("503" | "504") => Outcome::Unavailable,
            _ => bail!("{status}: {}", String::from_utf8_lossy(self.stream.fill_buf()?)),
        };
        let mut length = (code == Some("204")).then_some(Length::Known(0));
        loop {
            let line = self.line()?.to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = Some(Length::Known(value.trim().parse()?));
            }
            if line.strip_prefix("transfer-encoding:").is_some_and(|value| value.trim() == "chunked") {
                length = Some(Length::Chunked);
            }
        }
        let length = length.context("an answer without a length on a connection that stays open")?;
        Ok(Head { outcome, length })
    }

    fn skip_chunks(&mut self) -> anyhow::Result<()> {
        loop {
            let size = usize::from_str_radix(self.line()?, 16)?;
            if size == 0 {
                // The server sends no trailers.
                ensure!(self.line()?.is_empty(), "something follows the last chunk");
                return Ok(());
            }
            self.skip(size)?;
            ensure!(self.line()?.is_empty(), "a chunk is longer than it says");
        }
    }

    fn skip(&mut self, mut bytes: usize) -> anyhow::Result<()> {
        while bytes > 0 {
            let have = self.stream.fill_buf()?.len().min(bytes);
            ensure!(have > 0, "the connection ended within an answer");
            self.stream.consume(have);
            bytes -= have;
        }
        Ok(())
    }

    fn line(&mut self) -> anyhow::Result<&str> {
        self.line.clear();
        self.stream.read_until(b'\n', &mut self.line)?;
        let line = self.line.strip_suffix(b"\r\n").context("the connection ended within a line")?;
        Ok(std::str::from_utf8(line)?)
    }
}

/// What comes before the body of an answer.
struct Head {
    outcome: Outcome,
    length: Length,
}

/// How long a body is.
enum Length {
    Known(usize),
    Chunked,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// With what was asked for.
    Answered,
    /// With 503 or 504.
    Unavailable,
}

/// A request as it goes over the wire.
pub fn request(method: &str, path: &str, content_type: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: bench\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body.as_bytes()].concat()
}

/// What a number of clients saw.
pub struct Load {
    /// Seconds of every request that was answered.
    pub latencies: Vec<f64>,
    /// Requests the server could not serve.
    pub unavailable: usize,
    /// Answers per second of all clients together.
    pub rate: f64,
}

/// Asks with `clients` at once, each again as soon as it has its answer, for `span`; each at least once. `request` is told the
/// client and the number of the request.
pub fn load(
    url: &str,
    clients: usize,
    span: Duration,
    request: impl Fn(usize, usize) -> Vec<u8> + Sync,
) -> anyhow::Result<Load> {
    let connections = (0..clients).map(|_| Connection::open(url)).collect::<anyhow::Result<Vec<_>>>()?;
    let ready = Barrier::new(clients + 1);
    let (outcomes, seconds) = thread::scope(|scope| {
        let run = |(client, connection): (usize, Connection)| {
            let (ready, request) = (&ready, &request);
            scope.spawn(move || {
                ready.wait();
                repeat(connection, span, |number| request(client, number))
            })
        };
        let threads: Vec<_> = connections.into_iter().enumerate().map(run).collect();
        ready.wait();
        let begun = Instant::now();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| thread.join().map_err(|_| anyhow!("a client panicked"));
        let outcomes: Vec<_> = threads.into_iter().map(join).collect();
        (outcomes, begun.elapsed().as_secs_f64())
    });
    let (mut latencies, mut unavailable) = (Vec::new(), 0);
    for outcome in outcomes {
        let (mut answered, failed) = outcome??;
        latencies.append(&mut answered);
        unavailable += failed;
    }
    ensure!(!latencies.is_empty(), "not one of {unavailable} requests was answered");
    let rate = latencies.len() as f64 / seconds;
    Ok(Load { latencies, unavailable, rate })
}

fn repeat(
    mut connection: Connection,
    span: Duration,
    request: impl Fn(usize) -> Vec<u8>,
) -> anyhow::Result<(Vec<f64>, usize)> {
    let begun = Instant::now();
    let (mut latencies, mut unavailable) = (Vec::new(), 0);
    while latencies.len() + unavailable == 0 || begun.elapsed() < span {
        let request = request(latencies.len() + unavailable);
        let asked = Instant::now();
        match connection.ask(&request)? {
            Outcome::Answered => latencies.push(asked.elapsed().as_secs_f64()),
            Outcome::Unavailable => unavailable += 1,
        }
    }
    Ok((latencies, unavailable))
}
