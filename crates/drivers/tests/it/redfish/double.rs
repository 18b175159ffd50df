//! A small Redfish controller of our own, over TLS, for what the emulator cannot do: sessions, versions, quirks, broken answers.
//!
//! It does not cover: virtual media, events, registries, query options such as `$expand`, accounts with fewer rights, HTTP/2, several
//! clients that compete for sessions, and time: nothing in it takes long unless a test says so. It believes what it is told, so a
//! request that a real controller would find malformed may pass here; that is what the emulator is for.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    fs,
    net::SocketAddr,
    path::PathBuf,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard},
    task::{Context, Poll},
};

use axum::{
    Router,
    body::{Body, Bytes, HttpBody},
    extract::State,
    response::Response,
};
use http::{HeaderMap, Method, Uri};
use hyper::{body::Frame, server::conn::http1};
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use sabakan_drivers::{Secret, Settings};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{net::TcpListener, sync::Notify, task::JoinHandle};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        self,
        pki_types::{PrivateKeyDer, pem::PemObject},
    },
};

pub const USER: &str = "root";
pub const PASSWORD: &str = "correct horse";
pub const SYSTEM: &str = "/redfish/v1/Systems/1";
pub const RESET: &str = "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset";
pub const SESSIONS: &str = "/redfish/v1/SessionService/Sessions";

/// One request as it arrived.
#[derive(Debug, Clone)]
pub struct Seen {
    pub method: Method,
    /// With the query.
    pub path: String,
    pub headers: BTreeMap<String, String>,
    pub body: Value,
}

/// What to answer instead of the usual.
#[derive(Debug, Clone)]
pub enum Reply {
    Json(u16, Value),
    /// Status and message of an error, in the form of the standard.
    Error(u16, &'static str, &'static str),
    Header(u16, &'static str, String, Value),
    Raw(String),
    /// A body without end.
    Endless,
    /// Nothing, ever.
    Silence,
    /// This, when the test says so.
    Later(Arc<Notify>, Box<Reply>),
}

type Rule = Box<dyn FnMut(&Seen, &mut Service) -> Option<Reply> + Send>;

/// What the controller holds.
#[derive(Default)]
pub struct Service {
    pub resources: BTreeMap<String, Value>,
    /// Tokens of open sessions.
    pub sessions: BTreeSet<String>,
    /// Versions that changes have to name.
    pub etags: BTreeMap<String, String>,
    pub seen: Vec<Seen>,
    opened: usize,
    writing: usize,
    pub writing_most: usize,
}

#[derive(Default)]
struct Shared {
    service: Mutex<Service>,
    rules: Mutex<Vec<Rule>>,
}

/// The running double; stops when dropped.
pub struct Double {
    address: SocketAddr,
    scheme: &'static str,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
    dir: TempDir,
}

/// How its certificate is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Certificate {
    /// By an authority, for loopback.
    Issued,
    /// By an authority, for another name.
    OtherName,
    /// By itself, as authority and for no name: what most controllers leave the factory with.
    SelfSigned,
    /// By an authority, for loopback, long ago.
    Expired,
    /// No TLS at all.
    None,
}

impl Double {
    pub async fn start() -> Double {
        Double::start_with(Certificate::Issued).await
    }

    pub async fn start_with(certificate: Certificate) -> Double {
        let dir = TempDir::new().unwrap();
        let config = server_config(certificate, &dir);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let scheme = if certificate == Certificate::None { "http" } else { "https" };
        let shared = Arc::new(Shared::default());
        shared.service.lock().unwrap().resources = tree();
        let router = Router::new().fallback(handle).with_state(shared.clone());
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let accepting = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (acceptor, router) = (acceptor.clone(), router.clone());
                tokio::spawn(async move {
                    let service = TowerToHyperService::new(router);
                    let http = http1::Builder::new();
                    if certificate == Certificate::None {
                        let _ = http.serve_connection(TokioIo::new(socket), service).await;
                        return;
                    }
                    // A client that does not believe the certificate ends here, as it should.
                    let Ok(socket) = acceptor.accept(socket).await else { return };
                    let _ = http.serve_connection(TokioIo::new(socket), service).await;
                });
            }
        });
        Double { address, scheme, shared, accepting, dir }
    }

    pub fn service(&self) -> MutexGuard<'_, Service> {
        self.shared.service.lock().unwrap()
    }

    pub fn ca(&self) -> PathBuf {
        self.dir.path().join("ca.pem")
    }

    pub fn address(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    pub fn settings(&self) -> Settings {
        let values = [
            ("redfish_address", json!(self.address())),
            ("redfish_username", json!(USER)),
            ("redfish_verify_ca", json!(self.ca())),
        ];
        Settings {
            values: values.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
            secrets: [("redfish_password".to_owned(), Secret::new(PASSWORD))].into(),
            machine: "double".to_owned(),
        }
    }

    /// Asked before everything else, in the order they were added.
    pub fn rule(&self, rule: impl FnMut(&Seen, &mut Service) -> Option<Reply> + Send + 'static) {
        self.shared.rules.lock().unwrap().push(Box::new(rule));
    }

    /// Answers the next requests of this kind so, `times` of them.
    pub fn answer(&self, method: Method, path: &'static str, mut times: usize, reply: Reply) {
        self.rule(move |seen, _| {
            let is_it = times > 0 && seen.method == method && seen.path == path;
            times -= usize::from(is_it);
            is_it.then(|| reply.clone())
        });
    }

    /// Merges into a resource.
    pub fn set(&self, path: &str, change: &Value) {
        merge(self.service().resources.entry(path.to_owned()).or_insert_with(|| json!({})), change);
    }

    /// Requests of this kind so far.
    pub fn seen(&self, method: &Method, path: &str) -> Vec<Seen> {
        self.service().seen.iter().filter(|seen| seen.method == *method && seen.path == path).cloned().collect()
    }
}

impl Drop for Double {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn handle(
    State(shared): State<Arc<Shared>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let text = |value: &http::HeaderValue| value.to_str().unwrap_or_default().to_owned();
    let seen = Seen {
        method: method.clone(),
        path: uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
        headers: headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect(),
        body: serde_json::from_slice(&body).unwrap_or_default(),
    };
    let is_write = method != Method::GET && !seen.path.starts_with(SESSIONS);
    if is_write {
        let mut service = shared.service.lock().unwrap();
        service.writing += 1;
        service.writing_most = service.writing_most.max(service.writing);
    }
    // Lets other requests in, so that two changes at once would be noticed.
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
    let reply = {
        let mut service = shared.service.lock().unwrap();
        service.seen.push(seen.clone());
        service.writing -= usize::from(is_write);
        let by_rule = shared.rules.lock().unwrap().iter_mut().find_map(|rule| rule(&seen, &mut service));
        by_rule.unwrap_or_else(|| usual(&mut service, &seen))
    };
    respond(reply).await
}

async fn respond(reply: Reply) -> Response {
    let answer = |status: u16| Response::builder().status(status).header("content-type", "application/json");
    let with = |builder: http::response::Builder, body: Value| {
        let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
        builder.body(body).unwrap()
    };
    match reply {
        Reply::Json(status, body) => with(answer(status), body),
        Reply::Error(status, id, message) => {
            let info = json!([{ "MessageId": id, "Message": message }]);
            with(answer(status), json!({ "error": { "code": "Base.1.8.GeneralError", "@Message.ExtendedInfo": info } }))
        }
        Reply::Header(status, name, value, body) => with(answer(status).header(name, value), body),
        Reply::Raw(text) => answer(200).body(Body::from(text)).unwrap(),
        Reply::Endless => answer(200).body(Body::new(Blanks)).unwrap(),
        Reply::Silence => std::future::pending().await,
        Reply::Later(now, reply) => {
            now.notified().await;
            Box::pin(respond(*reply)).await
        }
    }
}

/// A body that goes on as long as somebody reads.
struct Blanks;

impl HttpBody for Blanks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[b' '; 65536])))))
    }
}

/// What a sound controller answers.
pub fn usual(service: &mut Service, seen: &Seen) -> Reply {
    let path = seen.path.as_str();
    if path == "/redfish/v1/" {
        return Reply::Json(200, service.resources[path].clone());
    }
    if seen.method == Method::POST && path == SESSIONS && service.resources.contains_key(SESSIONS) {
        if seen.body["UserName"] != USER || seen.body["Password"] != PASSWORD {
            return Reply::Error(401, "Base.1.8.NoValidSession", "Invalid credentials.");
        }
        service.opened += 1;
        let token = format!("token-{}", service.opened);
        service.sessions.insert(token.clone());
        return Reply::Header(
            201,
            "x-auth-token",
            token.clone(),
            json!({ "@odata.id": format!("{SESSIONS}/{token}") }),
        );
    }
    if !is_authenticated(service, seen) {
        return Reply::Error(401, "Base.1.8.NoValidSession", "There is no valid session established.");
    }
    if let Some(token) = path.strip_prefix(SESSIONS).and_then(|rest| rest.strip_prefix('/')) {
        let is_open = match seen.method {
            Method::DELETE => service.sessions.remove(token),
            _ => service.sessions.contains(token),
        };
        return Reply::Json(if is_open { 200 } else { 404 }, json!({}));
    }
    match seen.method {
        Method::GET => read(service, path),
        Method::PATCH => patch(service, seen),
        Method::DELETE => Reply::Json(if service.resources.remove(path).is_some() { 204 } else { 404 }, Value::Null),
        Method::POST => act(service, seen),
        _ => Reply::Json(405, Value::Null),
    }
}

fn is_authenticated(service: &Service, seen: &Seen) -> bool {
    // "root:correct horse"
    let is_basic = seen.headers.get("authorization").is_some_and(|value| value == "Basic cm9vdDpjb3JyZWN0IGhvcnNl");
    is_basic || seen.headers.get("x-auth-token").is_some_and(|token| service.sessions.contains(token))
}

fn read(service: &Service, path: &str) -> Reply {
    match (service.resources.get(path), service.etags.get(path)) {
        (Some(found), Some(etag)) => Reply::Header(200, "etag", etag.clone(), found.clone()),
        (Some(found), None) => Reply::Json(200, found.clone()),
        (None, _) => Reply::Error(404, "Base.1.8.ResourceMissingAtURI", "The resource is missing."),
    }
}

fn patch(service: &mut Service, seen: &Seen) -> Reply {
    match (service.etags.get(&seen.path), seen.headers.get("if-match")) {
        (Some(_), None) => return Reply::Json(428, Value::Null),
        (Some(etag), Some(given)) if given != "*" && given != etag => return Reply::Json(412, Value::Null),
        _ => {}
    }
    let Some(resource) = service.resources.get_mut(&seen.path) else { return Reply::Json(404, Value::Null) };
    merge(resource, &seen.body);
    Reply::Json(204, Value::Null)
}

fn act(service: &mut Service, seen: &Seen) -> Reply {
    match seen.path.as_str() {
        RESET => {
            let is_off = matches!(seen.body["ResetType"].as_str(), Some("ForceOff" | "GracefulShutdown"));
            let system = service.resources.get_mut(SYSTEM).unwrap();
            system["PowerState"] = json!(if is_off { "Off" } else { "On" });
            Reply::Json(204, Value::Null)
        }
        path if path.ends_with("/Volumes") => {
            let link = format!("{path}/{}", seen.body["Name"].as_str().unwrap_or_default());
            let mut volume = seen.body.clone();
            volume["@odata.id"] = json!(link);
            service.resources.get_mut(path).unwrap()["Members"]
                .as_array_mut()
                .unwrap()
                .push(json!({ "@odata.id": link }));
            service.resources.insert(link.clone(), volume);
            Reply::Header(201, "location", link, Value::Null)
        }
        _ => Reply::Json(204, Value::Null),
    }
}

fn merge(into: &mut Value, change: &Value) {
    match (into, change) {
        (Value::Object(into), Value::Object(change)) => {
            change.iter().for_each(|(key, value)| merge(into.entry(key.clone()).or_insert(Value::Null), value));
        }
        (into, change) => *into = change.clone(),
    }
}

fn link(path: &str) -> Value {
    json!({ "@odata.id": path })
}

pub fn collection(paths: &[&str]) -> Value {
    json!({ "Members": paths.iter().map(|path| link(path)).collect::<Vec<_>>() })
}

/// A machine with everything this driver looks at.
fn tree() -> BTreeMap<String, Value> {
    let s = |rest: &str| format!("{SYSTEM}{rest}");
    let c = "/redfish/v1/Chassis/1";
    let system = json!({
        "@odata.id": SYSTEM, "Manufacturer": "Contoso", "Model": "3500", "SerialNumber": "SN-1", "UUID": "u-1",
        "BiosVersion": "1.2", "PowerState": "Off", "Status": { "Health": "OK", "HealthRollup": "Warning" },
        "MemorySummary": { "TotalSystemMemoryGiB": 96 },
        "Boot": {
            "BootSourceOverrideEnabled": "Disabled", "BootSourceOverrideTarget": "None", "BootSourceOverrideMode": "UEFI",
            "BootSourceOverrideTarget@Redfish.AllowableValues": ["None", "Pxe", "Hdd", "Cd", "UsbCd", "BiosSetup", "UefiHttp"],
        },
        "Actions": { "#ComputerSystem.Reset": { "target": RESET, "ResetType@Redfish.AllowableValues":
            ["On", "ForceOff", "GracefulShutdown", "ForceRestart", "GracefulRestart"] } },
        "Bios": link(&s("/Bios")), "SecureBoot": link(&s("/SecureBoot")), "Processors": link(&s("/Processors")),
        "EthernetInterfaces": link(&s("/EthernetInterfaces")), "Storage": link(&s("/Storage")),
        "Links": { "Chassis": [link(c)], "ManagedBy": [link("/redfish/v1/Managers/1")] },
    });
    let drive = |id: &str| json!({ "Id": id, "Model": "M", "SerialNumber": id, "CapacityBytes": 1_000_000_000_000u64, "MediaType": "SSD" });
    let nic = |id: &str, mac: &str| json!({ "Id": id, "MACAddress": mac, "LinkStatus": "LinkUp", "SpeedMbps": 25000 });
    let drives = [s("/Storage/1/Drives/d0"), s("/Storage/1/Drives/d1")];
    let entries = [
        (
            "/redfish/v1/".to_owned(),
            json!({
            "Systems": link("/redfish/v1/Systems"), "Chassis": link("/redfish/v1/Chassis"), "Managers": link("/redfish/v1/Managers"),
            "SessionService": link("/redfish/v1/SessionService"), "UpdateService": link("/redfish/v1/UpdateService"),
            "Links": { "Sessions": link(SESSIONS) } }),
        ),
        ("/redfish/v1/Systems".to_owned(), collection(&[SYSTEM])),
        (SESSIONS.to_owned(), collection(&[])),
        (SYSTEM.to_owned(), system),
        (
            s("/Bios"),
            json!({ "Attributes": { "Turbo": true, "Threads": 2, "Mode": "Uefi" },
            "@Redfish.Settings": { "SettingsObject": link(&s("/Bios/Settings")) },
            "Actions": { "#Bios.ResetBios": { "target": s("/Bios/Actions/Bios.ResetBios") } } }),
        ),
        (s("/Bios/Settings"), json!({ "Attributes": {} })),
        (s("/SecureBoot"), json!({ "SecureBootEnable": false })),
        (s("/Processors"), collection(&[&s("/Processors/1")])),
        (
            s("/Processors/1"),
            json!({ "ProcessorType": "CPU", "Model": "X", "InstructionSet": "x86-64", "TotalThreads": 32, "MaxSpeedMHz": 3500 }),
        ),
        (s("/EthernetInterfaces"), collection(&[&s("/EthernetInterfaces/1"), &s("/EthernetInterfaces/2")])),
        (s("/EthernetInterfaces/1"), nic("1", "02:00:00:00:00:01")),
        (s("/EthernetInterfaces/2"), nic("2", "02:00:00:00:00:02")),
        (s("/Storage"), collection(&[&s("/Storage/1")])),
        (
            s("/Storage/1"),
            json!({ "Id": "1", "Drives": drives.iter().map(|d| link(d)).collect::<Vec<_>>(), "Volumes": link(&s("/Storage/1/Volumes")) }),
        ),
        (drives[0].clone(), drive("d0")),
        (drives[1].clone(), drive("d1")),
        (s("/Storage/1/Volumes"), collection(&[&s("/Storage/1/Volumes/root")])),
        (
            s("/Storage/1/Volumes/root"),
            json!({ "Name": "root", "RAIDType": "RAID1", "CapacityBytes": 100u64 << 30,
            "Links": { "Drives": drives.iter().map(|d| link(d)).collect::<Vec<_>>() } }),
        ),
        (c.to_owned(), json!({ "Thermal": link(&format!("{c}/Thermal")), "Power": link(&format!("{c}/Power")) })),
        (
            format!("{c}/Thermal"),
            json!({ "Temperatures": [{ "Name": "CPU", "ReadingCelsius": 41 }], "Fans": [{ "Name": "Fan", "Reading": 2100 }] }),
        ),
        (
            format!("{c}/Power"),
            json!({ "PowerControl": [{ "Name": "System", "PowerConsumedWatts": 230.5 }], "Voltages": [{ "Name": "P12", "ReadingVolts": 12.1 }] }),
        ),
        (
            "/redfish/v1/Managers/1".to_owned(),
            json!({ "EthernetInterfaces": link("/redfish/v1/Managers/1/EthernetInterfaces"),
            "Actions": { "#Manager.Reset": { "target": "/redfish/v1/Managers/1/Actions/Manager.Reset", "ResetType@Redfish.AllowableValues": ["ForceRestart"] } } }),
        ),
        (
            "/redfish/v1/Managers/1/EthernetInterfaces".to_owned(),
            collection(&["/redfish/v1/Managers/1/EthernetInterfaces/eth0"]),
        ),
        ("/redfish/v1/Managers/1/EthernetInterfaces/eth0".to_owned(), nic("eth0", "02:00:00:00:00:FF")),
        (
            "/redfish/v1/UpdateService".to_owned(),
            json!({ "Actions": { "#UpdateService.SimpleUpdate": { "target": "/redfish/v1/UpdateService/Actions/UpdateService.SimpleUpdate" } } }),
        ),
    ];
    entries.into_iter().collect()
}

fn server_config(kind: Certificate, dir: &TempDir) -> rustls::ServerConfig {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let name = if kind == Certificate::OtherName { "elsewhere.example" } else { "127.0.0.1" };
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new([name.to_owned()]).unwrap();
    if kind == Certificate::Expired {
        params.not_before = rcgen::date_time_ymd(2001, 1, 1);
        params.not_after = rcgen::date_time_ymd(2002, 1, 1);
    }
    let issued = params.signed_by(&key, &ca).unwrap();
    let (chain, key, trusted) = match kind {
        Certificate::SelfSigned => (ca.der().clone(), ca.key().serialize_pem(), ca.pem()),
        _ => (issued.der().clone(), key.serialize_pem(), ca.pem()),
    };
    fs::write(dir.path().join("ca.pem"), trusted).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    builder.with_no_client_auth().with_single_cert(vec![chain], key).unwrap()
}
