//! Lists, page by page: which order, and where a page begins and ends.

use std::cmp::Ordering;

use jiff::Timestamp;

/// Something lists hold.
pub trait Listed {
    /// Members lists can be ordered by, by their names in the API.
    const SORTABLE: &'static [&'static str];

    /// The number its UUID is.
    fn uuid(&self) -> u128;

    /// When it was made.
    fn created_at(&self) -> Timestamp;

    /// What it is compared by when ordered by a member; absent comes first.
    fn sort_value(&self, member: &str) -> Option<String>;
}

/// Which part of a list is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    /// The member to order by; `None`: when things were made.
    pub sort: Option<&'static str>,
    /// The other way round.
    pub descending: bool,
    /// The last thing of the page before, as the number its UUID is.
    pub after: Option<u128>,
    /// How many.
    pub limit: usize,
}

impl Slice {
    /// All of a list, in the order things were made.
    pub const ALL: Slice = Slice { sort: None, descending: false, after: None, limit: usize::MAX };
}

/// The member with a name, if lists can be ordered by it; `id` stands for the order things were made in.
pub fn sort_key<T: Listed>(name: &str) -> Option<Option<&'static str>> {
    if name == "id" {
        return Some(None);
    }
    T::SORTABLE.iter().copied().find(|known| *known == name).map(Some)
}

/// What times are compared by.
pub fn time_value(at: Option<Timestamp>) -> Option<String> {
    at.map(|at| format!("{:032}", at.as_nanosecond()))
}

/// What a thing is ordered by: the wanted member, when it was made, its UUID.
type Place = (Option<String>, Timestamp, u128);

/// One page of a list. `after`: the last thing of the page before, which need not be in the list any more.
pub fn page<T: Listed>(items: impl Iterator<Item = T>, after: Option<&T>, wanted: &Slice) -> Vec<T> {
    let place = |item: &T| -> Place {
        (wanted.sort.and_then(|member| item.sort_value(member)), item.created_at(), item.uuid())
    };
    let compare = |a: &Place, b: &Place| if wanted.descending { b.cmp(a) } else { a.cmp(b) };
    let mut placed: Vec<(Place, T)> = items.map(|item| (place(&item), item)).collect();
    if let Some(after) = after.map(place) {
        placed.retain(|(place, _)| compare(place, &after) == Ordering::Greater);
    }
    let by_place = |a: &(Place, T), b: &(Place, T)| compare(&a.0, &b.0);
    if placed.len() > wanted.limit {
        placed.select_nth_unstable_by(wanted.limit, by_place);
        placed.truncate(wanted.limit);
    }
    placed.sort_unstable_by(by_place);
    placed.into_iter().map(|(_, item)| item).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Clone, Copy, PartialEq)]
    struct Thing(u128, i64, Option<&'static str>);

    impl Listed for Thing {
        const SORTABLE: &'static [&'static str] = &["name"];

        fn uuid(&self) -> u128 {
            self.0
        }

        fn created_at(&self) -> Timestamp {
            Timestamp::from_second(self.1).expect("a time")
        }

        fn sort_value(&self, _: &str) -> Option<String> {
            self.2.map(str::to_owned)
        }
    }

    #[test]
    fn pages_follow_one_another() {
        let things = [Thing(3, 1, Some("b")), Thing(1, 2, None), Thing(2, 2, Some("a")), Thing(9, 0, Some("b"))];
        let walk = |sort, descending| {
            let (mut seen, mut after) = (Vec::new(), None);
            loop {
                let wanted = Slice { sort, descending, after: None, limit: 1 };
                let found = page(things.iter().copied(), after.as_ref(), &wanted);
                let Some(last) = found.last() else { return seen };
                seen.push(last.0);
                after = Some(*last);
            }
        };
        assert_eq!(walk(None, false), [9, 3, 1, 2]);
        assert_eq!(walk(None, true), [2, 1, 3, 9]);
        assert_eq!(walk(Some("name"), false), [1, 2, 9, 3]);
        assert_eq!(walk(Some("name"), true), [3, 9, 2, 1]);
        assert_eq!(page(things.iter().copied(), None, &Slice::ALL).len(), 4);
        assert_eq!((sort_key::<Thing>("id"), sort_key::<Thing>("nope")), (Some(None), None));
        assert_eq!(sort_key::<Thing>("name"), Some(Some("name")));
    }
}
