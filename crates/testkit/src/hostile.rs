//! Clients that wish a server no good: they open many sockets, say little, and stay. From an address that is not loopback, because
//! loopback belongs to operators.

use std::{
    fs,
    io::{Read, Write as _},
    net::{IpAddr, SocketAddr, TcpStream},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc::{self, RecvTimeoutError},
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

/// A crowd of slow senders. Whoever is thrown out comes back. Dropping it sends them home.
pub struct Crowd {
    /// How many were thrown out so far.
    thrown_out: Arc<AtomicUsize>,
    open: mpsc::Receiver<()>,
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Crowd {
    /// Opens a socket for each request and lets each drip this often.
    pub fn start(requests: Vec<SlowRequest>, every: Duration) -> Crowd {
        let thrown_out = Arc::new(AtomicUsize::new(0));
        let (stop, stopped) = mpsc::channel();
        let (all_open, open) = mpsc::channel();
        let count = Arc::clone(&thrown_out);
        let thread = thread::spawn(move || {
            let mut streams: Vec<Option<TcpStream>> = requests.iter().map(|_| None).collect();
            loop {
                for (request, stream) in requests.iter().zip(&mut streams) {
                    if !stream.as_mut().is_some_and(|stream| drip(stream, &request.drip)) {
                        count.fetch_add(usize::from(stream.is_some()), Ordering::Relaxed);
                        *stream = connect(request);
                    }
                }
                // Nobody may be waiting for it.
                let _nobody = all_open.send(());
                if stopped.recv_timeout(every) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        });
        Crowd { thrown_out, open, stop: Some(stop), thread: Some(thread) }
    }

    /// Returns when every socket was opened once.
    pub fn wait_until_open(&self) {
        // A crowd that panicked opens nothing more.
        let _panicked = self.open.recv();
    }

    /// How many were thrown out so far.
    pub fn thrown_out(&self) -> usize {
        self.thrown_out.load(Ordering::Relaxed)
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

fn connect(request: &SlowRequest) -> Option<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&request.to, PATIENCE).ok()?;
    stream.write_all(&request.head).ok()?;
    stream.set_nonblocking(true).ok()?;
    Some(stream)
}

/// Sends a little more; false when the server has closed.
fn drip(stream: &mut TcpStream, bytes: &[u8]) -> bool {
    let mut answer = [0; 4096];
    let closed = match stream.read(&mut answer) {
        Ok(length) => length == 0,
        Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
    };
    !closed && stream.write_all(bytes).is_ok()
}

/// An HTTP/2 connection without a request.
pub struct IdleHttp2(StreamOwned<ClientConnection, TcpStream>);

impl IdleHttp2 {
    /// Opens one. `certificate`: that of the server, in PEM; absent or refused: an error.
    pub fn open(to: SocketAddr, certificate: &Path) -> std::io::Result<IdleHttp2> {
        let mut roots = RootCertStore::empty();
        let certificate = CertificateDer::from_pem_file(certificate).map_err(std::io::Error::other)?;
        roots.add(certificate).map_err(std::io::Error::other)?;
        let mut config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let name = ServerName::try_from("localhost").map_err(std::io::Error::other)?;
        let tls = ClientConnection::new(Arc::new(config), name).map_err(std::io::Error::other)?;
        let stream = TcpStream::connect_timeout(&to, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut stream = StreamOwned::new(tls, stream);
        // The preface, and settings that set nothing.
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")?;
        stream.flush()?;
        // The server's own settings: from now on it is a connection like any other.
        stream.read_exact(&mut [0; 9])?;
        Ok(IdleHttp2(stream))
    }

    /// Everything that comes until the server closes the connection.
    pub fn until_closed(mut self) -> Vec<u8> {
        let mut all = Vec::new();
        // A reset is an end as well.
        let _reset = self.0.read_to_end(&mut all);
        all
    }
}
