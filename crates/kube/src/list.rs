//! Lists in pages, of whatever kind.

use kube::core::{Request, params::ListParams};
use sabakan_drivers::kubernetes::KubernetesError;
use serde::{Deserialize, de::DeserializeOwned};

use crate::{
    Kube,
    failure::{self, Failure},
    limits,
};

/// Objects of one kind.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    /// Plural name, for messages.
    pub name: &'static str,
    pub path: &'static str,
    /// More of them are an error.
    pub max: usize,
}

/// A page of a list.
#[derive(Debug)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// Where the next one begins.
    pub next: Option<String>,
    /// The moment the list is of.
    pub moment: String,
}

#[derive(Deserialize)]
struct RawList<T> {
    #[serde(default)]
    metadata: RawListMeta,
    items: Vec<T>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct RawListMeta {
    #[serde(rename = "continue")]
    next: Option<String>,
    resource_version: String,
}

/// Reads a page.
pub fn read_page<T: DeserializeOwned>(text: &str) -> Result<Page<T>, serde_json::Error> {
    let list: RawList<T> = serde_json::from_str(text)?;
    let RawListMeta { next, resource_version: moment } = list.metadata;
    Ok(Page { items: list.items, next: next.filter(|token| !token.is_empty()), moment })
}

/// A value in a field selector. Its own signs must not end it: a name that holds a comma would select something else.
pub fn field_value(text: &str) -> String {
    let mut value = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '\\' | ',' | '=') {
            value.push('\\');
        }
        value.push(c);
    }
    value
}

impl Kube {
    /// All objects that are asked for, and the moment they are of. Begins anew where the API server has forgotten the moment the list began at.
    pub(crate) async fn list_all<T: DeserializeOwned>(
        &self,
        kind: Kind,
        params: &ListParams,
    ) -> Result<(Vec<T>, String), KubernetesError> {
        let pages = async {
            for _ in 0..limits::LIST_ATTEMPTS {
                match self.list_once(kind, params.clone()).await {
                    Err(Failure::Expired) => {}
                    Err(failure) => return Err(failure.into()),
                    Ok(items) => return Ok(items),
                }
            }
            Err(Failure::Expired.into())
        };
        let late = || KubernetesError::Unreachable(format!("no complete list of {} in time", kind.name));
        tokio::time::timeout(limits::LIST_MAX, pages).await.unwrap_or_else(|_| Err(late()))
    }

    async fn list_once<T: DeserializeOwned>(
        &self,
        kind: Kind,
        params: ListParams,
    ) -> Result<(Vec<T>, String), Failure> {
        let what = &format!("list {}", kind.name);
        let mut params = params.limit(limits::PAGE_ITEMS);
        let mut items = Vec::new();
        loop {
            let request = Request::new(kind.path).list(&params).map_err(|error| failure::request(what, &error))?;
            let page: Page<T> =
                read_page(&self.send(what, request).await?).map_err(|error| failure::answer(what, &error))?;
            items.extend(page.items);
            if items.len() > kind.max {
                let reason = format!("more than {} {}", kind.max, kind.name);
                return Err(Failure::Other(KubernetesError::Protocol { what: what.clone(), reason }));
            }
            match page.next {
                Some(token) => params = params.continue_token(&token),
                None => return Ok((items, page.moment)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn pages_say_whether_there_is_another() {
        let page = |metadata: Value| {
            read_page::<Value>(&json!({ "metadata": metadata, "items": [{}] }).to_string()).expect("a page")
        };
        assert_eq!(page(json!({ "continue": "t", "remainingItemCount": 3 })).next.as_deref(), Some("t"));
        assert_eq!(page(json!({ "continue": "" })).next, None);
        assert_eq!(page(json!({})).next, None);
        assert_eq!(page(json!({})).items.len(), 1);
        assert_eq!(page(json!({ "resourceVersion": "7" })).moment, "7");
        assert!(read_page::<Value>(r#"{"kind":"Status"}"#).is_err());
    }

    #[test]
    fn names_stay_one_value() {
        for (name, expected) in
            [("10.0.0.1", "10.0.0.1"), ("a,spec.nodeName=b", r"a\,spec.nodeName\=b"), (r"a\", r"a\\")]
        {
            assert_eq!(field_value(name), expected);
        }
    }
}
