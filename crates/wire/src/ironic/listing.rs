//! Query parameters of lists: pages, order, members, conditions.

use sabakan_domain::provision::{
    node::NodeId,
    search::{Filter, SortKey},
    states::State,
};

use super::{NodeField, Refused, Version, parse_bool};

/// Most items of one page, and how many there are unless fewer are asked for. Some clients never ask for a second page.
const PAGE_MAX: usize = 1_000;

/// Which part of a list is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// How many items.
    pub limit: usize,
    /// The last item of the page before, as the caller names it.
    pub marker: Option<String>,
    /// The other way round.
    pub descending: bool,
    /// What to order by.
    pub sort_key: Option<String>,
}

/// Which nodes are wanted, and what of them.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeListing {
    /// Which.
    pub filter: Filter,
    /// In which order.
    pub sort: SortKey,
    /// Which part of them.
    pub page: Page,
    /// The last node of the page before.
    pub after: Option<NodeId>,
    /// What of them.
    pub fields: Vec<NodeField>,
}

/// The pairs of a query, decoded by the caller.
type Pairs = [(String, String)];

/// Splits a query into pairs, `+` and `%xx` decoded.
pub fn parse_pairs(query: &str, decode: impl Fn(&str) -> String) -> Vec<(String, String)> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name), decode(value))
        })
        .collect()
}

/// A query without some of its parameters, as it was written.
pub fn drop_query(query: &str, names: &[&str]) -> String {
    let kept = query.split('&').filter(|pair| {
        let name = pair.split('=').next().unwrap_or_default();
        !pair.is_empty() && !names.contains(&name)
    });
    kept.collect::<Vec<_>>().join("&")
}

impl Page {
    /// Reads the parameters every list has; the others are left.
    pub fn take(pairs: &mut Vec<(String, String)>) -> Result<Page, Refused> {
        let mut page = Page { limit: PAGE_MAX, marker: None, descending: false, sort_key: None };
        let mut left = Vec::new();
        for (name, value) in pairs.drain(..) {
            match name.as_str() {
                "limit" => page.limit = limit(&value)?,
                "marker" => page.marker = Some(value),
                "sort_key" => page.sort_key = Some(value),
                "sort_dir" => page.descending = descending(&value)?,
                _ => left.push((name, value)),
            }
        }
        *pairs = left;
        Ok(page)
    }
}

fn limit(text: &str) -> Result<usize, Refused> {
    let number: i64 = text.parse().map_err(|_| Refused::invalid(format!("Expected an integer for limit: {text}")))?;
    let limit = usize::try_from(number).ok().filter(|limit| *limit > 0);
    limit.map(|limit| limit.min(PAGE_MAX)).ok_or_else(|| Refused::invalid("Limit must be positive"))
}

fn descending(text: &str) -> Result<bool, Refused> {
    match text {
        "asc" => Ok(false),
        "desc" => Ok(true),
        _ => Err(Refused::invalid(format!("Invalid sort direction: {text}. Acceptable values are 'asc' or 'desc'"))),
    }
}

impl NodeListing {
    /// Reads the parameters of a list of nodes. `detail`: the path asks for whole nodes.
    pub fn parse(mut pairs: Vec<(String, String)>, version: Version, detail: bool) -> Result<NodeListing, Refused> {
        let page = Page::take(&mut pairs)?;
        let after = page.marker.as_deref().map(parse_marker).transpose()?;
        let sort = sort(page.sort_key.as_deref(), version)?;
        let mut detail = detail;
        let mut chosen = None;
        let mut conditions = Vec::new();
        for (name, value) in pairs {
            match name.as_str() {
                "fields" => chosen = Some(NodeField::chosen(&value, version)?),
                "detail" if version.has(43) => detail = detail || truth("detail", &value)?,
                "detail" => return Err(Refused::newer("detail", 43)),
                _ => conditions.push((name, value)),
            }
        }
        let fields = match (chosen, detail) {
            (Some(_), true) => {
                return Err(Refused::invalid("Can not specify ?detail=True and fields in the same request."));
            }
            (Some(fields), false) => fields,
            (None, true) => NodeField::all_of(version),
            (None, false) => NodeField::summary_of(version),
        };
        Ok(NodeListing { filter: filter(&conditions, version)?, sort, page, after, fields })
    }
}

fn parse_marker(text: &str) -> Result<NodeId, Refused> {
    text.parse().map_err(|_| Refused::invalid(format!("Expected UUID for marker: {text}")))
}

fn sort(key: Option<&str>, version: Version) -> Result<SortKey, Refused> {
    let Some(name) = key else { return Ok(SortKey::Created) };
    let key = SortKey::parse(name)
        .ok_or_else(|| Refused::invalid(format!("The sort_key value {name:?} is an invalid field for sorting")))?;
    match NodeField::parse(name).filter(|field| !version.has(field.since())) {
        Some(field) => Err(Refused::newer(name, field.since())),
        None => Ok(key),
    }
}

fn truth(name: &str, text: &str) -> Result<bool, Refused> {
    parse_bool(text).map_err(|error| Refused::invalid(format!("Invalid {name}: {error}")))
}

/// Conditions and the versions they came with.
const CONDITIONS: &[(&str, u16)] = &[
    ("instance_uuid", 1),
    ("chassis_uuid", 1),
    ("associated", 1),
    ("maintenance", 1),
    ("provision_state", 9),
    ("driver", 16),
    ("resource_class", 21),
    ("fault", 42),
    ("conductor_group", 46),
    ("conductor", 49),
    ("owner", 50),
    ("description_contains", 51),
    ("retired", 61),
    ("lessee", 65),
    ("project", 65),
    ("shard", 82),
    ("sharded", 82),
    ("parent_node", 83),
    ("include_children", 83),
    ("instance_name", 104),
];

fn filter(conditions: &Pairs, version: Version) -> Result<Filter, Refused> {
    let mut filter = Filter::default();
    for (name, value) in conditions {
        let Some((_, since)) = CONDITIONS.iter().find(|(known, _)| known == name) else {
            return Err(Refused::invalid(format!("Unexpected arguments: {name}")));
        };
        if !version.has(*since) {
            return Err(Refused::newer(name, *since));
        }
        let text = || Some(value.clone());
        match name.as_str() {
            "instance_uuid" => filter.instance_uuid = Some(value.to_ascii_lowercase()),
            "chassis_uuid" => filter.chassis_uuid = text(),
            "associated" => filter.associated = Some(truth(name, value)?),
            "maintenance" => filter.maintenance = Some(truth(name, value)?),
            "provision_state" => filter.provision_state = Some(provision_state(value)?),
            "driver" => filter.driver = text(),
            "resource_class" => filter.resource_class = text(),
            "fault" => filter.fault = text(),
            "conductor_group" => filter.conductor_group = Some(value.to_ascii_lowercase()),
            "conductor" => filter.conductor = text(),
            "owner" => filter.owner = text(),
            "description_contains" => filter.description_contains = text(),
            "retired" => filter.retired = Some(truth(name, value)?),
            "lessee" => filter.lessee = text(),
            "project" => filter.project = text(),
            "shard" => filter.shard = Some(value.split(',').map(str::to_owned).collect()),
            "sharded" => filter.sharded = Some(truth(name, value)?),
            "parent_node" => filter.parent_node = Some(parse_marker(value)?),
            "include_children" => filter.include_children = truth(name, value)?,
            "instance_name" => filter.instance_name = text(),
            _ => {}
        }
    }
    Ok(filter)
}

/// A state some client may know: those of the API, and those of a long time ago.
fn provision_state(text: &str) -> Result<String, Refused> {
    let known = State::ALL.into_iter().any(|state| state.wire() == text);
    if known { Ok(text.to_owned()) } else { Err(Refused::invalid(format!("Provision state {text:?} is not valid"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(query: &str, version: u16) -> Result<NodeListing, Refused> {
        NodeListing::parse(parse_pairs(query, str::to_owned), Version(version), false)
    }

    #[test]
    fn what_lists_take() {
        let all = listing("", 115).expect("valid");
        assert_eq!((all.page.limit, all.sort, all.after), (1_000, SortKey::Created, None));
        assert_eq!(all.fields.len(), 7);
        assert_eq!(listing("limit=5000", 115).expect("valid").page.limit, 1_000);
        let some = listing("limit=2&sort_key=name&sort_dir=desc&fields=uuid,name&provision_state=enroll", 115);
        let some = some.expect("valid");
        assert_eq!((some.page.limit, some.page.descending, some.fields.len()), (2, true, 3));
        assert_eq!(some.filter.provision_state.as_deref(), Some("enroll"));
        assert!(listing("detail=True", 115).expect("valid").fields.len() > 50);
        let shards = listing("shard=s1,s2&sharded=True", 115).expect("valid").filter;
        assert_eq!(shards.shard, Some(vec!["s1".to_owned(), "s2".to_owned()]));
    }

    #[test]
    fn what_lists_refuse() {
        for bad in [
            "limit=0",
            "limit=-1",
            "limit=abc",
            "marker=l-2",
            "sort_key=nope",
            "sort_key=properties",
            "sort_dir=sideways",
            "nosuchparam=1",
            "fields=nope",
            "detail=true&fields=name",
            "provision_state=nosuchstate",
            "maintenance=perhaps",
        ] {
            assert!(matches!(listing(bad, 115), Err(Refused::Invalid(_))), "{bad}");
        }
        for (newer, version) in [("fields=name", 4), ("resource_class=x", 20), ("shard=x", 81), ("sort_key=owner", 30)]
        {
            assert!(matches!(listing(newer, version), Err(Refused::Version(_))), "{newer}");
        }
        assert_eq!(CONDITIONS.len(), 20, "every condition of the filter has its row");
    }

    #[test]
    fn the_next_page_asks_for_the_same() {
        assert_eq!(drop_query("limit=2&marker=x&fields=a,b&limit=3", &["marker", "limit"]), "fields=a,b");
        assert_eq!(drop_query("", &["marker"]), "");
    }
}
