
    /// Checks that an extent is one that kernels can count to.
    fn extent(name: &str, value: usize) -> Result<i64, Error> {
        match i64::try_from(value) {
            Ok(value) if (1..1 << 31).contains(&value) => Ok(value),
            _ => Err(Error::Argument(format!("the extent `{name}` is {value}, expected 1 to {}", (1i64 << 31) - 1))),
        }
    }

    /// The number of elements of a tensor.
    fn product(dims: &[i64]) -> i64 {
        dims.iter().fold(1, |n, d| n.saturating_mul(*d))
    }
