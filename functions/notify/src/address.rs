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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_are_allowed() {
        for public in [
            "1.1.1.1",
            "8.8.8.8",
            "100.63.0.1",
            "172.32.0.1",
            "192.169.0.1",
            "223.255.255.255",
            "2606:4700::1",
            "2a00::1",
        ] {
            assert!(allows(WebhookAddresses::Public, public.parse().unwrap()), "{public}");
        }
        for special in [
            "0.0.0.0",
            "10.0.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.9.9.9",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.2.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "fc00::1",
            "fd12::1",
            "ff02::1",
            "2001:db8::1",
            "2001::1",
            "2002:7f00:1::1",
            "64:ff9b::a00:1",
            "::ffff:10.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::127.0.0.1",
        ] {
            assert!(!allows(WebhookAddresses::Public, special.parse().unwrap()), "{special}");
        }
    }

    #[test]
    fn a_rule_can_also_allow_loopback_or_all() {
        for (address, loopback, any) in [
            ("127.0.0.1", true, true),
            ("::1", true, true),
            ("::ffff:127.0.0.1", true, true),
            ("1.1.1.1", true, true),
            ("10.0.0.1", false, true),
            ("169.254.169.254", false, true),
        ] {
            let address = address.parse().unwrap();
            assert_eq!(allows(WebhookAddresses::PublicOrLoopback, address), loopback, "{address}");
            assert_eq!(allows(WebhookAddresses::Any, address), any, "{address}");
        }
    }
}
