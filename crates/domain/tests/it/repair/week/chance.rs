//! Chance that comes out the same in every run: what happens to a machine does not depend on what was done with others.

/// Numbers that look random, from what they are about (SplitMix64's mixing function over each word).
pub fn mixed(words: &[u64]) -> u64 {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for word in words {
        state = (state ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
        state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        state ^= state >> 31;
    }
    state
}

/// Whether something happens that does in so many of a million cases.
pub fn happens(per_million: u64, words: &[u64]) -> bool {
    mixed(words) % 1_000_000 < per_million
}

/// A number below another.
pub fn below(bound: u32, words: &[u64]) -> u32 {
    u32::try_from(mixed(words) % u64::from(bound)).expect("below a u32")
}
