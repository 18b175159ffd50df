//! A transaction wider than etcd's `--max-txn-ops`, in one request and at one revision all the same. Pure.
//!
//! etcd bounds the operations of a transaction, and what a nested one may hold by what is left: of 128, a transaction with 64 nested
//! ones leaves 64 for each. So writes go into nested transactions that compare nothing and always happen.
//!
//! Compares are harder: when those of a nested transaction fail, the others happen all the same. What does stop everything is a
//! request etcd refuses when it looks at it, before it applies the first write. So the compares that do not fit are in *guards*:
//! nested transactions that do nothing if their compares hold, and otherwise read at a revision that can never be. etcd looks only at
//! the branch that would be taken; if that is a guard's other one, it answers "future revision", having written nothing.

use crate::messages::{Compare, RangeRequest, Request, RequestOp, TxnRequest, TxnResponse};

/// A revision that no etcd ever reaches.
const NEVER: i64 = i64::MAX;

/// The shape of a tree of nested transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TreeShape {
    /// Transactions on the way to a write, outermost included.
    depth: usize,
    /// What each transaction but the last of them holds at most.
    width: usize,
    /// What the last one holds at most.
    leaf: usize,
    /// How many last ones there can be.
    leaves_max: usize,
}

impl TreeShape {
    /// Shapes for a limit, the flattest first, until transactions would hold but one other.
    fn of(max_ops: usize) -> impl Iterator<Item = TreeShape> {
        (2..=max_ops / 2).map(move |depth| {
            let width = max_ops / depth;
            let above = depth - 1;
            let leaves_max = width.saturating_pow(u32::try_from(above).unwrap_or(u32::MAX));
            TreeShape { depth, width, leaf: max_ops - above * width, leaves_max }
        })
    }

    fn leaves(&self, compares: usize, ops: usize) -> usize {
        compares.saturating_sub(self.width).div_ceil(self.leaf) + ops.div_ceil(self.leaf)
    }
}

/// The most compares and, together with them, writes that certainly fit.
pub fn capacity(max_ops: usize) -> usize {
    // Two leaves may be filled in part.
    let nested = TreeShape::of(max_ops).map(|shape| shape.leaf.saturating_mul(shape.leaves_max.saturating_sub(2)) / 2);
    nested.max().unwrap_or(0).max(max_ops)
}

/// One request for all of them, nested as far as it must be; `None` if nesting does not help. `any_key` is read by guards.
pub fn pack(compare: Vec<Compare>, ops: Vec<RequestOp>, max_ops: usize, any_key: &str) -> Option<TxnRequest> {
    if compare.len().max(ops.len()) <= max_ops {
        return Some(TxnRequest { compare, success: ops, failure: Vec::new() });
    }
    let shape = TreeShape::of(max_ops).find(|shape| shape.leaves(compare.len(), ops.len()) <= shape.leaves_max)?;
    let (outer, guarded) = compare.split_at(compare.len().min(shape.width));
    let guards = guarded.chunks(shape.leaf).map(|compare| guard(compare.to_vec(), any_key));
    let writes = chunks(ops, shape.leaf).into_iter().map(nested);
    let mut level: Vec<RequestOp> = guards.chain(writes).collect();
    for _ in 2..shape.depth {
        level = chunks(level, shape.width).into_iter().map(nested).collect();
    }
    Some(TxnRequest { compare: outer.to_vec(), success: level, failure: Vec::new() })
}

/// Whether every transaction of an answer took the branch of its compares. An etcd that writes although a guard did not hold is none.
pub fn all_held(answer: &TxnResponse) -> bool {
    use crate::messages::Response;
    let held = |response: Option<&Response>| match response {
        Some(Response::Txn(nested)) => all_held(nested),
        Some(Response::Range(_)) | None => true,
    };
    answer.succeeded && answer.responses.iter().all(|op| held(op.response.as_ref()))
}

fn guard(compare: Vec<Compare>, any_key: &str) -> RequestOp {
    let impossible = RangeRequest { key: any_key.into(), revision: NEVER, keys_only: true, ..RangeRequest::default() };
    Request::Txn(TxnRequest { compare, success: Vec::new(), failure: vec![Request::Range(impossible).into()] }).into()
}

fn nested(success: Vec<RequestOp>) -> RequestOp {
    Request::Txn(TxnRequest { compare: Vec::new(), success, failure: Vec::new() }).into()
}

/// In pieces of at most `size`, without copying what may be large.
fn chunks(ops: Vec<RequestOp>, size: usize) -> Vec<Vec<RequestOp>> {
    let mut pieces = Vec::with_capacity(ops.len().div_ceil(size));
    let mut rest = ops.into_iter();
    loop {
        let piece: Vec<RequestOp> = rest.by_ref().take(size).collect();
        if piece.is_empty() {
            return pieces;
        }
        pieces.push(piece);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::PutRequest;

    fn puts(count: usize) -> Vec<RequestOp> {
        let put = |n: usize| PutRequest { key: n.to_string().into(), ..PutRequest::default() };
        (0..count).map(|n| Request::Put(put(n)).into()).collect()
    }

    /// etcd's own rule: what a transaction holds, and less for those in it. Answers what is written and compared, in order.
    fn count(txn: &TxnRequest, left: usize, depth: usize, found: &mut (Vec<Vec<u8>>, usize, usize)) {
        let most = txn.compare.len().max(txn.success.len()).max(txn.failure.len());
        assert!(most <= left, "{most} operations where {left} are left");
        found.1 += txn.compare.len();
        found.2 = found.2.max(depth);
        for op in txn.success.iter().chain(&txn.failure) {
            match op.request.as_ref().expect("a request") {
                Request::Put(put) => found.0.push(put.key.clone()),
                Request::Txn(nested) => count(nested, left - most, depth + 1, found),
                Request::Range(range) => assert_eq!(range.revision, NEVER),
                Request::DeleteRange(_) => panic!("nothing is removed here"),
            }
        }
    }

    #[test]
    fn everything_is_in_it_once_and_in_order_and_within_the_limits() {
        let check = |compares: usize, writes: usize, max_ops: usize, depth: usize| {
            let compare = vec![Compare::default(); compares];
            let txn = pack(compare, puts(writes), max_ops, "k").expect("it fits");
            let mut found = (Vec::new(), 0, 0);
            count(&txn, max_ops, 1, &mut found);
            let expected: Vec<Vec<u8>> = (0..writes).map(|n| n.to_string().into_bytes()).collect();
            assert_eq!((found.0, found.1, found.2), (expected, compares, depth), "{compares}, {writes}, {max_ops}");
        };
        check(0, 0, 128, 1);
        check(128, 128, 128, 1);
        check(0, 129, 128, 2);
        check(129, 1, 128, 2);
        check(65, 129, 128, 2);
        check(200, 1_000, 128, 2);
        check(64, 4_096, 128, 2);
        check(65, 4_096, 128, 3);
        check(20_000, 20_000, 128, 3);
        check(50_000, 50_000, 128, 4);
        check(5, 9, 8, 2);
        check(4, 16, 8, 2);
    }

    #[test]
    fn capacity_is_a_promise() {
        for max_ops in [2, 3, 4, 5, 6, 8, 16, 127, 128, 1_000] {
            let most = capacity(max_ops).min(60_000);
            assert!(pack(vec![Compare::default(); most], puts(most), max_ops, "k").is_some(), "{max_ops}: {most}");
        }
        assert!(capacity(128) >= 50_000);
        assert_eq!(pack(Vec::new(), puts(5), 2, "k"), None);
    }
}
