//! The battery: every guarantee of the sandbox, tried, on every kind of host and as every kind of engine.
//!
//! Each section is written once against `dyn Sandbox` and runs four times: at level `namespaces` as the user of the suite and as
//! an unprivileged user, and at level `landlock` as both, on a host that denies namespaces as an ordinary container does. Checks
//! that a host cannot run are printed as `NOT CHECKED`, never skipped silently. With `SORTIE_TEST_STRICT=1` a level that the host
//! does not give is a failure.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, also in its helpers"
)]

mod disk;
mod egress;
mod escapes;
mod files;
mod harness;
mod hosts;
mod lifetimes;
mod limits;
mod lives;
mod memory;
mod neighbours;
mod piped;
mod released;
mod root;
mod starve;
mod workplace;

use harness::{Engine, Pass};
use sortie_sandbox::Level;

const SUITE: Engine = Engine::AsTheSuite;
const USER: Engine = Engine::Unprivileged;

macro_rules! battery {
    ($($module:ident :: $section:ident),* $(,)?) => {
        /// At level `namespaces`, as the user of the suite: root gives each run a separate user.
        mod namespaces {
            $(#[test]
            fn $section() {
                let pass = super::Pass { level: super::Level::Namespaces, engine: super::SUITE };
                pass.run(concat!("namespaces::", stringify!($section)), super::$module::$section);
            })*
        }
        /// At level `namespaces`, as an unprivileged user.
        mod namespaces_unprivileged {
            $(#[test]
            fn $section() {
                let pass = super::Pass { level: super::Level::Namespaces, engine: super::USER };
                pass.run(concat!("namespaces_unprivileged::", stringify!($section)), super::$module::$section);
            })*
        }
        /// In an ordinary container: level `landlock`, as the user of the suite.
        mod container {
            $(#[test]
            fn $section() {
                let pass = super::Pass { level: super::Level::Landlock, engine: super::SUITE };
                pass.run(concat!("container::", stringify!($section)), super::$module::$section);
            })*
        }
        /// In an ordinary container: level `landlock`, as an unprivileged user.
        mod container_unprivileged {
            $(#[test]
            fn $section() {
                let pass = super::Pass { level: super::Level::Landlock, engine: super::USER };
                pass.run(concat!("container_unprivileged::", stringify!($section)), super::$module::$section);
            })*
        }
    };
}

/// On one kind of host as one kind of engine, because it takes as long as a launcher may take.
#[test]
fn what_forks_and_does_nothing_is_replaced() {
    let pass = Pass {
        level: Level::Landlock,
        engine: SUITE,
    };
    pass.run(
        "what_forks_and_does_nothing_is_replaced",
        lifetimes::what_forks_and_does_nothing_is_replaced,
    );
}

/// On one kind of host as one kind of engine, in a separate process: it exhausts the engine's descriptors.
#[test]
fn a_command_that_cannot_be_released_is_killed_alone() {
    let pass = Pass {
        level: Level::Landlock,
        engine: SUITE,
    };
    pass.run(
        "a_command_that_cannot_be_released_is_killed_alone",
        released::a_command_that_cannot_be_released_is_killed_alone,
    );
}

battery! {
    escapes::nothing_that_must_not_work_works,
    escapes::with_a_way_out_nothing_else_works_either,
    egress::ordinary_clients_find_the_proxy,
    egress::each_run_has_a_proxy_of_its_own,
    egress::the_way_out_ends_with_the_sandbox_and_comes_back_with_it,
    limits::a_fork_bomb_is_bounded_and_ends_with_its_command,
    limits::threads_are_bounded,
    limits::a_thousand_processes_end_with_their_command,
    limits::memory_is_bounded_however_it_is_taken,
    limits::disk_is_bounded_in_bytes_and_in_files,
    disk::space_is_not_set_aside,
    disk::what_is_moved_during_a_look_is_counted,
    disk::deleted_files_are_counted,
    disk::deleted_files_are_counted_in_memory,
    disk::commands_after_the_limit_do_not_add_up,
    disk::what_moves_within_the_limit_goes_on,
    limits::temporary_files_are_bounded,
    limits::descriptors_and_pipes_are_bounded,
    limits::time_is_bounded,
    lifetimes::output_is_kept_at_both_ends_and_otherwise_thrown_away,
    lifetimes::input_is_empty_and_bytes_stay_as_they_are,
    lifetimes::what_ignores_every_signal_ends_with_its_command,
    lifetimes::background_processes_live_until_the_sandbox_is_closed,
    lifetimes::a_command_that_nobody_waits_for_is_killed,
    lifetimes::orphans_are_reaped,
    lifetimes::nothing_outlives_the_engine_or_the_launcher,
    lifetimes::ends_are_told_apart,
    lifetimes::arguments_and_environment_of_any_size,
    lifetimes::a_lost_sandbox_is_opened_again,
    lifetimes::sandboxes_outlive_what_forked_them,
    lifetimes::a_launcher_has_nothing_open_but_its_own,
    lifetimes::a_host_that_forks_no_more_is_named,
    lives::a_process_without_its_first_thread_ends_with_its_command,
    lives::a_process_without_its_first_thread_ends_with_the_sandbox,
    lives::a_job_without_its_first_thread_has_not_ended,
    memory::memory_behind_an_ended_thread_counts,
    memory::buffers_of_sockets_count,
    memory::buffers_that_closed_senders_left_count,
    memory::system_v_memory_counts,
    memory::page_tables_and_mappings_count,
    memory::watched_descriptors_are_bounded,
    memory::the_engine_keeps_its_part_of_what_its_user_has,
    piped::a_process_answers_while_commands_run,
    piped::a_process_that_does_not_read_holds_up_only_who_writes_to_it,
    piped::the_end_of_a_process_is_told_with_its_last_words,
    piped::a_process_that_is_let_go_of_is_killed_with_its_session,
    piped::a_command_that_is_killed_leaves_processes_alone,
    piped::processes_end_with_the_sandbox,
    piped::a_process_is_confined_and_limited_as_a_command_is,
    released::a_command_whose_time_is_up_runs_on_beside_later_ones,
    released::the_end_of_a_released_command_is_told,
    released::a_released_command_is_killed_with_its_session_and_nothing_else,
    released::a_command_that_is_killed_leaves_released_ones_alone,
    released::what_a_released_command_leaves_lives_on,
    released::what_a_released_command_left_is_killed_on_request,
    released::released_commands_end_with_the_sandbox,
    released::a_released_command_stays_within_the_limits,
    released::a_long_stream_is_stored_from_its_beginning,
    released::nobody_is_asked_anything,
    starve::limits_are_kept_though_the_run_takes_the_processor,
    starve::sessions_are_bounded,
    starve::what_is_killed_on_a_busy_machine_dies_soon,
    starve::the_engine_and_the_watch_come_before_commands,
    files::whatever_was_left_behind_is_measured_and_deleted,
    files::a_run_goes_on_in_its_directory_after_a_restart,
    files::ordinary_tools_work,
    workplace::packages_find_their_configuration,
    workplace::what_may_hold_credentials_stays_hidden,
    workplace::paths_of_the_operator_are_shown_read_only,
    workplace::runtimes_live_within_the_memory_that_they_are_told_of,
    root::a_run_does_not_change_the_root_of_another,
    root::a_run_has_few_mounts_and_no_other_of_the_host,
    neighbours::two_runs_see_nothing_of_each_other,
    neighbours::a_hundred_sandboxes_at_once,
}
