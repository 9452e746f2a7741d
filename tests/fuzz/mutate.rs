//! Mutants of texts and bytes: what a slip of the hand, a damaged disk or an attacker makes of a file that was right.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Numbers at which a conversion, a product or a limit breaks.
pub const NUMBERS: [&str; 20] = [
    "0",
    "-1",
    "1",
    "2",
    "3",
    "7",
    "64",
    "255",
    "65536",
    "2147483647",
    "2147483648",
    "-2147483648",
    "4294967296",
    "3037000500",
    "4611686018427387904",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "99999999999999999999999999",
    "1e308",
];

/// Bytes that texts seldom hold: control characters, the middle of a character, a surrogate, half of one.
const ODD: [&[u8]; 12] = [
    b"\0",
    b"\x1b[2J",
    b"\r",
    b"\n\n",
    b"\t",
    b"\x7f",
    b"\xff\xfe",
    b"\x80",
    b"\xed\xa0\x80",
    b"\xf0\x9f",
    "\u{202e}".as_bytes(),
    "\u{feff}".as_bytes(),
];

/// Pairs that nest.
const PAIRS: [(&str, &str); 7] =
    [("(", ")"), ("[", "]"), ("{", "}"), ("\"", "\""), ("-", ""), ("not ", ""), ("T.exp(", ")")];

/// The generator of mutant `n` of a reader: each mutant can be made without those before it.
pub fn generator(seed: u64, reader: &str, n: usize) -> StdRng {
    let salt = reader.bytes().fold(seed, |h, b| h.wrapping_mul(0x0100_0000_01b3) ^ u64::from(b));
    StdRng::seed_from_u64(salt ^ (n as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

/// The original with one to four changes, or with one number in place of another.
pub fn mutant(original: &[u8], rng: &mut StdRng) -> Vec<u8> {
    let mut out = original.to_vec();
    if rng.random_range(0..4) == 0 {
        return with_number(original, rng);
    }
    for _ in 0..rng.random_range(1..=4) {
        out = match rng.random_range(0..8) {
            0 | 1 => of_bytes(out, rng),
            2 => of_lines(&out, rng),
            _ => of_tokens(&out, rng),
        };
    }
    out
}

/// The same of a text; bytes that are no text are replaced.
pub fn text_mutant(original: &str, rng: &mut StdRng) -> String {
    String::from_utf8_lossy(&mutant(original.as_bytes(), rng)).into_owned()
}

/// One of several.
pub fn one<'a, T>(list: &'a [T], rng: &mut StdRng) -> &'a T {
    &list[rng.random_range(0..list.len())]
}

fn of_bytes(mut out: Vec<u8>, rng: &mut StdRng) -> Vec<u8> {
    let at = rng.random_range(0..=out.len());
    let end = (at + rng.random_range(1..40)).min(out.len());
    match rng.random_range(0..6) {
        0 if at < out.len() => out[at] ^= 1 << rng.random_range(0..8),
        1 => drop(out.drain(at..end)),
        2 => {
            let again = out[at..end].to_vec();
            drop(out.splice(at..at, again));
        }
        3 => out.truncate(at),
        4 if at < out.len() => out[at] = rng.random(),
        _ => drop(out.splice(at..at, one(&ODD, rng).iter().copied())),
    }
    out
}

fn of_lines(text: &[u8], rng: &mut StdRng) -> Vec<u8> {
    let mut lines: Vec<&[u8]> = text.split_inclusive(|b| *b == b'\n').collect();
    if lines.is_empty() {
        return vec![];
    }
    let (a, b) = (rng.random_range(0..lines.len()), rng.random_range(0..lines.len()));
    match rng.random_range(0..3) {
        0 => lines.swap(a, b),
        1 => drop(lines.remove(a)),
        _ => lines.insert(b, lines[a]),
    }
    lines.concat()
}

fn of_tokens(text: &[u8], rng: &mut StdRng) -> Vec<u8> {
    let mut tokens: Vec<Vec<u8>> = tokens(text).into_iter().map(<[u8]>::to_vec).collect();
    if tokens.is_empty() {
        return vec![];
    }
    let (k, other) = (rng.random_range(0..tokens.len()), rng.random_range(0..tokens.len()));
    match rng.random_range(0..7) {
        0 => tokens[k].clear(),
        1 => tokens[k] = tokens[other].clone(),
        2 => tokens.insert(k, tokens[other].clone()),
        3 => tokens.swap(k, other),
        4 => {
            let (open, close) = one(&PAIRS, rng);
            let depth = *one(&[1, 3, 250, 20_000], rng);
            tokens[k] = [open.repeat(depth).as_bytes(), &tokens[k], close.repeat(depth).as_bytes()].concat();
        }
        _ => return with_number(text, rng),
    }
    tokens.concat()
}

fn with_number(text: &[u8], rng: &mut StdRng) -> Vec<u8> {
    let mut tokens = tokens(text);
    let numbers: Vec<usize> = (0..tokens.len()).filter(|t| tokens[*t][0].is_ascii_digit()).collect();
    if !numbers.is_empty() {
        tokens[*one(&numbers, rng)] = one(&NUMBERS, rng).as_bytes();
    }
    tokens.concat()
}

/// Words and numbers, single marks, and runs of blanks.
fn tokens(text: &[u8]) -> Vec<&[u8]> {
    let word = |c: &u8| c.is_ascii_alphanumeric() || *c == b'_' || *c == b'.';
    text.chunk_by(|a, b| (word(a) && word(b)) || (*a == b' ' && *b == b' ')).collect()
}
