//! Shared memory as the lanes of a warp meet it: 32 banks of 4-byte words.

const BANKS: i64 = 32;
const WORD: i64 = 4;

/// Accesses too many: how often the words that lanes touch together lie in one bank, over what their
/// number makes necessary. `places` has the element offset of each lane. Lanes that touch the same word
/// do so together; elements of 8 bytes are touched by half a warp at a time.
pub(super) fn conflicts(places: &[i64], bytes: i64) -> i64 {
    let together = (BANKS * WORD / bytes.max(WORD)) as usize;
    places.chunks(together).map(|part| excess(part, bytes)).sum()
}

fn excess(places: &[i64], bytes: i64) -> i64 {
    let mut words: Vec<i64> =
        places.iter().flat_map(|p| (0..(bytes + WORD - 1) / WORD).map(move |k| p * bytes / WORD + k)).collect();
    words.sort_unstable();
    words.dedup();
    let in_bank = |b: i64| words.iter().filter(|w| **w % BANKS == b).count() as i64;
    (0..BANKS).map(in_bank).max().unwrap_or(0).max(1) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strided(stride: i64) -> Vec<i64> {
        (0..32).map(|lane| lane * stride).collect()
    }

    #[test]
    fn strides_conflict_as_the_hardware_has_it() {
        for (bytes, stride, expected) in [(4, 1, 0), (4, 2, 1), (4, 8, 7), (4, 32, 31), (4, 33, 0), (4, 0, 0)] {
            assert_eq!(conflicts(&strided(stride), bytes), expected, "{bytes} bytes, stride {stride}");
        }
        assert_eq!(conflicts(&strided(1), 8), 0);
        assert_eq!(conflicts(&strided(16), 8), 2 * 15);
        assert_eq!(conflicts(&strided(1), 2), 0);
        assert_eq!(conflicts(&strided(64), 2), 31);
    }
}
