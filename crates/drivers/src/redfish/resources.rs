//! Reading and changing resources: tolerant of what is missing, strict about what is bounded.

use reqwest::{Method, StatusCode};
use serde_json::Value;
use tokio::time::sleep;

use super::{
    http::Answer,
    limits::{MEMBERS_MAX, PAGES_MAX},
    quirks::is_busy,
    session::Connection,
};
use crate::{DriverError, TaskId};

/// A resource, and its version for changing it.
#[derive(Debug, Clone)]
pub struct Resource {
    pub body: Value,
    pub etag: Option<String>,
}

impl Connection {
    /// Reads a resource.
    pub async fn get(&self, what: &str, link: &str) -> Result<Value, DriverError> {
        Ok(self.get_resource(what, link).await?.body)
    }

    /// Reads a resource with its version.
    pub async fn get_resource(&self, what: &str, link: &str) -> Result<Resource, DriverError> {
        let answer = self.request(what, Method::GET, link, None, None).await?;
        if !answer.is_success() {
            return Err(answer.refusal(&format!("show {what}")));
        }
        Ok(Resource { body: answer.json(what)?, etag: answer.etag() })
    }

    /// Reads what `parent` links to under `name`; an absent link is [`DriverError::Unsupported`].
    pub async fn follow(&self, parent: &Value, name: &str) -> Result<Value, DriverError> {
        let link = link_of(&parent[name]).ok_or_else(|| DriverError::Unsupported(name.to_owned()))?;
        self.get(name, &link).await
    }

    /// Links of all members of a collection, through all its pages.
    pub async fn member_links(&self, what: &str, link: &str) -> Result<Vec<String>, DriverError> {
        let mut found = Vec::new();
        let mut next = Some(link.to_owned());
        for _ in 0..PAGES_MAX {
            let Some(page) = next else { return Ok(found) };
            let page = self.get(what, &page).await?;
            let members = page["Members"].as_array().ok_or_else(|| DriverError::Protocol {
                what: what.to_owned(),
                reason: "a collection without Members".to_owned(),
            })?;
            found.extend(members.iter().filter_map(link_of));
            if found.len() > MEMBERS_MAX {
                break;
            }
            next = page["Members@odata.nextLink"].as_str().map(str::to_owned);
        }
        let reason = format!("a collection of more than {MEMBERS_MAX} members or {PAGES_MAX} pages");
        Err(DriverError::Protocol { what: what.to_owned(), reason })
    }

    /// Reads all members of the collection that `parent` links to under `name`.
    pub async fn members(&self, parent: &Value, name: &str) -> Result<Vec<Value>, DriverError> {
        let link = link_of(&parent[name]).ok_or_else(|| DriverError::Unsupported(name.to_owned()))?;
        let mut found = Vec::new();
        for link in self.member_links(name, &link).await? {
            found.push(self.get(name, &link).await?);
        }
        Ok(found)
    }

    /// Changes a resource. A controller that is busy is asked again for a while. The answer may still be a refusal.
    pub async fn patch(&self, what: &str, link: &str, etag: Option<&str>, body: &Value) -> Result<Answer, DriverError> {
        let mut answer = self.patch_once(what, link, etag, body).await?;
        for _ in 1..self.pace.busy_attempts {
            if !is_busy(&answer) {
                break;
            }
            tracing::debug!(what, status = %answer.status, "the BMC is busy, trying again");
            sleep(self.pace.busy_pause).await;
            // It may have changed meanwhile; the version read before would be refused.
            let etag = self.get_resource(what, link).await.ok().and_then(|resource| resource.etag);
            answer = self.patch_once(what, link, etag.as_deref(), body).await?;
        }
        Ok(answer)
    }

    /// Sends the version where the resource has one: some demand it. Others refuse it, or change it by themselves all the time.
    async fn patch_once(
        &self,
        what: &str,
        link: &str,
        etag: Option<&str>,
        body: &Value,
    ) -> Result<Answer, DriverError> {
        let etag = etag.filter(|_| !self.remembered.no_if_match());
        let mut answer = self.request(what, Method::PATCH, link, etag, Some(body)).await?;
        if matches!(answer.status, StatusCode::PRECONDITION_FAILED | StatusCode::PRECONDITION_REQUIRED) {
            let fresh = self.get_resource(what, link).await.ok().and_then(|resource| resource.etag);
            answer = self.request(what, Method::PATCH, link, fresh.as_deref().or(Some("*")), Some(body)).await?;
            if answer.status == StatusCode::PRECONDITION_FAILED {
                answer = self.request(what, Method::PATCH, link, None, Some(body)).await?;
                if answer.is_success() {
                    self.remembered.learn_no_if_match();
                }
            }
        }
        Ok(answer)
    }

    /// Changes a resource or says why not.
    pub async fn change(
        &self,
        what: &str,
        link: &str,
        etag: Option<&str>,
        body: &Value,
    ) -> Result<Answer, DriverError> {
        done(what, self.patch(what, link, etag, body).await?)
    }

    /// Runs an action or creates something. A controller that is busy is asked again for a while.
    pub async fn post(&self, what: &str, link: &str, body: &Value) -> Result<Answer, DriverError> {
        self.write(what, Method::POST, link, Some(body)).await
    }

    /// Deletes something.
    pub async fn delete(&self, what: &str, link: &str) -> Result<Answer, DriverError> {
        self.write(what, Method::DELETE, link, None).await
    }

    async fn write(&self, what: &str, method: Method, link: &str, body: Option<&Value>) -> Result<Answer, DriverError> {
        for attempt in 1.. {
            let answer = self.request(what, method.clone(), link, None, body).await?;
            if attempt >= self.pace.busy_attempts || !is_busy(&answer) {
                return done(what, answer);
            }
            tracing::debug!(what, status = %answer.status, "the BMC is busy, trying again");
            sleep(self.pace.busy_pause).await;
        }
        unreachable!("the last attempt returns")
    }
}

fn done(what: &str, answer: Answer) -> Result<Answer, DriverError> {
    if answer.is_success() { Ok(answer) } else { Err(answer.refusal(what)) }
}

/// The target of a link.
pub fn link_of(value: &Value) -> Option<String> {
    value["@odata.id"].as_str().filter(|link| !link.is_empty()).map(str::to_owned)
}

/// A text that says something.
pub fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// Where changes of a resource go: to its settings if it has them apart, otherwise to itself.
pub fn settings_link(resource: &Value, itself: &str) -> String {
    link_of(&resource["@Redfish.Settings"]["SettingsObject"]).unwrap_or_else(|| itself.to_owned())
}

/// The task that an answer leaves behind, if the controller is not done yet.
pub fn task_of(answer: &Answer) -> Option<TaskId> {
    let body = answer.json_if_any().unwrap_or_default();
    let is_task = body["@odata.type"].as_str().is_some_and(|kind| kind.starts_with("#Task."));
    let from_body = || link_of(&body).filter(|_| is_task);
    match answer.status {
        StatusCode::ACCEPTED => answer.location().map(str::to_owned).or_else(from_body),
        _ => from_body(),
    }
    .map(TaskId)
}
