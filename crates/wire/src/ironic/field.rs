//! Members of things: since which version answers and requests have them, and which of them a caller wants to see.

use super::{Refused, Version};

/// A member of something this API shows. Declared by `fields!`.
pub trait Field: Copy + Eq + 'static {
    /// What it is a member of, in refusals.
    const OF: &'static str;
    /// Every member, in the order answers have them.
    const ALL: &'static [Self];
    /// What lists show unless more is asked for.
    const SUMMARY: &'static [Self];
    /// The links, which are always there.
    const LINKS: Self;

    /// Its name.
    fn name(self) -> &'static str;

    /// The version it came with.
    fn since(self) -> u16;

    /// The member with a name.
    fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|field| field.name() == name)
    }

    /// All members, as a version knows them.
    fn all_of(version: Version) -> Vec<Self> {
        Self::ALL.iter().copied().filter(|field| version.has(field.since())).collect()
    }

    /// Members lists show, as a version knows them.
    fn summary_of(version: Version) -> Vec<Self> {
        Self::SUMMARY.iter().copied().filter(|field| version.has(field.since())).collect()
    }

    /// The members a caller asks for by a list of names, and the links.
    fn chosen(names: &str, version: Version) -> Result<Vec<Self>, Refused> {
        if !version.has(8) {
            return Err(Refused::newer("fields", 8));
        }
        let mut fields = Vec::new();
        for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            let field = Self::parse(name)
                .ok_or_else(|| Refused::invalid(format!("Field(s) {name:?} are not valid fields of a {}", Self::OF)))?;
            check_since::<Self>(name, version)?;
            if !fields.contains(&field) {
                fields.push(field);
            }
        }
        if !fields.contains(&Self::LINKS) {
            fields.push(Self::LINKS);
        }
        Ok(fields)
    }
}

/// Refuses the name of a member that came later than the version of the request. Names of no member are left to others.
pub fn check_since<F: Field>(name: &str, version: Version) -> Result<(), Refused> {
    match F::parse(name).filter(|field| !version.has(field.since())) {
        Some(field) => Err(Refused::newer(name, field.since())),
        None => Ok(()),
    }
}

/// Declares the members of something: its name in refusals, what lists show, and every member with its name in JSON and the version
/// it came with.
macro_rules! fields {
    ($(#[$doc:meta])* $type:ident of $of:literal; lists show $($summary:ident)*; $($variant:ident $name:literal $since:literal,)*) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $type { $( #[doc = concat!("`", $name, "`.")] $variant, )* }

        impl $crate::ironic::Field for $type {
            const OF: &'static str = $of;
            const ALL: &'static [$type] = &[$($type::$variant),*];
            const SUMMARY: &'static [$type] = &[$($type::$summary),*];
            const LINKS: $type = $type::Links;

            fn name(self) -> &'static str {
                match self { $( $type::$variant => $name, )* }
            }

            fn since(self) -> u16 {
                match self { $( $type::$variant => $since, )* }
            }
        }
    };
}

pub(super) use fields;
