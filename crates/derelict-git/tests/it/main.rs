//! What would be lost, on real repositories made by stock git.

mod asking;
mod channels;
mod corpus;
mod operators;
mod states;
mod support;
mod users;
mod walks;
