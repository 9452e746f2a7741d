//! The nearest of a list of names, for "did you mean".

/// Letters of a word that is compared.
const MOST: usize = 64;

/// The option closest to `word` by edit distance, if one is close enough to be a slip: at most a
/// third of the letters wrong. The first of equals wins.
pub fn nearest<'a>(word: &str, options: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let (letters, limit) = (word.chars().count(), (word.chars().count() / 3).clamp(1, 3));
    // Long words, which come from outside, are no slips.
    let options = options.into_iter().filter(|o| letters <= MOST && o.len() <= MOST && *o != word);
    let mut best: Option<(usize, &str)> = None;
    for option in options {
        let d = distance(word, option);
        if d <= limit && best.is_none_or(|(b, _)| d < b) {
            best = Some((d, option));
        }
    }
    best.map(|(_, option)| option)
}

/// Insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b`.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    let mut rows = vec![(0..=b.len()).collect::<Vec<_>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let substituted = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut d = substituted.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                d = d.min(rows[i - 2][j - 2] + 1);
            }
            row.push(d);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_find_their_word() {
        let words = ["reduction.inner", "gemv", "transpose"];
        assert_eq!(nearest("gevm", words), Some("gemv"));
        assert_eq!(nearest("reduction.iner", words), Some("reduction.inner"));
        assert_eq!(nearest("matmul", words), None);
    }

    #[test]
    fn distances() {
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", "abc"), 0);
        assert_eq!(distance("ab", "ba"), 1);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
