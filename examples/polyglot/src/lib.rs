//! Roman numerals from 1 to 3999.
//!
//! ```
//! assert_eq!(polyglot::to_roman(1984).as_deref(), Some("MCMLXXXIV"));
//! assert_eq!(polyglot::from_roman("XIV"), Some(14));
//! assert_eq!(polyglot::from_roman("IIII"), None);
//! ```

const VALUES: [(u16, &str); 13] = [
    (1000, "M"),
    (900, "CM"),
    (500, "D"),
    (400, "CD"),
    (100, "C"),
    (90, "XC"),
    (50, "L"),
    (40, "XL"),
    (10, "X"),
    (9, "IX"),
    (5, "V"),
    (4, "IV"),
    (1, "I"),
];

/// Returns the numeral of a number; `None` outside 1 to 3999.
pub fn to_roman(number: u16) -> Option<String> {
    if !(1..=3999).contains(&number) {
        return None;
    }
    let mut rest = number;
    let mut numeral = String::new();
    for (value, letters) in VALUES {
        while rest >= value {
            numeral += letters;
            rest -= value;
        }
    }
    Some(numeral)
}

/// Returns the number of a numeral; `None` for invalid numerals.
pub fn from_roman(numeral: &str) -> Option<u16> {
    let mut rest = numeral;
    let mut number = 0u16;
    for (value, letters) in VALUES {
        while let Some(after) = rest.strip_prefix(letters) {
            number = number.checked_add(value)?;
            rest = after;
        }
    }
    // Greedy parsing accepts too much, such as `IIII`; compare with the number's numeral.
    (rest.is_empty() && to_roman(number).as_deref() == Some(numeral)).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_survives_the_round_trip() {
        for number in 1..=3999 {
            let numeral = to_roman(number).unwrap();
            assert_eq!(from_roman(&numeral), Some(number), "{numeral}");
        }
    }

    #[test]
    fn the_range_ends_where_letters_do() {
        assert_eq!(to_roman(0), None);
        assert_eq!(to_roman(4000), None);
    }
}
