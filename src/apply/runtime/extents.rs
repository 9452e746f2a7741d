
    /// Checks that an extent is one that kernels can count to.
    #[allow(dead_code)]
    fn extent(name: &str, value: i64) -> Result<(), Error> {
        if (1..1 << 31).contains(&value) {
            return Ok(());
        }
        Err(Error::Argument(format!("the extent `{name}` is {value}, expected 1 to {}", (1i64 << 31) - 1)))
    }

    /// The number of elements of a tensor.
    #[allow(dead_code)]
    fn product(dims: &[i64]) -> i64 {
        dims.iter().fold(1, |n, d| n.saturating_mul(*d))
    }
