use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::SignedDuration;
use jiff::civil::{DateTime, datetime};
use serde::{Deserialize, Serialize};

const EPOCH: DateTime = datetime(1970, 1, 1, 0, 0, 0, 0);
/// The last moment that RFC 3339 has. jiff's own moments end a day earlier.
const LAST_MS: u64 = 253_402_300_799_999;

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

    /// Reads RFC 3339, with any offset from UTC. It rounds down to milliseconds, and to the end of the year 9999. A leap second is refused,
    /// because no clock of this system can show one.
    fn from_str(text: &str) -> Result<Self, ()> {
        let (local, offset) = parts(text).ok_or(())?;
        let local: DateTime = local.parse().map_err(drop)?;
        let since_epoch = Duration::try_from(local.duration_since(EPOCH) - offset).map_err(drop)?;
        Ok(Self(duration_ms(since_epoch).min(LAST_MS)))
    }
}

/// The local time of a text in the shape of RFC 3339, and how far it is ahead of UTC. jiff checks the date, the hours and the minutes. But
/// it also reads other forms of ISO 8601, and the second 60 as the second 59.
fn parts(text: &str) -> Option<(&str, SignedDuration)> {
    let (date_and_time, rest) = text.split_at_checked("0000-00-00T00:00:00".len())?;
    let (fraction, offset) = rest.split_at(rest.find(['Z', 'z', '+', '-'])?);
    let digits = fraction.strip_prefix('.').map(str::as_bytes);
    let is_local = fits(date_and_time, "0000-00-00T00:00:00")
        && !date_and_time.ends_with("60")
        && (fraction.is_empty()
            || digits.is_some_and(|digits| (1..=9).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit)));
    let local = text.strip_suffix(offset).filter(|_| is_local)?;
    Some((local, ahead_of_utc(offset)?))
}

/// The duration that an offset of RFC 3339 is.
fn ahead_of_utc(offset: &str) -> Option<SignedDuration> {
    if fits(offset, "Z") {
        return Some(SignedDuration::ZERO);
    }
    let (hours, minutes) = offset.get(1..).filter(|time| fits(time, "00:00"))?.split_once(':')?;
    let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
    let ahead = SignedDuration::from_mins(hours * 60 + minutes);
    (hours < 24 && minutes < 60).then_some(if offset.starts_with('-') { -ahead } else { ahead })
}

/// Whether a text has digits where `shape` has zeros, and its other characters in either case.
fn fits(text: &str, shape: &str) -> bool {
    let is_as = |(letter, wanted): (u8, u8)| match wanted {
        b'0' => letter.is_ascii_digit(),
        _ => letter.eq_ignore_ascii_case(&wanted),
    };
    text.len() == shape.len() && text.bytes().zip(shape.bytes()).all(is_as)
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let since_epoch = SignedDuration::from_millis(i64::try_from(self.0).unwrap_or(i64::MAX));
        write!(f, "{:.3}Z", EPOCH.checked_add(since_epoch).unwrap_or(DateTime::MAX))
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
        for text in [
            "2026-12-31T16:00:00Z",
            "2026-12-31T16:00:00.000Z",
            "2026-12-31t16:00:00z",
            "2026-12-31T16:00:00.0Z",
            "2026-12-31T16:00:00.000999999Z",
            "2027-01-01T00:00:00.0009+08:00",
            "2027-01-01t00:00:00+08:00",
            "2026-12-31T16:00:00+00:00",
            "2026-12-31T16:00:00-00:00",
            "2026-12-31T10:15:00-05:45",
            "2027-01-01T15:59:00+23:59",
            "2026-12-30T16:01:00-23:59",
        ] {
            assert_eq!(text.parse(), Ok(midnight), "{text}");
        }
        for (text, ms) in [
            ("1970-01-01T00:00:00Z", 0),
            ("1970-01-01T00:00:00.001Z", 1),
            ("1970-01-01T00:00:00.1z", 100),
            ("1970-01-01T00:00:00.12Z", 120),
            ("1970-01-01T00:00:00.1239Z", 123),
            ("1970-01-01T00:00:59.999999999Z", 59_999),
            ("1969-12-31T23:00:00.5-01:00", 500),
            ("2028-02-29T00:00:00Z", 1_835_395_200_000),
            ("9999-12-31T23:59:59.999Z", 253_402_300_799_999),
            ("9999-12-31T23:59:59-23:59", 253_402_300_799_999),
        ] {
            assert_eq!(text.parse(), Ok(Timestamp::from_ms(ms)), "{text}");
        }
        for text in [
            "",
            "soon",
            "2027-01-01",
            "2027-01-01T00:00:00",
            "2027-01-01T00:00Z",
            "2027-01-01 00:00:00Z",
            "2027-01-01_00:00:00Z",
            "20270101T000000Z",
            "2027-01-01T00:00:00+08",
            "2027-01-01T00:00:00+0800",
            "2027-01-01T00:00:00+08:00:00",
            "2027-01-01T00:00:00+24:00",
            "2027-01-01T00:00:00-24:00",
            "2027-01-01T00:00:00+08:60",
            "2027-01-01T00:00:00+8:00",
            "2027-01-01T00:00:00+08:00[Asia/Shanghai]",
            "2027-01-01T00:00:00Z[UTC]",
            "2027-01-01T00:00:00ZZ",
            "2027-01-01T00:00:00 Z",
            " 2027-01-01T00:00:00Z",
            "2027-01-01T00:00:00Z\n",
            // Leap seconds, also the one that there was.
            "2027-01-01T00:00:60Z",
            "2016-12-31T23:59:60Z",
            "2016-12-31T23:59:60.5Z",
            "2017-01-01T07:59:60+08:00",
            "2027-01-01T00:00:61Z",
            "2027-01-01T00:60:00Z",
            "2027-01-01T24:00:00Z",
            "2027-01-01T25:00:00Z",
            "2027-01-01T00:00:00.Z",
            "2027-01-01T00:00:00,5Z",
            "2027-01-01T00:00:00.1234567890Z",
            "2027-01-01T00:00:00.5",
            "2027-01-01T00:00:00.-5Z",
            "2027-02-29T00:00:00Z",
            "2027-00-01T00:00:00Z",
            "2027-13-01T00:00:00Z",
            "2027-01-00T00:00:00Z",
            "+02027-01-01T00:00:00Z",
            "-2027-01-01T00:00:00Z",
            "12027-01-01T00:00:00Z",
            "２027-01-01T00:00:00Z",
            // Before the epoch, also by less than a millisecond.
            "1969-12-31T23:59:59.999Z",
            "1969-12-31T23:59:59.9999Z",
            "1970-01-01T00:00:00+00:01",
            "红包红包红包Z",
        ] {
            assert_eq!(text.parse::<Timestamp>(), Err(()), "{text}");
        }
    }

    #[test]
    fn is_shown_as_rfc_3339_with_milliseconds() {
        assert_eq!(Timestamp::from_ms(0).to_string(), "1970-01-01T00:00:00.000Z");
        assert_eq!(Timestamp::from_ms(1_795_181_400_120).to_string(), "2026-11-20T13:30:00.120Z");
        for last in [253_402_300_799_999, 253_402_300_800_000, u64::MAX] {
            assert_eq!(Timestamp::from_ms(last).to_string(), "9999-12-31T23:59:59.999Z");
        }
    }
}
