//! Who may take how much of what a server has little of: room for request bodies, connections, event feeds.
//!
//! A bound on the whole alone is a switch that anybody can turn off. So every class of callers has a reserve that nobody else can use
//! up, a share that it cannot exceed, and a share for each of its addresses. Where a class ends, its idle connections go first
//! ([`choose_idle`]). The ledgers that these rules are asked about are in `server::http`.

use std::{
    cmp::Reverse,
    net::{IpAddr, Ipv6Addr},
    time::Duration,
};

/// Who asks, as far as room is concerned. Rights are another matter (`domain::access`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallerClass {
    /// This machine, or an address from which changes are accepted.
    Operator,
    /// Somebody elsewhere who shows a token.
    Authenticated,
    /// A ramdisk that reports: everybody may, so this is everybody who says to be one.
    Machine,
    /// Everybody else.
    Anonymous,
}

impl CallerClass {
    /// Every class; its position here is its place in [`RoomShares`].
    pub const ALL: [CallerClass; 4] =
        [CallerClass::Operator, CallerClass::Authenticated, CallerClass::Machine, CallerClass::Anonymous];

    /// Its place in a list with one entry for each class.
    pub const fn place(self) -> usize {
        self as usize
    }
}

/// What one class may take. The unit is that of the room: bytes, connections, feeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClassShare {
    /// What nobody of another class can use up.
    pub reserve: u64,
    /// What the whole class may hold.
    pub max: u64,
    /// What one of its addresses may hold.
    pub per_address: u64,
}

/// How a room is shared out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoomShares {
    /// What there is.
    pub total: u64,
    /// The share of each class, in the order of [`CallerClass::ALL`].
    pub classes: [ClassShare; 4],
}

/// What is taken at the moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RoomUse {
    /// By each class, in the order of [`CallerClass::ALL`].
    pub by_class: [u64; 4],
    /// By the address that asks, within its class.
    pub by_address: u64,
}

/// Why there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NoRoom {
    /// The address has its share.
    Address,
    /// The class has its share.
    Class,
    /// What is left is kept for others.
    Full,
}

impl NoRoom {
    /// The word for it, for metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            NoRoom::Address => "address",
            NoRoom::Class => "class",
            NoRoom::Full => "full",
        }
    }
}

/// Decides whether a caller may take `wanted` more. `exempt`: the share of a single address does not apply, as for this machine
/// itself, behind whose one address a proxy serves many.
pub fn admit(
    shares: &RoomShares,
    taken: &RoomUse,
    class: CallerClass,
    exempt: bool,
    wanted: u64,
) -> Result<(), NoRoom> {
    let share = shares.classes[class.place()];
    if !exempt && taken.by_address.saturating_add(wanted) > share.per_address {
        return Err(NoRoom::Address);
    }
    let others = CallerClass::ALL.into_iter().filter(|other| *other != class).map(CallerClass::place);
    let kept: u64 = others.map(|other| shares.classes[other].reserve.saturating_sub(taken.by_class[other])).sum();
    let all: u64 = taken.by_class.iter().sum();
    if all.saturating_add(wanted).saturating_add(kept) > shares.total {
        return Err(NoRoom::Full);
    }
    let of_class = taken.by_class[class.place()].saturating_add(wanted);
    if of_class > share.max { Err(NoRoom::Class) } else { Ok(()) }
}

/// The address that a share is counted for. Of IPv6 it is the network of 64 bits: whoever has one address has all of these.
pub fn holder(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V4(ip) => IpAddr::V4(ip),
        IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() & !u128::from(u64::MAX))),
    }
}

/// Somebody who holds connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionHolder<T> {
    /// The class of its address.
    pub class: CallerClass,
    /// How many connections it holds, busy ones included.
    pub held: u64,
    /// The one that has been idle for longest, if any is idle. Smaller is older.
    pub oldest_idle: Option<T>,
}

/// Chooses the idle connection that has to make room for a newcomer: the oldest of whoever holds most. Operators keep theirs as long
/// as a stranger has an idle one, and no stranger takes the place of an operator.
pub fn choose_idle<T: Ord + Copy>(
    holders: impl IntoIterator<Item = ConnectionHolder<T>>,
    newcomer: CallerClass,
) -> Option<T> {
    let operator = |class| class == CallerClass::Operator;
    let candidates = holders.into_iter().filter(|holder| operator(newcomer) || !operator(holder.class));
    let ranked = candidates.filter_map(|holder| {
        let rank = (!operator(holder.class), holder.held);
        holder.oldest_idle.map(|idle| (rank, Reverse(idle)))
    });
    ranked.max().map(|(_, Reverse(idle))| idle)
}

/// How slowly a body may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyPace {
    /// How long nothing is asked of it.
    pub grace: Duration,
    /// Bytes each second after that, on average.
    pub bytes_per_second_min: u64,
}

impl BodyPace {
    /// How long after its beginning the next byte of a body of which `received` bytes are here must have come. Whoever is faster
    /// than the least pace never meets it.
    pub fn allows(&self, received: u64) -> Duration {
        self.grace.saturating_add(Duration::from_secs(received / self.bytes_per_second_min.max(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::CallerClass::{Anonymous, Authenticated, Machine, Operator};
    use super::*;

    const fn share(reserve: u64, max: u64, per_address: u64) -> ClassShare {
        ClassShare { reserve, max, per_address }
    }

    const SHARES: RoomShares = RoomShares {
        total: 100,
        classes: [share(20, 100, 100), share(10, 60, 40), share(10, 50, 20), share(0, 30, 10)],
    };

    #[test]
    fn every_class_has_its_share_and_no_more() {
        let check = |class, by_class, by_address, wanted, expected| {
            let taken = RoomUse { by_class, by_address };
            assert_eq!(admit(&SHARES, &taken, class, false, wanted), expected, "{class:?} {taken:?} {wanted}");
        };
        let empty = [0; 4];
        check(Operator, empty, 0, 80, Ok(()));
        check(Operator, empty, 0, 81, Err(NoRoom::Full)); // 20 are kept for tokens and machines
        check(Operator, [0, 10, 10, 0], 0, 80, Ok(())); // they hold what was kept for them
        check(Anonymous, empty, 0, 10, Ok(()));
        check(Anonymous, empty, 0, 11, Err(NoRoom::Address));
        check(Anonymous, [0, 0, 0, 30], 0, 1, Err(NoRoom::Class));
        check(Machine, [0, 0, 40, 30], 0, 1, Err(NoRoom::Full)); // 30 are left, all of them kept for others
        check(Machine, [0, 0, 39, 30], 0, 1, Ok(()));
        // Strangers that take all they can leave the others their reserves.
        check(Authenticated, [0, 0, 40, 30], 0, 10, Ok(()));
        check(Authenticated, [0, 0, 40, 30], 0, 11, Err(NoRoom::Full));
        check(Operator, [0, 10, 40, 30], 0, 20, Ok(()));
        check(Authenticated, [0, 40, 0, 0], 40, 1, Err(NoRoom::Address));
        check(Anonymous, [u64::MAX / 8; 4], u64::MAX, 1, Err(NoRoom::Address));
    }

    #[test]
    fn this_machine_has_no_share_of_a_single_address() {
        let taken = RoomUse { by_class: [0; 4], by_address: 10 };
        assert_eq!(admit(&SHARES, &taken, Anonymous, false, 1), Err(NoRoom::Address));
        assert_eq!(admit(&SHARES, &taken, Anonymous, true, 1), Ok(()));
    }

    #[test]
    fn addresses_that_count_as_one() {
        let check = |ip: &str, expected: &str| {
            assert_eq!(holder(ip.parse().expect(ip)), expected.parse::<IpAddr>().expect(expected), "{ip}");
        };
        check("192.0.2.7", "192.0.2.7");
        check("::ffff:192.0.2.7", "192.0.2.7");
        check("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::");
        check("2001:db8:1:3:3:4:5:6", "2001:db8:1:3::");
    }

    #[test]
    fn the_largest_holder_gives_its_oldest() {
        let check = |holders: &[(CallerClass, u64, Option<u32>)], newcomer, expected| {
            let all = holders.iter();
            let all =
                all.map(|(class, held, idle)| ConnectionHolder { class: *class, held: *held, oldest_idle: *idle });
            assert_eq!(choose_idle(all, newcomer), expected, "{holders:?} {newcomer:?}");
        };
        check(&[], Operator, None);
        check(&[(Anonymous, 9, None)], Operator, None); // all of them are busy
        check(&[(Anonymous, 3, Some(1)), (Anonymous, 9, Some(7))], Anonymous, Some(7));
        check(&[(Anonymous, 9, None), (Anonymous, 3, Some(4))], Anonymous, Some(4));
        check(&[(Anonymous, 3, Some(4)), (Anonymous, 3, Some(2))], Anonymous, Some(2)); // as many each: the older one
        // Operators hold theirs against strangers, and against each other only where no stranger is idle.
        check(&[(Operator, 99, Some(1)), (Anonymous, 3, Some(4))], Operator, Some(4));
        check(&[(Operator, 99, Some(1)), (Anonymous, 3, None)], Operator, Some(1));
        check(&[(Operator, 99, Some(1)), (Anonymous, 3, None)], Anonymous, None);
    }

    #[test]
    fn a_body_may_be_slow_but_not_for_ever() {
        let pace = BodyPace { grace: Duration::from_secs(20), bytes_per_second_min: 1_000 };
        let check = |received: u64, seconds: u64| assert_eq!(pace.allows(received), Duration::from_secs(seconds));
        check(0, 20);
        check(999, 20);
        check(1_000, 21);
        check(60_000, 80);
        let none = BodyPace { bytes_per_second_min: 0, ..pace };
        assert_eq!(none.allows(5), Duration::from_secs(25), "no division by zero");
    }
}
