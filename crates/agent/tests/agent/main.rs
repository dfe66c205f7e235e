//! The agent from outside: scripted models, a recording sink, real working directories and a pretended sandbox.

#[cfg(test)]
mod budget;
#[cfg(test)]
mod cassettes;
#[cfg(test)]
mod endings;
#[cfg(test)]
mod files;
#[cfg(test)]
mod instructions;
#[cfg(test)]
mod jobs;
#[cfg(test)]
mod pictures;
#[cfg(test)]
mod prelude;
#[cfg(test)]
mod replies;
#[cfg(test)]
mod resume;
#[cfg(test)]
mod rules;
#[cfg(test)]
mod runbook;
#[cfg(test)]
mod secrets;
#[cfg(test)]
mod spending;
#[cfg(test)]
mod steps;
#[cfg(test)]
mod support;
#[cfg(test)]
mod tasks;
#[cfg(test)]
mod tools;
#[cfg(test)]
mod turns;
#[cfg(test)]
mod weak;
#[cfg(test)]
mod window;
