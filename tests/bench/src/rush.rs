//! A rush: packets, and the order of the grabs.

/// One grab.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Request {
    /// The packet's index.
    pub packet: usize,
    /// The user's index.
    pub user: usize,
}

/// Packets and their grabs.
#[derive(Debug)]
pub struct Rush {
    /// The number of packets.
    pub packets: usize,
    /// Slips per packet.
    pub slips: u32,
    /// The grabs, in the order of their arrival.
    pub requests: Vec<Request>,
    /// Whether all grabs exist from the beginning, so that latencies count from there. Otherwise a client makes the next grab
    /// after the answer to the one before.
    pub at_once: bool,
    /// The users' names.
    pub users: Vec<String>,
}

/// The number of grabs after which a user's repeat follows in [`Rush::with_repeats`].
const REPEATED_AFTER: usize = 500;

impl Rush {
    fn new(packets: usize, slips: u32, requests: Vec<Request>, at_once: bool) -> Self {
        let users = requests.iter().map(|request| request.user).max().map_or(0, |most| most + 1);
        let users = (0..users).map(|user| format!("user-{user:07}")).collect();
        Self { packets, slips, requests, at_once, users }
    }

    /// (A) One packet, with a user per slip.
    #[must_use]
    pub fn all_win(slips: u32) -> Self {
        Self::new(1, slips, (0..slips as usize).map(|user| Request { packet: 0, user }).collect(), false)
    }

    /// (B) One packet, and more users than slips, all at once.
    #[must_use]
    pub fn crowd(slips: u32, users: u32) -> Self {
        Self::new(1, slips, (0..users as usize).map(|user| Request { packet: 0, user }).collect(), true)
    }

    /// (C) Many packets with a user per slip, in turn.
    #[must_use]
    pub fn spread(packets: u32, slips: u32) -> Self {
        let packets = packets as usize;
        let request = |n| Request { packet: n % packets, user: n };
        Self::new(packets, slips, (0..packets * slips as usize).map(request).collect(), false)
    }

    /// (D) As [`Self::all_win`], and each user asks twice.
    #[must_use]
    pub fn with_repeats(slips: u32) -> Self {
        let users: Vec<usize> = (0..slips as usize).collect();
        let twice = users.chunks(REPEATED_AFTER).flat_map(|some| some.iter().chain(some));
        Self::new(1, slips, twice.map(|&user| Request { packet: 0, user }).collect(), false)
    }
}

/// The answer to a grab.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Got {
    /// The user has this slip, from now on or from before. Designs without slip numbers count their wins instead.
    Slip(u64),
    /// No slip.
    Nothing,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn in_a_rush_with_repeats_each_user_grabs_twice() {
        let rush = Rush::with_repeats(1_200);
        let mut times = BTreeMap::new();
        for request in &rush.requests {
            *times.entry(request.user).or_insert(0) += 1;
        }
        assert_eq!((times.len(), times.values().all(|times| *times == 2)), (1_200, true));
        assert_eq!(rush.requests[0], rush.requests[REPEATED_AFTER]);
        assert_eq!(rush.users.len(), 1_200);
    }

    #[test]
    fn in_a_spread_rush_each_packet_has_a_user_for_each_slip() {
        let rush = Rush::spread(10, 3);
        let of_packet = |packet| rush.requests.iter().filter(|request| request.packet == packet).count();
        assert_eq!((0..10).map(of_packet).collect::<Vec<_>>(), [3; 10]);
    }
}
