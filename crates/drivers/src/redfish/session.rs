//! Logging in, staying logged in, and logging out. Controllers allow few sessions and keep those nobody closes, so there is one per
//! account and controller, shared by all work on it, and it is deleted when it is given up.

use std::{sync::Arc, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use reqwest::{
    Method, StatusCode, Url,
    header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue},
};
use serde_json::{Value, json};
use tokio::{
    sync::{Mutex, Semaphore, oneshot},
    time::Instant,
};

use super::{
    http::{Answer, Http},
    limits::{Pace, READS_AT_ONCE},
    quirks::Remembered,
    resources::link_of,
    settings::{Account, AuthType, Endpoint},
};
use crate::{DriverError, Secret};

const TOKEN: HeaderName = HeaderName::from_static("x-auth-token");

/// How much is asked of one controller at a time, whoever asks.
#[derive(Debug)]
pub struct Gate {
    reads: Semaphore,
    writes: Mutex<()>,
}

impl Gate {
    pub fn new() -> Gate {
        Gate { reads: Semaphore::new(READS_AT_ONCE), writes: Mutex::new(()) }
    }
}

/// The way to one controller with one account.
#[derive(Debug)]
pub struct Connection {
    root: Url,
    account: Option<Account>,
    auth: AuthType,
    http: Arc<Http>,
    gate: Arc<Gate>,
    standing: Mutex<Standing>,
    pub pace: Pace,
    pub remembered: Remembered,
}

/// How requests are authenticated at present.
#[derive(Debug, Clone)]
enum Standing {
    /// Not decided yet, or a session was lost.
    Unknown,
    /// With a session.
    Session(Session),
    /// With name and password; after this time a session is tried again.
    Basic(Option<Instant>),
}

#[derive(Debug, Clone)]
struct Session {
    token: Secret,
    /// Where it can be asked for and deleted.
    path: Option<String>,
    /// When it last worked.
    proven: Instant,
}

impl Connection {
    /// Contacts nobody.
    pub fn new(endpoint: &Endpoint, http: Arc<Http>, gate: Arc<Gate>, pace: &Pace) -> Connection {
        Connection {
            root: endpoint.root.clone(),
            account: endpoint.account.clone(),
            auth: endpoint.auth,
            http,
            gate,
            standing: Mutex::new(Standing::Unknown),
            pace: pace.clone(),
            remembered: Remembered::default(),
        }
    }

    /// The service root's path.
    pub fn root_path(&self) -> &str {
        self.root.path()
    }

    /// One authenticated request. Any status is an answer, except that a lost session is renewed once behind the scenes.
    pub async fn request(
        &self,
        what: &str,
        method: Method,
        link: &str,
        if_match: Option<&str>,
        body: Option<&Value>,
    ) -> Result<Answer, DriverError> {
        let closed = |_| DriverError::Unreachable("the driver is shutting down".to_owned());
        // One change at a time: two at once make some controllers answer 409, others mix them up.
        let (_read, _write) = match method {
            Method::GET => (Some(self.gate.reads.acquire().await.map_err(closed)?), None),
            _ => (None, Some(self.gate.writes.lock().await)),
        };
        let url = self.url(what, link)?;
        let mut standing = self.standing(what).await?;
        let mut answer = self.exchange(what, &method, &url, if_match, body, &standing).await?;
        if self.is_session_lost(&standing, answer.status).await {
            standing = self.renew(what, &standing).await?;
            answer = self.exchange(what, &method, &url, if_match, body, &standing).await?;
        }
        if answer.is_success() {
            self.prove(&standing).await;
        }
        answer.hide = self.secrets(&standing);
        Ok(answer)
    }

    /// Deletes the session, if there is one.
    pub async fn log_out(&self) {
        let standing = std::mem::replace(&mut *self.standing.lock().await, Standing::Unknown);
        if let Standing::Session(session) = standing {
            end(&self.http, &self.root, &session).await;
        }
    }

    /// Forgets the session without deleting it: the controller restarts and forgets it too.
    pub async fn forget(&self) {
        *self.standing.lock().await = Standing::Unknown;
    }

    /// Only the path of a link counts: credentials go nowhere but to the controller.
    fn url(&self, what: &str, link: &str) -> Result<Url, DriverError> {
        on_host(&self.root, link).ok_or_else(|| DriverError::Protocol {
            what: what.to_owned(),
            reason: format!("{:?} is no link", super::http::shortened(link)),
        })
    }

    async fn exchange(
        &self,
        what: &str,
        method: &Method,
        url: &Url,
        if_match: Option<&str>,
        body: Option<&Value>,
        standing: &Standing,
    ) -> Result<Answer, DriverError> {
        let mut headers = self.credentials(standing)?;
        if let Some(etag) = if_match.and_then(|etag| HeaderValue::from_str(etag).ok()) {
            headers.insert(reqwest::header::IF_MATCH, etag);
        }
        self.http.exchange(what, method.clone(), url, &headers, body).await
    }

    fn credentials(&self, standing: &Standing) -> Result<HeaderMap, DriverError> {
        let (name, text) = match (standing, &self.account) {
            (Standing::Session(session), _) => (TOKEN, session.token.clone()),
            (Standing::Basic(_), Some(account)) => (AUTHORIZATION, basic(account)),
            (Standing::Basic(_) | Standing::Unknown, _) => return Ok(HeaderMap::new()),
        };
        let mut value = HeaderValue::from_str(text.expose()).map_err(|_| DriverError::Protocol {
            what: "log in".to_owned(),
            reason: "its token holds a character that HTTP cannot carry".to_owned(),
        })?;
        value.set_sensitive(true);
        Ok(HeaderMap::from_iter([(name, value)]))
    }

    fn secrets(&self, standing: &Standing) -> Vec<Secret> {
        let token = match standing {
            Standing::Session(session) => Some(session.token.clone()),
            Standing::Basic(_) | Standing::Unknown => None,
        };
        self.account.iter().map(|account| account.password.clone()).chain(token).collect()
    }

    /// How to authenticate, logging in if nobody did. Others wait here meanwhile, so that one session is opened and not several.
    async fn standing(&self, what: &str) -> Result<Standing, DriverError> {
        let mut standing = self.standing.lock().await;
        let undecided = match &*standing {
            Standing::Unknown => true,
            Standing::Session(_) => false,
            Standing::Basic(until) => until.is_some_and(|until| until <= Instant::now()),
        };
        if undecided {
            *standing = self.log_in(what).await?;
        }
        Ok(standing.clone())
    }

    async fn log_in(&self, what: &str) -> Result<Standing, DriverError> {
        let Some(account) = self.account.as_ref().filter(|_| self.auth != AuthType::Basic) else {
            return Ok(Standing::Basic(None));
        };
        let none = HeaderMap::new();
        let root = self.http.exchange(what, Method::GET, &self.root, &none, None).await?;
        let sessions = match root.status {
            // The root is open to everybody by the standard; where it is not, sessions are where the standard has them.
            StatusCode::UNAUTHORIZED => Some(format!("{}SessionService/Sessions", self.root.path())),
            _ if !root.is_success() => return Err(root.refusal("show its service root")),
            _ => sessions_link(&root.json("the service root")?),
        };
        let Some(sessions) = sessions else { return self.without_session(None) };
        let body = json!({ "UserName": account.user, "Password": account.password.expose() });
        let url = self.url(what, &sessions)?;
        let mut answer = self.open_session(url, body).await?;
        answer.hide = vec![account.password.clone()];
        match answer.status {
            status if status.is_success() => match session_of(&answer) {
                Some(session) => Ok(Standing::Session(session)),
                None => self.without_session(Some(&answer)),
            },
            // Trying the same password another way would only bring the account nearer to being locked.
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(answer.refusal("log in")),
            _ => self.without_session(Some(&answer)),
        }
    }

    /// Asks for a session in a task of its own: whoever waits for it may be cut short at any moment, and a session that was opened
    /// meanwhile has to be deleted by somebody.
    async fn open_session(&self, url: Url, body: Value) -> Result<Answer, DriverError> {
        let (http, root) = (self.http.clone(), self.root.clone());
        let (give, take) = oneshot::channel();
        tokio::spawn(async move {
            let answer = http.exchange("log in", Method::POST, &url, &HeaderMap::new(), Some(&body)).await;
            if let Err(Ok(unwanted)) = give.send(answer)
                && let Some(session) = session_of(&unwanted)
            {
                end(&http, &root, &session).await;
            }
        });
        take.await.unwrap_or_else(|_| Err(DriverError::Unreachable("logging in was cut short".to_owned())))
    }

    /// What to do when the controller opens no session: for good if it has none, for a while if it only could not.
    fn without_session(&self, answer: Option<&Answer>) -> Result<Standing, DriverError> {
        let has_none = |status| {
            matches!(status, StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED)
        };
        match (self.auth, answer) {
            (AuthType::Session, None) => Err(DriverError::Unsupported("logging in by session".to_owned())),
            (AuthType::Session, Some(answer)) if answer.is_success() => Err(DriverError::Protocol {
                what: "log in".to_owned(),
                reason: "it opened a session without a token".to_owned(),
            }),
            (AuthType::Session, Some(answer)) => Err(answer.refusal("log in")),
            (_, Some(answer)) if !has_none(answer.status) => {
                tracing::info!(status = %answer.status, "the BMC opens no session, using basic authentication for a while");
                Ok(Standing::Basic(Some(Instant::now() + self.pace.session_retry)))
            }
            (_, _) => Ok(Standing::Basic(None)),
        }
    }

    /// Controllers report an ended session in three ways; only one of them says so.
    async fn is_session_lost(&self, standing: &Standing, status: StatusCode) -> bool {
        let Standing::Session(session) = standing else { return false };
        match status {
            StatusCode::UNAUTHORIZED => true,
            StatusCode::FORBIDDEN => !self.is_alive(session).await,
            StatusCode::NOT_FOUND if session.proven.elapsed() > self.pace.session_trusted => {
                !self.is_alive(session).await
            }
            _ => false,
        }
    }

    async fn is_alive(&self, session: &Session) -> bool {
        let Some(url) = session.path.as_deref().and_then(|path| on_host(&self.root, path)) else { return true };
        let Ok(headers) = self.credentials(&Standing::Session(session.clone())) else { return true };
        match self.http.exchange("show our session", Method::GET, &url, &headers, None).await {
            Ok(answer) => answer.is_success(),
            // Not known; what the request itself was answered then stands.
            Err(_) => true,
        }
    }

    /// Logs in again, unless somebody else did meanwhile.
    async fn renew(&self, what: &str, lost: &Standing) -> Result<Standing, DriverError> {
        {
            let mut standing = self.standing.lock().await;
            if same_session(&standing, lost) {
                *standing = Standing::Unknown;
            }
        }
        self.standing(what).await
    }

    async fn prove(&self, used: &Standing) {
        let mut standing = self.standing.lock().await;
        if same_session(&standing, used)
            && let Standing::Session(session) = &mut *standing
        {
            session.proven = Instant::now();
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let Standing::Session(session) = self.standing.get_mut().clone() else { return };
        // Outside a runtime nothing can be sent any more; the controller ends the session by itself after a while.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (http, root) = (self.http.clone(), self.root.clone());
        runtime.spawn(async move { end(&http, &root, &session).await });
    }
}

/// Deletes a session. Nobody waits for the result, so a failure is only worth a note.
async fn end(http: &Http, root: &Url, session: &Session) {
    const PATIENCE: Duration = Duration::from_secs(10);
    let Some(url) = session.path.as_deref().and_then(|path| on_host(root, path)) else { return };
    let Ok(mut token) = HeaderValue::from_str(session.token.expose()) else { return };
    token.set_sensitive(true);
    let headers = HeaderMap::from_iter([(TOKEN, token)]);
    let going = http.exchange("log out", Method::DELETE, &url, &headers, None);
    if !matches!(tokio::time::timeout(PATIENCE, going).await, Ok(Ok(answer)) if answer.is_success()) {
        tracing::debug!(host = root.host_str(), "the session could not be deleted, it will end by itself");
    }
}

/// The session that an answer opened.
fn session_of(answer: &Answer) -> Option<Session> {
    let token = answer.header(TOKEN.as_str()).filter(|_| answer.is_success())?;
    Some(Session {
        token: Secret::new(token),
        path: answer.location().map(str::to_owned).or_else(|| link_of(&answer.json_if_any()?)),
        proven: Instant::now(),
    })
}

fn same_session(a: &Standing, b: &Standing) -> bool {
    matches!((a, b), (Standing::Session(a), Standing::Session(b)) if a.token.expose() == b.token.expose())
}

fn on_host(root: &Url, link: &str) -> Option<Url> {
    let joined = root.join(link).ok()?;
    let mut url = root.clone();
    url.set_path(joined.path());
    url.set_query(joined.query());
    Some(url)
}

fn sessions_link(root: &Value) -> Option<String> {
    let direct = link_of(&root["Links"]["Sessions"]);
    direct.or_else(|| Some(format!("{}/Sessions", link_of(&root["SessionService"])?.trim_end_matches('/'))))
}

fn basic(account: &Account) -> Secret {
    let pair = Secret::new(format!("{}:{}", account.user, account.password.expose()));
    Secret::new(format!("Basic {}", STANDARD.encode(pair.expose())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_never_lead_away_from_the_controller() {
        let root = Url::parse("https://bmc:8443/redfish/v1/").unwrap();
        for (link, expected) in [
            ("/redfish/v1/Systems/1", "https://bmc:8443/redfish/v1/Systems/1"),
            ("https://elsewhere/redfish/v1/Systems", "https://bmc:8443/redfish/v1/Systems"),
            ("//elsewhere/x?$skip=5", "https://bmc:8443/x?$skip=5"),
            ("Systems", "https://bmc:8443/redfish/v1/Systems"),
        ] {
            assert_eq!(on_host(&root, link).unwrap().as_str(), expected);
        }
    }

    #[test]
    fn sessions_are_found_by_either_link() {
        let direct = json!({ "Links": { "Sessions": { "@odata.id": "/s" } }, "SessionService": { "@odata.id": "/t" } });
        assert_eq!(sessions_link(&direct).as_deref(), Some("/s"));
        let service = json!({ "SessionService": { "@odata.id": "/redfish/v1/SessionService/" } });
        assert_eq!(sessions_link(&service).as_deref(), Some("/redfish/v1/SessionService/Sessions"));
        assert_eq!(sessions_link(&json!({})), None);
    }
}
