//! Clients that wish a server no good: they open many sockets, say little, and stay. From an address that is not loopback, because
//! loopback belongs to operators.

use std::{
    fs,
    io::{self, ErrorKind, Read, Write as _},
    net::{IpAddr, SocketAddr, TcpStream},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc::{self, RecvTimeoutError, TryRecvError},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, pki_types::ServerName};
use rustls_pki_types::{CertificateDer, pem::PemObject as _};

/// How long a connection may take. Generous: test machines are busy.
const PATIENCE: Duration = Duration::from_secs(30);

/// An address of this machine that is not loopback. A server sees it as the peer of whoever connects to it there.
pub fn own_address() -> IpAddr {
    let table = fs::read_to_string("/proc/net/fib_trie").expect("the table of addresses");
    let mut last = None;
    for line in table.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("|-- ") {
            last = text.parse::<IpAddr>().ok();
        } else if line == "/32 host LOCAL"
            && let Some(address) = last.filter(|address| !address.is_loopback())
        {
            return address;
        }
    }
    panic!("needs an address that is not loopback, such as `ip address add 198.18.0.1/32 dev lo` gives this machine")
}

/// What a slow sender sends.
#[derive(Debug, Clone)]
pub struct SlowRequest {
    /// Where to.
    pub to: SocketAddr,
    /// At once.
    pub head: Vec<u8>,
    /// Again and again, with a pause each time; empty: nothing more.
    pub drip: Vec<u8>,
}

impl SlowRequest {
    /// A body that comes one byte at a time.
    pub fn body(to: SocketAddr, method: &str, path: &str) -> SlowRequest {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: x\r\nx-openstack-ironic-api-version: 1.82\r\ncontent-type: application/json\r\n\
             transfer-encoding: chunked\r\n\r\n1\r\n \r\n"
        );
        SlowRequest { to, head: head.into_bytes(), drip: b"1\r\n \r\n".to_vec() }
    }

    /// Headers that come one byte at a time.
    pub fn headers(to: SocketAddr) -> SlowRequest {
        SlowRequest { to, head: b"GET /version HTTP/1.1\r\nx: ".to_vec(), drip: b"y".to_vec() }
    }

    /// A request, and then nothing.
    pub fn idle(to: SocketAddr) -> SlowRequest {
        SlowRequest { to, head: b"GET /version HTTP/1.1\r\nhost: x\r\n\r\n".to_vec(), drip: Vec::new() }
    }
}

/// What each member of a crowd does.
pub trait Visit: Send + 'static {
    /// What it holds while it is there.
    type Connection: Send;

    /// Comes; `None` when it is not let in.
    fn come(&self) -> Option<Self::Connection>;

    /// Does what keeps it there; false when the server has closed.
    fn stay(&self, connection: &mut Self::Connection) -> bool;
}

impl Visit for SlowRequest {
    type Connection = TcpStream;

    fn come(&self) -> Option<TcpStream> {
        let mut stream = TcpStream::connect_timeout(&self.to, PATIENCE).ok()?;
        stream.write_all(&self.head).ok()?;
        stream.set_nonblocking(true).ok()?;
        Some(stream)
    }

    fn stay(&self, stream: &mut TcpStream) -> bool {
        let mut answer = [0; 4096];
        let closed = match stream.read(&mut answer) {
            Ok(length) => length == 0,
            Err(error) => error.kind() != ErrorKind::WouldBlock,
        };
        !closed && stream.write_all(&self.drip).is_ok()
    }
}

/// How a crowd fares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    /// How many were there after the last round.
    pub open: usize,
    /// How many came, each time they came.
    pub came: usize,
    /// How many of them were thrown out.
    pub thrown_out: usize,
}

#[derive(Default)]
struct Counters {
    open: AtomicUsize,
    came: AtomicUsize,
    thrown_out: AtomicUsize,
}

/// A crowd that stays. Whoever is thrown out comes back in the next round. Dropping it sends all home.
pub struct Crowd {
    counters: Arc<Counters>,
    open: mpsc::Receiver<()>,
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Crowd {
    /// Sends them all, and looks after each of them this often.
    pub fn start<V: Visit>(visits: Vec<V>, every: Duration) -> Crowd {
        let counters = Arc::new(Counters::default());
        let (stop, stopped) = mpsc::channel();
        let (all_open, open) = mpsc::channel();
        let told = Arc::clone(&counters);
        let thread = thread::spawn(move || {
            let mut connections: Vec<Option<V::Connection>> = visits.iter().map(|_| None).collect();
            loop {
                for (visit, connection) in visits.iter().zip(&mut connections) {
                    if stopped.try_recv() == Err(TryRecvError::Disconnected) {
                        return;
                    }
                    if connection.as_mut().is_some_and(|connection| visit.stay(connection)) {
                        continue;
                    }
                    told.thrown_out.fetch_add(usize::from(connection.is_some()), Ordering::Relaxed);
                    *connection = visit.come();
                    told.came.fetch_add(usize::from(connection.is_some()), Ordering::Relaxed);
                }
                told.open.store(connections.iter().flatten().count(), Ordering::Relaxed);
                // Nobody may be waiting for it.
                let _nobody = all_open.send(());
                if stopped.recv_timeout(every) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        });
        Crowd { counters, open, stop: Some(stop), thread: Some(thread) }
    }

    /// Returns when everybody has tried to come once.
    pub fn wait_until_open(&self) {
        // A crowd that panicked opens nothing more.
        let _panicked = self.open.recv();
    }

    /// How it fares so far.
    pub fn tally(&self) -> Tally {
        let [open, came, thrown_out] = [&self.counters.open, &self.counters.came, &self.counters.thrown_out]
            .map(|counter| counter.load(Ordering::Relaxed));
        Tally { open, came, thrown_out }
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A crowd that panicked has nothing more to say.
            let _panicked = thread.join();
        }
    }
}

/// Opens HTTP/2 connections without a request, and answers what keeps them alive.
#[derive(Debug, Clone)]
pub struct IdleHttp2 {
    to: SocketAddr,
    tls: Arc<ClientConfig>,
}

impl IdleHttp2 {
    /// `certificate`: that of the server, in PEM.
    pub fn new(to: SocketAddr, certificate: &Path) -> io::Result<IdleHttp2> {
        let mut roots = RootCertStore::empty();
        let certificate = CertificateDer::from_pem_file(certificate).map_err(io::Error::other)?;
        roots.add(certificate).map_err(io::Error::other)?;
        let mut tls = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        tls.alpn_protocols = vec![b"h2".to_vec()];
        Ok(IdleHttp2 { to, tls: Arc::new(tls) })
    }

    /// Opens one; an error when the server does not let it in.
    pub fn open(&self) -> io::Result<Http2Connection> {
        let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
        let tls = ClientConnection::new(Arc::clone(&self.tls), name).map_err(io::Error::other)?;
        let stream = TcpStream::connect_timeout(&self.to, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut stream = StreamOwned::new(tls, stream);
        // The preface, and settings that set nothing.
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")?;
        stream.flush()?;
        // The server's own settings: from now on it is a connection like any other.
        let mut received = vec![0; FRAME_HEAD];
        stream.read_exact(&mut received)?;
        Ok(Http2Connection { stream, received })
    }
}

impl Visit for IdleHttp2 {
    type Connection = Http2Connection;

    fn come(&self) -> Option<Http2Connection> {
        let connection = self.open().ok()?;
        connection.stream.sock.set_nonblocking(true).ok()?;
        Some(connection)
    }

    fn stay(&self, connection: &mut Http2Connection) -> bool {
        connection.answer_pings().is_ok()
    }
}

/// Octets in front of what a frame carries (RFC 9113, 4.1).
const FRAME_HEAD: usize = 9;
const PING: u8 = 6;
const ACK: u8 = 1;

/// An HTTP/2 connection without a request.
pub struct Http2Connection {
    stream: StreamOwned<ClientConnection, TcpStream>,
    /// What came and is not yet understood.
    received: Vec<u8>,
}

impl Http2Connection {
    /// Everything that comes until the server closes the connection.
    pub fn until_closed(mut self) -> Vec<u8> {
        let mut all = Vec::new();
        // A reset is an end as well.
        let _reset = self.stream.read_to_end(&mut all);
        all
    }

    /// Reads what is there and answers pings; an error when the connection has ended.
    fn answer_pings(&mut self) -> io::Result<()> {
        let mut chunk = [0; 4096];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(length) => self.received.extend(&chunk[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        while let Some(frame) = take_frame(&mut self.received) {
            if let [_, _, _, PING, flags, ..] = frame[..]
                && flags & ACK == 0
            {
                let mut answer = frame;
                answer[4] = ACK;
                self.stream.write_all(&answer)?;
                self.stream.flush()?;
            }
        }
        Ok(())
    }
}

/// The first whole frame, taken out.
fn take_frame(received: &mut Vec<u8>) -> Option<Vec<u8>> {
    let [a, b, c, ..] = received[..] else { return None };
    let end = FRAME_HEAD + usize::from(a) * 65_536 + usize::from(b) * 256 + usize::from(c);
    (received.len() >= end).then(|| received.drain(..end).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_taken_one_by_one() {
        let ping = [&[0, 0, 8, PING, 0, 0, 0, 0, 0][..], &[7; 8]].concat();
        let mut received = [&ping[..], &[0, 0, 0, 4, 1, 0, 0, 0, 0], &ping[..16]].concat();
        assert_eq!(take_frame(&mut received), Some(ping));
        assert_eq!(take_frame(&mut received), Some(vec![0, 0, 0, 4, 1, 0, 0, 0, 0]));
        assert_eq!(take_frame(&mut received), None, "an octet is missing");
        assert_eq!(received.len(), 16);
    }
}
