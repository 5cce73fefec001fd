//! Which addresses a webhook may reach. A receiver's URL must not lead to services for this machine or this network only.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use shared::config::WebhookAddresses;

/// Whether the rule allows a connection to `address`.
pub fn allows(rule: WebhookAddresses, address: IpAddr) -> bool {
    // An IPv4 address inside an IPv6 one is that IPv4 address to the system.
    let address = address.to_canonical();
    match rule {
        WebhookAddresses::Any => true,
        WebhookAddresses::PublicOrLoopback => is_public(address) || address.is_loopback(),
        WebhookAddresses::Public => is_public(address),
    }
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// By IANA's registry of special-purpose IPv4 addresses.
fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    // This network, private, loopback, multicast and reserved. Shared by the customers of a carrier. Link-local, where metadata
    // services are. Private. Protocol assignments, documentation and relays of 6to4. Benchmarks.
    let special = matches!(
        (a, b, c),
        (0 | 10 | 127 | 224.., ..)
            | (100, 64..=127, _)
            | (169, 254, _)
            | (172, 16..=31, _)
            | (192, 168, _)
            | (192, 0, 0 | 2)
            | (192, 88, 99)
            | (198, 51, 100)
            | (203, 0, 113)
            | (198, 18 | 19, _)
    );
    !special
}

/// By IANA's registry of special-purpose IPv6 addresses. Only `2000::/3` is given out, and some of it has special purposes.
fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, ..] = address.segments();
    // Protocol assignments, among them Teredo, which contains IPv4 addresses; documentation; 6to4, which contains them too.
    let special = matches!((a, b), (0x2001, 0..=0x1ff | 0x0db8) | (0x3fff, 0..=0x0fff) | (0x2002, _));
    a & 0xe000 == 0x2000 && !special
}
