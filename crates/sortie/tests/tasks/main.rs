//! Typical tasks through the real binary, with a model that makes the mistakes that models make. It reacts to the
//! results that it gets, so that better tools take fewer turns. The figures of each task have limits, and `figures.txt`
//! lists them.
#![cfg(test)]

mod code;
mod data;
mod limits;
mod rig;
mod seen;
mod shell;
mod stages;
mod table;

use sortie_testkit::prelude::*;

use self::rig::{Rig, Task};

async fn tasks() -> Result<Vec<Task>> {
    let all = [
        code::tasks(),
        data::tasks().await?,
        shell::tasks(),
        limits::tasks(),
    ];
    Ok(all.into_iter().flatten().collect())
}

#[tokio::test]
async fn every_task_ends_as_wished_within_its_figures_and_these_are_in_the_file() -> Checked {
    let rig = Rig::start(tasks().await?).await?;
    let ended = rig.run().await?;
    let shown = table::rows(&ended);
    println!("{shown}");
    let faults: Vec<String> = ended.iter().flat_map(rig::Ended::faults).collect();
    ensure!(faults.is_empty(), "{}", faults.join("\n"));
    compare(include_str!("figures.txt"), &shown)
}

fn compare(documented: &str, measured: &str) -> Result<()> {
    let differences = table::differences(documented, measured);
    ensure!(
        differences.is_empty(),
        "figures.txt is out of step with this table:\n{measured}\n{}",
        differences.join("\n")
    );
    Ok(())
}
