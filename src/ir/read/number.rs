//! Python's literals: integers, floats and strings.

/// An integer literal in any base; `None` where it does not fit 128 bits.
pub(super) fn integer(text: &str) -> Option<i128> {
    let text = text.replace('_', "").to_ascii_lowercase();
    let (digits, radix) = match text.get(..2) {
        Some("0x") => (&text[2..], 16),
        Some("0o") => (&text[2..], 8),
        Some("0b") => (&text[2..], 2),
        _ => (text.as_str(), 10),
    };
    i128::from_str_radix(digits, radix).ok()
}

/// A float literal, or the text of a float in a string: decimal, hexadecimal (`0x1.8p+1`), `inf`
/// or `nan`.
pub(super) fn float(text: &str) -> Option<f64> {
    let text = text.trim().replace('_', "").to_ascii_lowercase();
    let (sign, magnitude) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(&text)),
    };
    match magnitude.strip_prefix("0x") {
        Some(hex) => Some(sign * hex_float(hex)?),
        None => magnitude.parse::<f64>().ok().map(|v| sign * v),
    }
}

/// `h.hhhp+d`, rounded once to nearest even.
fn hex_float(text: &str) -> Option<f64> {
    let (digits, exponent) = text.split_once('p').unwrap_or((text, "0"));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let exponent: i32 = exponent.parse().ok()?;
    if whole.len() + fraction.len() == 0 || whole.len() + fraction.len() > 30 || exponent.abs() > 2000 {
        return None;
    }
    let mantissa = u128::from_str_radix(&format!("{whole}{fraction}"), 16).ok()?;
    let scale = exponent - 4 * fraction.len() as i32;
    // Two steps keep the power of two inside the range of a float.
    let half = scale / 2;
    Some(mantissa as f64 * 2f64.powi(half) * 2f64.powi(scale - half))
}

/// The value of a string literal with its prefix and quotes.
pub(super) fn string(text: &str) -> Result<String, String> {
    let quote_at = text.find(['"', '\'']).ok_or("this string has no quotes")?;
    let prefix = text[..quote_at].to_ascii_lowercase();
    if prefix.contains(['f', 'b', 't']) {
        return Err(format!("a string with the prefix `{prefix}` has no meaning in TVMScript"));
    }
    let body = &text[quote_at..];
    let quote = if body.starts_with("\"\"\"") || body.starts_with("'''") { 3 } else { 1 };
    let inner = body.get(quote..body.len().saturating_sub(quote)).ok_or("this string is not closed")?;
    if prefix.contains('r') { Ok(inner.to_string()) } else { unescape(inner) }
}

fn unescape(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('r') => out.push('\r'),
            Some('\n') => {}
            Some('x') => {
                let hex: String = chars.by_ref().take(2).collect();
                let code = u8::from_str_radix(&hex, 16).map_err(|_| format!("`\\x{hex}` is not an escape"))?;
                out.push(char::from(code));
            }
            Some(c @ ('\\' | '"' | '\'')) => out.push(c),
            Some(c) => out.extend(['\\', c]),
            None => return Err("this string ends in a backslash".to_string()),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_every_spelling() {
        assert_eq!(integer("1_000"), Some(1000));
        assert_eq!(integer("0x10"), Some(16));
        assert_eq!(integer(&"9".repeat(60)), None);
        assert_eq!(float("340282346638528859811704183484516925440.0"), Some(f64::from(f32::MAX)));
        assert_eq!(float("0x1.8p+1"), Some(3.0));
        assert_eq!(float("-0x1p-1"), Some(-0.5));
        assert_eq!(float("-inf"), Some(f64::NEG_INFINITY));
        assert!(float("nan").is_some_and(f64::is_nan));
        assert_eq!(float("abc"), None);
    }

    #[test]
    fn strings_with_escapes_and_prefixes() {
        assert_eq!(string("\"a\\\"b\\n\""), Ok("a\"b\n".to_string()));
        assert_eq!(string("'x'"), Ok("x".to_string()));
        assert_eq!(string("\"\"\"two\nlines\"\"\""), Ok("two\nlines".to_string()));
        assert_eq!(string("r'\\n'"), Ok("\\n".to_string()));
        assert!(string("f'{x}'").is_err());
    }
}
