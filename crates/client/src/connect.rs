//! How connections are made. Whatever goes wrong until one stands, its TLS handshake included, is marked as [`Unconnected`]: no byte
//! of a request has been sent then, and no error afterwards can say so.
//!
//! The traits used here are outside the version promise of `ureq`; an update that changes them does not compile, and is mended here.

use std::{error, fmt};

use ureq::{
    Agent, Error,
    config::Config,
    http::Uri,
    unversioned::{
        resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver},
        transport::{ConnectionDetails, Connector, DefaultConnector, NextTimeout, Transport},
    },
};

/// The usual way to connect, with its errors marked.
pub fn agent(config: Config) -> Agent {
    Agent::with_parts(config, Marked(DefaultConnector::new()), Marked(DefaultResolver::default()))
}

/// An error from before there was a connection. Travels inside [`Error::Other`].
#[derive(Debug)]
pub struct Unconnected(pub Error);

impl fmt::Display for Unconnected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl error::Error for Unconnected {}

fn marked(error: Error) -> Error {
    Error::Other(Box::new(Unconnected(error)))
}

#[derive(Debug)]
struct Marked<T>(T);

impl Connector<()> for Marked<DefaultConnector> {
    type Out = Box<dyn Transport>;

    fn connect(&self, details: &ConnectionDetails<'_>, chained: Option<()>) -> Result<Option<Self::Out>, Error> {
        self.0.connect(details, chained).map_err(marked)
    }
}

impl Resolver for Marked<DefaultResolver> {
    fn resolve(&self, uri: &Uri, config: &Config, timeout: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        self.0.resolve(uri, config, timeout).map_err(marked)
    }
}
