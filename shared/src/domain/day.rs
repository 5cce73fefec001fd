use std::fmt;
use std::str::FromStr;

use jiff::civil::Date;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::{Amount, Timestamp};

/// The most that a user may send on a day.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DailyLimit {
    /// The sum of a day.
    pub most: Amount,
    /// Whose days.
    pub zone: DayZone,
}

/// The time zone in which a deployment's days begin and end. Its rules are part of the program.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DayZone(TimeZone);

/// A day: from its start until its end, where the next one starts. Days of a zone neither overlap nor leave a moment out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Day {
    /// Its date.
    pub date: Date,
    /// Its first millisecond: midnight, or the moment to which clocks jump if there is no midnight.
    pub start: Timestamp,
    /// The first millisecond of the next day. A zone that left out a whole day has one that ends where it starts.
    pub end: Timestamp,
}

impl DayZone {
    /// The zone of a deployment that names none.
    pub const DEFAULT: &str = "Asia/Shanghai";
    /// Days in UTC.
    pub const UTC: Self = Self(TimeZone::UTC);

    /// The day of this date; none if it lies outside of the time that a [`Timestamp`] can tell.
    #[must_use]
    pub fn day(&self, date: Date) -> Option<Day> {
        let start = |date: Date| {
            let ms = date.to_zoned(self.0.clone()).ok()?.timestamp().as_millisecond();
            Some(Timestamp::from_ms(u64::try_from(ms).unwrap_or(0)))
        };
        let (start, end) = (start(date)?, start(date.tomorrow().ok()?)?);
        (end > Timestamp::from_ms(0)).then_some(Day { date, start, end })
    }

    /// The day of this moment.
    #[must_use]
    pub fn day_of(&self, at: Timestamp) -> Day {
        let date = at.shown().to_zoned(self.0.clone()).date();
        // Clocks that are set back across midnight show the date before once more.
        let dates = [Ok(date), date.yesterday(), date.tomorrow()].into_iter().flatten();
        let day = dates.filter_map(|date| self.day(date)).find(|day| day.start <= at && at < day.end);
        day.unwrap_or(Day { date, start: at, end: Timestamp::from_ms(u64::MAX) })
    }

    /// What a clock of the zone shows then, to the second: `2026-11-20 21:30:02`. Spreadsheets read it as a time.
    #[must_use]
    pub fn clock_at(&self, at: Timestamp) -> String {
        at.shown().to_zoned(self.0.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string()
    }

    /// Its name among the IANA's.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }
}

impl FromStr for DayZone {
    type Err = ();

    /// Reads a name of the IANA, such as `Asia/Shanghai`.
    fn from_str(name: &str) -> Result<Self, ()> {
        let zone = TimeZoneDatabase::bundled().get(name).map_err(drop)?;
        if zone.is_unknown() { Err(()) } else { Ok(Self(zone)) }
    }
}

impl fmt::Display for DayZone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use jiff::ToSpan;
    use proptest::prelude::*;

    use super::*;

    fn zone(name: &str) -> DayZone {
        name.parse().unwrap()
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn a_day_lies_between_two_midnights_of_its_zone() {
        for (name, moment, date, start, end) in [
            ("UTC", "2027-01-01T00:00:00Z", "2027-01-01", "2027-01-01T00:00:00Z", "2027-01-02T00:00:00Z"),
            (
                DayZone::DEFAULT,
                "2026-12-31T15:59:59.999Z",
                "2026-12-31",
                "2026-12-30T16:00:00Z",
                "2026-12-31T16:00:00Z",
            ),
            (DayZone::DEFAULT, "2026-12-31T16:00:00Z", "2027-01-01", "2026-12-31T16:00:00Z", "2027-01-01T16:00:00Z"),
            ("asia/shanghai", "2026-12-31T16:00:00Z", "2027-01-01", "2026-12-31T16:00:00Z", "2027-01-01T16:00:00Z"),
            (
                "Pacific/Kiritimati",
                "2026-12-31T10:00:00Z",
                "2027-01-01",
                "2026-12-31T10:00:00Z",
                "2027-01-01T10:00:00Z",
            ),
            ("Pacific/Pago_Pago", "2027-01-01T10:59:59Z", "2026-12-31", "2026-12-31T11:00:00Z", "2027-01-01T11:00:00Z"),
            ("Asia/Kathmandu", "2026-12-31T18:15:00Z", "2027-01-01", "2026-12-31T18:15:00Z", "2027-01-01T18:15:00Z"),
            // Days of 23 and 25 hours.
            ("Europe/Berlin", "2026-03-29T12:00:00Z", "2026-03-29", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"),
            ("Europe/Berlin", "2026-10-25T12:00:00Z", "2026-10-25", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"),
            // Days without a midnight: clocks jumped from it to 01:00.
            ("America/Sao_Paulo", "2018-11-04T12:00:00Z", "2018-11-04", "2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"),
            ("Africa/Cairo", "2026-04-24T12:00:00Z", "2026-04-24", "2026-04-23T22:00:00Z", "2026-04-24T21:00:00Z"),
            // Midnight came twice: the second belongs to the day that the first began.
            ("America/Havana", "2024-11-03T05:30:00Z", "2024-11-03", "2024-11-03T04:00:00Z", "2024-11-04T05:00:00Z"),
            ("America/St_Johns", "2010-11-07T03:00:00Z", "2010-11-07", "2010-11-07T02:30:00Z", "2010-11-08T03:30:00Z"),
            // A day of the calendar that Samoa left out.
            ("Pacific/Apia", "2011-12-30T10:00:00Z", "2011-12-31", "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z"),
            ("UTC", "1970-01-01T00:00:00Z", "1970-01-01", "1970-01-01T00:00:00Z", "1970-01-02T00:00:00Z"),
            (DayZone::DEFAULT, "1970-01-01T00:00:00Z", "1970-01-01", "1970-01-01T00:00:00Z", "1970-01-01T16:00:00Z"),
        ] {
            let day = zone(name).day_of(at(moment));
            assert_eq!(
                (day.date.to_string(), day.start, day.end),
                (date.to_owned(), at(start), at(end)),
                "{name} {moment}"
            );
            assert_eq!(zone(name).day(day.date), Some(day));
        }
        let left_out = zone("Pacific/Apia").day("2011-12-30".parse().unwrap()).unwrap();
        assert_eq!((left_out.start, left_out.end), (at("2011-12-30T10:00:00Z"), at("2011-12-30T10:00:00Z")));
        assert_eq!(DayZone::UTC.day("1969-12-31".parse().unwrap()), None);
    }

    #[test]
    fn time_ends_without_a_panic() {
        let last = DayZone::UTC.day_of(Timestamp::from_ms(u64::MAX));
        assert_eq!(last.date.to_string(), "9999-12-30");
        assert!(last.start <= last.end);
    }

    #[test]
    fn only_a_name_of_the_iana_is_a_zone() {
        for (name, shown) in [("asia/shanghai", "Asia/Shanghai"), ("UTC", "UTC"), ("Etc/GMT-8", "Etc/GMT-8")] {
            assert_eq!(zone(name).to_string(), shown);
        }
        for name in
            ["", " ", "CST-8", "+08:00", "Asia/Peking", "Asia", "Etc/Unknown", "../zoneinfo/UTC", "Local", "北京"]
        {
            assert_eq!(name.parse::<DayZone>(), Err(()), "{name}");
        }
    }

    /// Every zone, around every time that its clocks changed or will: days follow each other, and each moment is in its own.
    #[test]
    fn the_days_of_every_zone_follow_each_other() {
        let (from, to) = ("1970-01-10T00:00:00Z".parse().unwrap(), "2060-01-01T00:00:00Z".parse().unwrap());
        let names: Vec<String> = TimeZoneDatabase::bundled().available().map(|name| name.to_string()).collect();
        assert!(names.len() > 400, "{}", names.len());
        for zone in names.iter().filter_map(|name| name.parse::<DayZone>().ok()) {
            for change in zone.0.following(from).take_while(|change| change.timestamp() < to) {
                for minutes in [-1_500, -61, -31, -1, 0, 1, 31, 61, 1_500] {
                    let moment = change.timestamp() + minutes.minutes();
                    let moment = Timestamp::from_ms(u64::try_from(moment.as_millisecond()).unwrap());
                    let day = zone.day_of(moment);
                    assert!(day.start <= moment && moment < day.end, "{zone} {moment} {day:?}");
                    assert_eq!(zone.day(day.date), Some(day), "{zone} {moment}");
                    assert_eq!(zone.day_of(day.end).start, day.end, "{zone} {moment}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn each_moment_is_in_its_day(ms in 0_u64..4_000_000_000_000, place: usize) {
            let zones = [DayZone::DEFAULT, "America/New_York", "Asia/Tehran", "Africa/Casablanca", "Antarctica/Troll"];
            let (zone, moment) = (zone(zones[place % zones.len()]), Timestamp::from_ms(ms));
            let day = zone.day_of(moment);
            prop_assert!(day.start <= moment && moment < day.end);
            prop_assert_eq!(zone.day_of(day.start), day);
        }
    }
}
