//! The web tools against test servers. Only name resolution differs from production.

#[cfg(test)]
mod fetch;
#[cfg(test)]
mod reader;
#[cfg(test)]
mod request;
#[cfg(test)]
mod rig;
#[cfg(test)]
mod search;
