//! Targets as data: rules read fields, never names.
