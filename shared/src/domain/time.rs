use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A moment in milliseconds since the Unix epoch; shown as RFC 3339 UTC with milliseconds.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The moment `ms` milliseconds after the Unix epoch.
    #[must_use]
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms)
    }

    /// Milliseconds since the Unix epoch.
    #[must_use]
    pub const fn ms(self) -> u64 {
        self.0
    }

    /// The moment `duration` later.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration_ms(duration)))
    }

    /// The moment `duration` earlier, at the earliest the epoch.
    #[must_use]
    pub fn before(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(duration_ms(duration)))
    }

    /// The same moment for calendars; those after the year 9999 are its end.
    pub(super) fn shown(self) -> jiff::Timestamp {
        let shown = i64::try_from(self.0).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
        shown.unwrap_or(jiff::Timestamp::MAX)
    }

    /// How long after `earlier` this is; zero where it is not after it.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

fn duration_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl FromStr for Timestamp {
    type Err = ();

    /// Reads RFC 3339, with any offset from UTC. It cuts off parts of a millisecond.
    fn from_str(text: &str) -> Result<Self, ()> {
        // The parser also reads other forms of ISO 8601.
        let is_at = |(place, letter): (usize, u8)| text.as_bytes().get(place) == Some(&letter);
        let has_offset = text.ends_with('Z') || text.len().checked_sub(3).is_some_and(|place| is_at((place, b':')));
        if !has_offset || ![(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')].into_iter().all(is_at) {
            return Err(());
        }
        let at: jiff::Timestamp = text.parse().map_err(drop)?;
        u64::try_from(at.as_millisecond()).map(Self).map_err(drop)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}", self.shown())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Timestamp;

    #[test]
    fn moments_and_durations_add_up() {
        let (early, late, between) =
            (Timestamp::from_ms(1_000), Timestamp::from_ms(3_500), Duration::from_millis(2_500));
        assert_eq!((early.after(between), late.before(between)), (late, early));
        assert_eq!(
            (late.since(early), early.since(late), early.since(early)),
            (between, Duration::ZERO, Duration::ZERO)
        );
    }

    #[test]
    fn time_ends_at_both_ends() {
        let (first, last) = (Timestamp::from_ms(0), Timestamp::from_ms(u64::MAX));
        assert_eq!((first.before(Duration::from_secs(1)), last.after(Duration::from_secs(1))), (first, last));
        assert_eq!(first.after(Duration::MAX), last);
    }

    #[test]
    fn is_read_from_rfc_3339_and_nothing_else() {
        let midnight = Timestamp::from_ms(1_798_732_800_000);
        for text in ["2026-12-31T16:00:00Z", "2026-12-31T16:00:00.000Z", "2027-01-01T00:00:00.0009+08:00"] {
            assert_eq!(text.parse(), Ok(midnight), "{text}");
        }
        assert_eq!("1970-01-01T00:00:00.001Z".parse(), Ok(Timestamp::from_ms(1)));
        for text in [
            "",
            "soon",
            "2027-01-01",
            "2027-01-01T00:00:00",
            "2027-01-01T00:00Z",
            "2027-01-01 00:00:00Z",
            "20270101T000000Z",
            "2027-01-01T00:00:00+08",
            "2027-01-01T00:00:00+0800",
            "2027-01-01T00:00:00+08:00[Asia/Shanghai]",
            "2027-02-29T00:00:00Z",
            "+02027-01-01T00:00:00Z",
            "1969-12-31T23:59:59.999Z",
            "红包红包红包Z",
        ] {
            assert_eq!(text.parse::<Timestamp>(), Err(()), "{text}");
        }
    }

    #[test]
    fn is_shown_as_rfc_3339_with_milliseconds() {
        assert_eq!(Timestamp::from_ms(0).to_string(), "1970-01-01T00:00:00.000Z");
        assert_eq!(Timestamp::from_ms(1_795_181_400_120).to_string(), "2026-11-20T13:30:00.120Z");
        assert!(Timestamp::from_ms(u64::MAX).to_string().starts_with("9999-"));
    }
}
