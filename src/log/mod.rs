//! The tuning log: records, reading, appending, choosing.
