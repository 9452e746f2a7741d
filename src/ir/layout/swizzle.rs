//! Swizzles: xor permutations of memory offsets that keep shared memory free of bank conflicts.

use std::fmt;

/// An xor permutation of element offsets. The offset's low `per_element` bits stay; above them,
/// counted from bit `per_element`, the `swizzle_len` bits at `atom_len` are xored into the lowest
/// `swizzle_len` bits (`inner`), or the lowest into those at `atom_len` (not `inner`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Swizzle {
    per_element: u32,
    swizzle_len: u32,
    atom_len: u32,
    inner: bool,
}

impl Swizzle {
    /// Most bits that a swizzle may span in all: its period is at most 2^20 elements.
    pub const MAX_BITS: u32 = 20;

    /// Bytes of the rows that tensor maps, `ldmatrix` and matrix descriptors know swizzles for, widest first.
    pub const ROWS: [u32; 3] = [128, 64, 32];

    /// The widest of [`Swizzle::ROWS`] that `bytes` are a multiple of.
    pub fn widest_row(bytes: i64) -> Option<u32> {
        Swizzle::ROWS.into_iter().find(|row| bytes % i64::from(*row) == 0)
    }

    /// A swizzle of these parameters (bits), or why there is none.
    pub fn new(per_element: u32, swizzle_len: u32, atom_len: u32, inner: bool) -> Result<Swizzle, String> {
        if atom_len < swizzle_len {
            return Err(format!(
                "a swizzle's atom_len is at least its swizzle_len, but atom_len is {atom_len} and swizzle_len {swizzle_len}"
            ));
        }
        let bits = u64::from(per_element) + u64::from(swizzle_len) + u64::from(atom_len);
        if bits > u64::from(Swizzle::MAX_BITS) {
            return Err(format!(
                "a swizzle spans at most {} bits, but {per_element} + {swizzle_len} + {atom_len} is {bits}",
                Swizzle::MAX_BITS
            ));
        }
        Ok(Swizzle { per_element, swizzle_len, atom_len, inner })
    }

    /// The swizzle of shared memory in rows of `row` bytes (32, 64 or 128), for elements of
    /// `element` bytes: units of 16 bytes change places within a row, by the number of the row of 128
    /// bytes they are in. The same as the tensor map's and `ldmatrix`'s swizzles of those widths.
    pub fn of_rows(row: u32, element: u32) -> Result<Swizzle, String> {
        let len = match row {
            32 => 1,
            64 => 2,
            128 => 3,
            _ => return Err(format!("shared memory is swizzled in rows of 32, 64 or 128 bytes, not {row}")),
        };
        if !element.is_power_of_two() || element > 16 {
            return Err(format!("elements of {element} bytes do not fill units of 16 bytes"));
        }
        Swizzle::new((16 / element).ilog2(), len, 3, true)
    }

    /// Bits of an offset that stay: 2^`per_element` elements move together.
    pub fn per_element(self) -> u32 {
        self.per_element
    }

    /// Number of bits that are xored.
    pub fn swizzle_len(self) -> u32 {
        self.swizzle_len
    }

    /// Distance in bits between the two groups of bits.
    pub fn atom_len(self) -> u32 {
        self.atom_len
    }

    /// True where the upper bits are xored into the lower ones.
    pub fn inner(self) -> bool {
        self.inner
    }

    /// Where the bits come from and go to, counted from bit 0 of the element offset, and the mask
    /// of `swizzle_len` ones.
    pub(super) fn bits(self) -> (u32, u32, i64) {
        let (low, high) = (self.per_element, self.per_element + self.atom_len);
        let mask = (1i64 << self.swizzle_len) - 1;
        if self.inner { (high, low, mask) } else { (low, high, mask) }
    }

    /// Where the element at `offset` goes. An involution.
    pub fn apply(self, offset: i64) -> i64 {
        let (from, to, mask) = self.bits();
        offset ^ (((offset >> from) & mask) << to)
    }

    /// Elements that move together: 2^`per_element`.
    pub fn chunk(self) -> i64 {
        1 << self.per_element
    }

    /// Elements after which the permutation repeats itself.
    pub fn period(self) -> i64 {
        1 << (self.per_element + self.swizzle_len + self.atom_len)
    }

    /// Elements in the least aligned block that the swizzle maps onto itself.
    pub fn block(self) -> i64 {
        let above = if self.inner { 0 } else { self.atom_len };
        1 << (self.per_element + self.swizzle_len + above)
    }

    /// True when offsets `0..len` are mapped onto themselves.
    pub(super) fn keeps(self, len: i64) -> bool {
        let start = len - len.rem_euclid(self.block());
        (start..len).all(|x| self.apply(x) < len)
    }
}

impl fmt::Display for Swizzle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SwizzleLayout({}, {}, {}", self.per_element, self.swizzle_len, self.atom_len)?;
        f.write_str(if self.inner { ")" } else { ", swizzle_inner=False)" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn all() -> Vec<Swizzle> {
        let mut out = vec![];
        for m in 0..3 {
            for b in 0..3 {
                for s in b..4 {
                    out.extend([true, false].map(|inner| Swizzle::new(m, b, s, inner).expect("legal")));
                }
            }
        }
        out
    }

    #[test]
    fn the_128_byte_swizzle_of_16_bit_elements_is_the_documented_one() {
        let s = Swizzle::new(3, 3, 3, true).expect("legal");
        assert_eq!(Swizzle::of_rows(128, 2), Ok(s));
        assert_eq!(Swizzle::of_rows(64, 4), Swizzle::new(2, 2, 3, true));
        assert!(
            Swizzle::of_rows(16, 2).is_err() && Swizzle::of_rows(32, 3).is_err() && Swizzle::of_rows(32, 0).is_err()
        );
        for row in 0..16 {
            for col in 0..64 {
                let chunk = (col / 8) ^ (row % 8);
                assert_eq!(s.apply(row * 64 + col), row * 64 + chunk * 8 + col % 8);
            }
        }
    }

    #[test]
    fn a_swizzle_undoes_itself_and_keeps_blocks_chunks_and_periods() {
        for s in all() {
            for x in -200..200 {
                assert_eq!(s.apply(s.apply(x)), x);
                assert_eq!(s.apply(x).rem_euclid(s.chunk()), x.rem_euclid(s.chunk()));
                assert_eq!(s.apply(x).div_euclid(s.block()), x.div_euclid(s.block()));
                assert_eq!(s.apply(x + s.period()), s.apply(x) + s.period());
            }
        }
    }

    #[test]
    fn keeps_is_what_enumeration_says() {
        for s in all() {
            for len in 0..130 {
                let image: BTreeSet<i64> = (0..len).map(|x| s.apply(x)).collect();
                assert_eq!(s.keeps(len), image == (0..len).collect(), "{s} on {len}");
            }
        }
    }

    #[test]
    fn bad_parameters_are_refused() {
        assert!(Swizzle::new(3, 3, 2, true).is_err());
        assert!(Swizzle::new(u32::MAX, 1, 1, true).is_err());
        assert!(Swizzle::new(10, 5, 6, true).is_err());
        assert!(Swizzle::new(10, 5, 5, false).is_ok());
    }
}
