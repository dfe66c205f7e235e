//! A hosted deployment: isolation of two organizations on one node, secrets of every kind, and limits.

mod credits;
mod isolation;
mod people;
mod ranks;
mod secrets;
mod storage;
