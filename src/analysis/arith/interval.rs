//! Integer intervals with infinite ends.

use crate::ir::DType;
use std::ops::{Add, Mul, Neg, Sub};

const NEG: i64 = i64::MIN;
const POS: i64 = i64::MAX;

/// The integers from `lo` to `hi`, both included. `i64::MIN` and `i64::MAX` stand for no bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interval {
    /// Smallest value, or `i64::MIN`.
    pub lo: i64,
    /// Largest value, or `i64::MAX`.
    pub hi: i64,
}

fn clamp(v: i128) -> i64 {
    v.clamp(NEG as i128, POS as i128) as i64
}

/// Product of two ends, where an infinite end times zero is zero.
fn mul_end(a: i64, b: i64) -> i64 {
    let infinite = |v: i64| v == NEG || v == POS;
    match (a == 0 || b == 0, infinite(a) || infinite(b)) {
        (true, _) => 0,
        (false, true) if (a < 0) == (b < 0) => POS,
        (false, true) => NEG,
        (false, false) => clamp(a as i128 * b as i128),
    }
}

impl Interval {
    /// Every integer.
    pub const ALL: Interval = Interval { lo: NEG, hi: POS };
    /// 0 and 1.
    pub const BOOL: Interval = Interval { lo: 0, hi: 1 };

    /// `[lo, hi]`.
    pub fn new(lo: i64, hi: i64) -> Interval {
        Interval { lo, hi }
    }

    /// One value.
    pub fn point(v: i64) -> Interval {
        Interval { lo: v, hi: v }
    }

    /// The values of a dtype; everything for floats.
    pub fn of_dtype(dtype: DType) -> Interval {
        match dtype {
            DType::Bool => Interval::BOOL,
            DType::I8 => Interval::new(i8::MIN as i64, i8::MAX as i64),
            DType::I16 => Interval::new(i16::MIN as i64, i16::MAX as i64),
            DType::I32 => Interval::new(i32::MIN as i64, i32::MAX as i64),
            DType::U8 => Interval::new(0, u8::MAX as i64),
            DType::U16 => Interval::new(0, u16::MAX as i64),
            DType::U32 => Interval::new(0, u32::MAX as i64),
            DType::U64 => Interval::new(0, POS),
            DType::I64
            | DType::F16
            | DType::BF16
            | DType::F32
            | DType::F64
            | DType::E4M3
            | DType::E5M2
            | DType::E8M0
            | DType::Handle => Interval::ALL,
        }
    }

    /// Both ends where both are finite.
    pub fn finite(self) -> Option<(i64, i64)> {
        (self.lo != NEG && self.hi != POS).then_some((self.lo, self.hi))
    }

    /// The only value, if there is one.
    pub fn single(self) -> Option<i64> {
        (self.lo == self.hi).then_some(self.lo)
    }

    /// True when every value of `self` lies in `other`.
    pub fn within(self, other: Interval) -> bool {
        self.lo >= other.lo && self.hi <= other.hi
    }

    /// The values common to both; the first one's where they have none in common.
    pub fn meet(self, other: Interval) -> Interval {
        let m = Interval::new(self.lo.max(other.lo), self.hi.min(other.hi));
        if m.lo <= m.hi { m } else { self }
    }

    /// The smallest interval that holds both.
    pub fn join(self, other: Interval) -> Interval {
        Interval::new(self.lo.min(other.lo), self.hi.max(other.hi))
    }

    /// Floor quotients by values that are all at least 1; anything else gives every integer.
    pub fn floor_div(self, by: Interval) -> Interval {
        if by.lo < 1 {
            return Interval::ALL;
        }
        let lo = match self.lo {
            NEG => NEG,
            v if v < 0 => v.div_euclid(by.lo),
            v => v.div_euclid(by.hi),
        };
        let hi = match self.hi {
            POS => POS,
            v if v < 0 => v.div_euclid(by.hi),
            v => v.div_euclid(by.lo),
        };
        Interval::new(lo, hi)
    }

    /// Floor remainders by values that are all at least 1; anything else gives every integer.
    pub fn floor_mod(self, by: Interval) -> Interval {
        if by.lo < 1 {
            return Interval::ALL;
        }
        if self.lo >= 0 && self.hi < by.lo {
            return self;
        }
        if let (Some(c), Some((lo, hi))) = (by.single(), self.finite())
            && lo.div_euclid(c) == hi.div_euclid(c)
        {
            return Interval::new(lo.rem_euclid(c), hi.rem_euclid(c));
        }
        let top = if by.hi == POS { POS } else { by.hi - 1 };
        Interval::new(0, if self.lo >= 0 { top.min(self.hi) } else { top })
    }

    /// Element-wise minima.
    pub fn min(self, other: Interval) -> Interval {
        Interval::new(self.lo.min(other.lo), self.hi.min(other.hi))
    }

    /// Element-wise maxima.
    pub fn max(self, other: Interval) -> Interval {
        Interval::new(self.lo.max(other.lo), self.hi.max(other.hi))
    }

    /// What an operation of `dtype` can give whose exact results lie in `self`: index arithmetic
    /// (`int32`, `int64`) is taken not to overflow, every other integer type wraps.
    pub fn wrapped(self, dtype: DType) -> Interval {
        match dtype {
            DType::I32 | DType::I64 => self,
            _ if self.within(Interval::of_dtype(dtype)) => self,
            _ => Interval::of_dtype(dtype),
        }
    }
}

impl Add for Interval {
    type Output = Interval;
    fn add(self, other: Interval) -> Interval {
        let end = |a: i64, b: i64, inf: i64| if a == inf || b == inf { inf } else { clamp(a as i128 + b as i128) };
        Interval::new(end(self.lo, other.lo, NEG), end(self.hi, other.hi, POS))
    }
}

impl Neg for Interval {
    type Output = Interval;
    fn neg(self) -> Interval {
        let flip = |v: i64| clamp(-(v as i128));
        let (lo, hi) = (flip(self.hi), flip(self.lo));
        Interval::new(if self.hi == POS { NEG } else { lo }, if self.lo == NEG { POS } else { hi })
    }
}

impl Sub for Interval {
    type Output = Interval;
    fn sub(self, other: Interval) -> Interval {
        self + -other
    }
}

impl Mul for Interval {
    type Output = Interval;
    fn mul(self, other: Interval) -> Interval {
        let ends = [(self.lo, other.lo), (self.lo, other.hi), (self.hi, other.lo), (self.hi, other.hi)];
        let p = ends.map(|(a, b)| mul_end(a, b));
        Interval::new(p.into_iter().fold(p[0], i64::min), p.into_iter().fold(p[0], i64::max))
    }
}
