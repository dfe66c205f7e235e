//! Operations of an API, as its description and its access table have them. The tests of both APIs include this file.

use std::collections::BTreeSet;

use serde_json::Value;
use sortie_server::{Access, Api, RequiredRole};
use sortie_testkit::Answer;

/// Checks that the description, the access table and the calls have the same operations, each once. Returns the
/// descriptions with the required roles.
pub(crate) fn documented<'a>(api: Api, called: impl Iterator<Item = &'a str>) -> Vec<(Value, RequiredRole)> {
    let document = sortie_server::openapi(api);
    let documented: Vec<&Value> = document["paths"]
        .as_object()
        .unwrap()
        .values()
        .flat_map(|item| item.as_object().unwrap().values())
        .collect();
    let names: BTreeSet<&str> = documented
        .iter()
        .map(|operation| operation["operationId"].as_str().unwrap())
        .collect();
    let (accesses, called) = (sortie_server::access(api), called.collect::<Vec<_>>());
    assert_eq!(names, accesses.iter().map(|access| access.operation).collect());
    assert_eq!(names, called.iter().copied().collect());
    assert_eq!(
        (names.len(), names.len()),
        (accesses.len(), called.len()),
        "each stands there once"
    );
    assert!(accesses.iter().all(|access| access.api == api));
    documented
        .into_iter()
        .map(|operation| {
            let access = accesses
                .iter()
                .find(|access| operation["operationId"] == access.operation);
            (operation.clone(), access.unwrap().role)
        })
        .collect()
}

/// The line of an operation in the access table.
pub(crate) fn access(api: Api, operation: &str) -> &'static Access {
    let mut accesses = sortie_server::access(api).iter();
    let found = accesses.find(|access| access.operation == operation);
    found.unwrap_or_else(|| panic!("no operation {operation}"))
}

/// Expected answer to a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    Success,
    /// Refusal that does not depend on the caller.
    Status(u16),
    Unauthorized,
    Forbidden,
    NotFound,
}

impl Expected {
    /// Compares an answer. `told` is the assertion message.
    pub(crate) fn check(self, answer: &Answer, told: &str) {
        match self {
            Self::Success => assert!(answer.status < 300, "{told}"),
            Self::Status(status) => assert_eq!(answer.status, status, "{told}"),
            Self::Unauthorized => drop(answer.refused("unauthorized").expect(told)),
            Self::Forbidden => drop(answer.refused("forbidden").expect(told)),
            Self::NotFound => drop(answer.refused("not_found").expect(told)),
        }
    }
}
