//! The end-to-end suite: one binary, one file per story.

/// Declares one test per store for each story; a story is a function of the backend.
macro_rules! on_both_stores {
    ($($story:ident),* $(,)?) => {
        mod embedded { $( #[test] fn $story() { super::$story(sabakan_testkit::Backend::Embedded); } )* }
        mod on_etcd { $( #[test] fn $story() { super::$story(sabakan_testkit::Backend::Etcd); } )* }
    };
}

mod after_commit;
mod all_or_nothing;
mod audit;
mod bad_input;
mod cluster;
mod connections;
mod consistency;
mod crypts;
mod disk_key_access;
mod etcd;
mod etcd_outage;
mod events;
mod graphql;
mod histories;
mod https_client;
mod ironic;
mod kubernetes;
mod lifecycle;
mod metrics;
mod provisioning;
mod registry;
mod repair;
mod store_trouble;
mod strangers;
mod takeover;
mod tokens;
