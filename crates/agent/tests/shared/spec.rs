use std::{sync::Arc, time::Duration};

use sortie_agent::{BudgetSpec, Egress, Environment, Owner, RunSpec, Shell};
use sortie_api::{Micros, OrgId, RunId, Timestamp};
use tokio::time::Instant;

/// A run with a dollar to spend and no price of compute.
pub(crate) fn spec(prompt: &str) -> RunSpec {
    RunSpec {
        owner: Owner {
            run: RunId::new(Timestamp::from_micros(0), [1; 10]),
            org: OrgId::new(Timestamp::from_micros(0), [1; 10]),
        },
        prompt: prompt.to_owned(),
        instructions: String::new(),
        input: None,
        output_schema: None,
        shell: Shell::Allowed,
        egress: Egress::Closed,
        budget: BudgetSpec {
            max_cost: Micros::new(1_000_000).unwrap(),
            compute_micros_per_second: Micros::ZERO,
            started: Instant::now(),
            spent: Micros::ZERO,
        },
        deadline: None,
        max_steps: 200,
        effort: None,
        fallback: None,
        files: Vec::new(),
        environment: Environment::default(),
        media: Vec::new(),
        command_timeout: Duration::from_mins(1),
        tools: Vec::new(),
        redactor: Arc::default(),
        resume: None,
    }
}
