//! Points in time in RFC 3339.

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

/// A time in milliseconds since the Unix epoch as RFC 3339 in UTC with microseconds, the way
/// Cloudflare's API writes `created_on`.
pub fn timestamp(at_ms: u64) -> String {
    let micros = at_ms % 1_000 * 1_000;
    format!("{}.{micros:06}Z", seconds(at_ms))
}

/// The same with milliseconds, the way CloudEvents' own examples do.
pub fn timestamp_ms(at_ms: u64) -> String {
    format!("{}.{:03}Z", seconds(at_ms), at_ms % 1_000)
}

fn seconds(at_ms: u64) -> String {
    let (year, month, day) = date(at_ms / DAY_MS);
    let ms = at_ms % DAY_MS;
    let (hours, minutes, seconds) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}")
}

/// The date `days` after 1 January 1970 in the Gregorian calendar, counted in eras of 400 years
/// that begin on 1 March, so that a leap day is the last of its year.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rfc_3339_with_microseconds() {
        let cases = [
            (0, "1970-01-01T00:00:00.000000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000000Z"),
            (951_868_800_000, "2000-03-01T00:00:00.000000Z"),
            (1_667_145_914_966, "2022-10-30T16:05:14.966000Z"),
            (1_735_689_599_001, "2024-12-31T23:59:59.001000Z"),
            (1_796_035_200_000, "2026-11-30T10:40:00.000000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000000Z"),
        ];
        for (at_ms, expected) in cases {
            assert_eq!(timestamp(at_ms), expected);
        }
        assert_eq!(timestamp_ms(1_667_145_914_066), "2022-10-30T16:05:14.066Z");
    }
}
