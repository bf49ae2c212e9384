//! A workspace made from one string, for tests.
