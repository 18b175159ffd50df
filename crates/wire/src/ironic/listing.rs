//! Query parameters of lists: pages, order, members, conditions.

use std::str::FromStr;

use sabakan_domain::provision::{
    node::NodeId,
    paging::{self, Listed, Slice},
    search::{Filter, SortKey},
    states::State,
};

use super::{Field, NodeField, Refused, Version, field::check_since, parse_bool, parse_uuid};

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

/// Which part of a list is wanted, and what of the things in it. Conditions differ from list to list and are left to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing<F, I> {
    /// Which part.
    pub page: Page,
    /// The last item of the page before.
    pub after: Option<I>,
    /// What of them.
    pub fields: Vec<F>,
    /// Parameters that are conditions, or nothing at all.
    pub conditions: Vec<(String, String)>,
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

impl<F: Field, I: FromStr> Listing<F, I> {
    /// Reads the parameters every list of this API has. `detail`: the path asks for whole things.
    pub fn parse(mut pairs: Vec<(String, String)>, version: Version, detail: bool) -> Result<Listing<F, I>, Refused> {
        let page = Page::take(&mut pairs)?;
        let after = page.marker.as_deref().map(|marker| parse_uuid("marker", marker)).transpose()?;
        if let Some(name) = &page.sort_key {
            check_since::<F>(name, version)?;
        }
        let mut detail = detail;
        let mut chosen = None;
        let mut conditions = Vec::new();
        for (name, value) in pairs {
            match name.as_str() {
                "fields" => chosen = Some(F::chosen(&value, version)?),
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
            (None, true) => F::all_of(version),
            (None, false) => F::summary_of(version),
        };
        Ok(Listing { page, after, fields, conditions })
    }

    /// The part that is wanted, in the words of the rules. `after`: the number the last item of the page before is.
    pub fn slice<T: Listed>(&self, after: Option<u128>) -> Result<Slice, Refused> {
        let sort = match &self.page.sort_key {
            None => None,
            Some(name) => paging::sort_key::<T>(name).ok_or_else(|| unsortable(name))?,
        };
        Ok(Slice { sort, descending: self.page.descending, after, limit: self.page.limit })
    }

    /// Refuses conditions, for a list that has none.
    pub fn unconditional(&self) -> Result<(), Refused> {
        match self.conditions.first() {
            Some((name, _)) => Err(unexpected(name)),
            None => Ok(()),
        }
    }
}

/// Refuses a condition that a list does not have, or not yet. `known`: those it has, and the versions they came with.
pub(super) fn check_condition(known: &[(&str, u16)], name: &str, version: Version) -> Result<(), Refused> {
    match known.iter().find(|(known, _)| *known == name) {
        None => Err(unexpected(name)),
        Some((_, since)) if !version.has(*since) => Err(Refused::newer(name, *since)),
        Some(_) => Ok(()),
    }
}

/// A parameter that means nothing here.
pub fn unexpected(name: &str) -> Refused {
    Refused::invalid(format!("Unexpected arguments: {name}"))
}

impl NodeListing {
    /// Reads the parameters of a list of nodes. `detail`: the path asks for whole nodes.
    pub fn parse(pairs: Vec<(String, String)>, version: Version, detail: bool) -> Result<NodeListing, Refused> {
        let Listing { page, after, fields, conditions } = Listing::parse(pairs, version, detail)?;
        let sort = sort(page.sort_key.as_deref())?;
        Ok(NodeListing { filter: filter(&conditions, version)?, sort, page, after, fields })
    }
}

fn sort(key: Option<&str>) -> Result<SortKey, Refused> {
    let Some(name) = key else { return Ok(SortKey::Created) };
    SortKey::parse(name).ok_or_else(|| unsortable(name))
}

/// Nothing is ordered by this.
pub fn unsortable(name: &str) -> Refused {
    Refused::invalid(format!("The sort_key value {name:?} is an invalid field for sorting"))
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
        check_condition(CONDITIONS, name, version)?;
        let text = || Some(value.clone());
        match name.as_str() {
            "instance_uuid" => filter.instance_uuid = Some(value.to_ascii_lowercase()),
            "chassis_uuid" => filter.chassis = Some(parse_uuid(name, value)?),
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
            "parent_node" => filter.parent_node = Some(parse_uuid(name, value)?),
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
