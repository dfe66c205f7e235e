//! The web for agents: tools that fetch, search and call public APIs, and the way out for a run's commands.
//!
//! All of it goes where the run's [`sortie_net::Policy`] allows and nowhere else, in bounded time and bytes.

pub mod egress;
mod html;
mod media;
mod text;
