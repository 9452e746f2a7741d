//! Compilers and runners: the only code that touches drivers.
