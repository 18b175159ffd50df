//! How a disk key looks in the store. What is in a sealed one is known above (`service::seal`); here it is only told from a raw one.

/// What every sealed disk key begins with. A raw key does so by chance once in 2^40.
const SEALED: &[u8] = br#"{"v":"#;

/// Whether a stored disk key is sealed. The older service stores keys as they are.
pub fn is_sealed_key(value: &[u8]) -> bool {
    value.starts_with(SEALED)
}
