//! Which addresses are called, and when.

mod address {
    use shared::config::WebhookAddresses;

    use crate::address::allows;

    #[test]
    fn only_public_addresses_are_allowed() {
        let public = "1.1.1.1 8.8.8.8 100.63.0.1 172.32.0.1 192.169.0.1 223.255.255.255 2606:4700::1 2a00::1";
        for address in public.split(' ') {
            assert!(allows(WebhookAddresses::Public, address.parse().unwrap()), "{address}");
        }
        let special = "0.0.0.0 10.0.0.1 100.64.0.1 100.127.255.255 127.0.0.1 127.9.9.9 169.254.169.254 172.16.0.1 172.31.255.255 \
            192.0.0.1 192.0.2.1 192.168.1.1 198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1 224.0.0.1 240.0.0.1 255.255.255.255 \
            :: ::1 fe80::1 fc00::1 fd12::1 ff02::1 2001:db8::1 2001::1 2002:7f00:1::1 64:ff9b::a00:1 ::ffff:10.0.0.1 \
            ::ffff:127.0.0.1 ::ffff:169.254.169.254 ::127.0.0.1";
        for address in special.split(' ') {
            assert!(!allows(WebhookAddresses::Public, address.parse().unwrap()), "{address}");
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

mod retry {
    use std::time::Duration;

    use shared::domain::Timestamp;

    use crate::retry::{PAUSE_FIRST, PAUSE_MOST, RECEIVES_MAX, pause, retry_after};

    #[test]
    fn an_event_is_tried_for_a_day() {
        let day = Duration::from_hours(24);
        for id in ["a", "evt_38FS4S83HF3Y07WMYNH727QYT0_claimed_7"] {
            let pauses: Vec<Duration> = (1..RECEIVES_MAX).map(|attempt| pause(attempt, id)).collect();
            let sum: Duration = pauses.iter().sum();
            assert!(sum >= day && sum < day * 3 / 2, "{sum:?}");
            assert!(sum.saturating_sub(pauses[pauses.len() - 1]) < day * 5 / 4, "no try more than that needs");
        }
        let bases: Duration = (1..RECEIVES_MAX - 1)
            .map(|n| PAUSE_FIRST.saturating_mul(2_u32.saturating_pow(n - 1)).min(PAUSE_MOST))
            .sum();
        assert!(bases < day, "one try less would not do");
    }

    /// 13. `NOW` is Fri, 20 Nov 2026 13:30:10 GMT.
    #[test]
    fn a_receiver_may_ask_for_a_pause_in_seconds_or_until_a_date() {
        let now = Timestamp::from_ms(1_795_181_410_000);
        for (header, seconds) in [
            ("1", 1),
            (" 7 ", 7),
            ("007", 7),
            ("3600", 3600),
            ("3601", 3600),
            ("99999999999999999999999999", 3600),
            ("Fri, 20 Nov 2026 13:31:10 GMT", 60),
            ("Sat, 21 Nov 2026 13:30:10 GMT", 3600),
            ("Friday, 20-Nov-26 13:30:15 GMT", 5),
            ("Fri Nov 20 13:30:15 2026", 5),
        ] {
            assert_eq!(retry_after(header, now), Some(Duration::from_secs(seconds)), "{header}");
        }
        let nothing = "Fri, 20 Nov 2026 13:30:10 GMT|Fri, 20 Nov 2026 13:00:00 GMT|Sun, 06 Nov 1994 08:49:37 GMT|0||-5|+5|1.5|1e3|5 s|\
            5, 6|soon|１２|2026-11-20T13:31:10Z|Fri, 32 Nov 2026 13:31:10 GMT";
        for header in nothing.split('|') {
            assert_eq!(retry_after(header, now), None, "{header}");
        }
    }

    #[test]
    fn pauses_grow_to_an_hour_and_differ_between_events() {
        let pauses = [1, 2, 3, 11, 30, u32::MAX].map(|attempt| pause(attempt, "a").as_secs());
        for (pause, base) in pauses.into_iter().zip([5, 10, 20, 3600, 3600, 3600]) {
            assert!((base..=base * 5 / 4).contains(&pause), "{pause} {base}");
        }
        let different: std::collections::HashSet<Duration> = (0..50).map(|n| pause(9, &format!("evt_{n}"))).collect();
        assert!(different.len() > 25, "{different:?}");
    }
}
