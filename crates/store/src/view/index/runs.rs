//! Going through an index key by key, for whoever counts.

use super::{Index, Slot};

impl<K: Ord + Clone> Index<K> {
    /// Keys, ascending, each with slots under it. A key with many of them comes several times in a row. Of equal keys only some are
    /// looked at: comparing every one would read memory all over the place.
    pub(in crate::view) fn runs(&self) -> impl Iterator<Item = (&K, impl Iterator<Item = Slot>)> {
        self.chunks.iter().flat_map(|chunk| {
            let mut rest = chunk.as_slice();
            std::iter::from_fn(move || {
                let (key, _) = rest.first()?;
                let (run, behind) = rest.split_at(rest.partition_point(|(k, _)| k <= key));
                rest = behind;
                Some((key, run.iter().map(|(_, slot)| *slot)))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_comes_once_under_its_key() {
        let mut index = Index::default();
        let key = |slot: Slot| if slot < 1_500 { 7 } else { slot % 40 };
        for slot in (0..3_000).rev() {
            index.insert(key(slot), slot);
        }
        let mut found: Vec<_> = index.runs().flat_map(|(k, slots)| slots.map(|slot| (*k, slot))).collect();
        assert!(found.is_sorted());
        found.sort_by_key(|(_, slot)| *slot);
        assert_eq!(found, (0..3_000).map(|slot| (key(slot), slot)).collect::<Vec<_>>());
        assert_eq!(Index::<u8>::default().runs().count(), 0);
    }
}
