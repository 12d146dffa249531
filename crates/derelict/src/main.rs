//! The front end.
fn main() {}
