//! The web tools against servers of the test's own: the names of the web lead there, and nothing else is different.

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
