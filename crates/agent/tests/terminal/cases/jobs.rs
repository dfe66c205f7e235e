//! Cases of commands that become jobs.

use super::{Case, OPENHANDS, OURS, call, jobs, shell, without};

pub(super) const CASES: &[Case] = cases! {
    "a_command_that_outlasts_its_time_goes_on_beside_others", OPENHANDS, &[] => {
        without(shell(r#"{"command": "echo 1; sleep 3; echo 2; echo 3 >&2; exit 4", "timeout_seconds": 1}"#, &["[the command still runs after 1 s]\n[it goes on as job 1; its output goes to .sortie/output/1-job.log.", "[stdout]\n1\n"]),
            &["\n2\n"]);
        shell(r#"{"command": "echo beside; cat .sortie/output/1-job.log"}"#, &["[stdout]\nbeside\n1\n"]);
        jobs("{}", &["job 1 still runs, since ", " s; ", "echo 1; sleep 3;"]);
        jobs(r#"{"job": 1, "wait_seconds": 30}"#,
            &["[job 1 exited with status 4 after ", "[its log is .sortie/output/1-job.log]\n[new output]\n2\n3\n"]);
        jobs(r#"{"job": 1}"#, &["[job 1 exited with status 4 after ", "[no new output]\n"]);
        call("read_file", r#"{"path": ".sortie/output/1-job.log"}"#, &["1\n2\n3\n"]);
        jobs("{}", &["job 1 exited with status 4 after "]);
    }
    "the_output_of_a_job_is_told_piece_by_piece", OPENHANDS, &[] => {
        shell(r#"{"command": "for i in 1 2 3; do echo number $i; while [ ! -e go$i ]; do sleep 0.02; done; done", "background": true}"#,
            &["[the command still runs after 1 s]", "[it goes on as job 1", "[stdout]\nnumber 1\n"]);
        shell(r#"{"command": "touch go1; until grep -q 2 .sortie/output/1-job.log; do sleep 0.02; done"}"#,
            &["status 0"]);
        jobs(r#"{"job": 1}"#, &["still runs", "[new output]\nnumber 2\n"]);
        jobs(r#"{"job": 1}"#, &["still runs", "[no new output]"]);
        shell(r#"{"command": "touch go2 go3"}"#, &["status 0"]);
        jobs(r#"{"job": 1, "wait_seconds": 30}"#, &["exited with status 0", "[new output]\nnumber 3\n"]);
    }
    "a_loop_without_an_end_is_killed_by_its_job", OPENHANDS, &[] => {
        shell(r#"{"command": "while true; do echo looping; sleep 3; done", "timeout_seconds": 1}"#,
            &["still runs", "looping\n"]);
        jobs(r#"{"job": 1, "kill": true}"#, &["[job 1 was killed after "]);
        shell(r#"{"command": "ps ax 2>/dev/null | grep -c '[l]ooping'; echo free"}"#, &["free\n"]);
        jobs(r#"{"job": 1, "kill": true}"#, &["[job 1 was killed after "]);
    }
    "a_background_command_that_fails_at_once_is_no_job", OURS, &[] => {
        shell(r#"{"command": "no_such_server --port 1", "background": true}"#,
            &["exited with status 127: command not found]"]);
        jobs("{}", &["[there are no jobs]"]);
    }
    "a_job_that_does_not_exist_is_named", OPENHANDS, &[] => {
        jobs(r#"{"job": 5}"#, &["there is no job 5. Jobs end when their sandbox is lost"]);
        jobs(r#"{"kill": true}"#, &["job: name the job to end"]);
    }
    "a_flood_is_bounded_also_in_the_background", OURS, &[] => {
        shell(r#"{"command": "yes", "timeout_seconds": 1}"#,
            &["still runs", "[stdout]\ny\n[… the line above comes ", "the log is .sortie/output/1-job.log …]"]);
        shell(r#"{"command": "sleep 1; test $(wc -c < .sortie/output/1-job.log) -le 4194304 && echo bounded"}"#,
            &["bounded\n"]);
        jobs(r#"{"job": 1, "kill": true}"#, &["was killed", "[new output]\n", "left out"]);
    }
    "a_job_ends_before_what_it_left_which_is_killed_on_request", OURS, &[] => {
        shell(r#"{"command": "(while :; do echo x >> beat; sleep 0.05; done) & yes & sleep 2", "background": true}"#,
            &["goes on as job 1"]);
        jobs(r#"{"job": 1, "wait_seconds": 60}"#,
            &["[job 1 exited with status 0 after ", " s; it left processes in the background]\n",
            "[new output]\n"]);
        jobs(r#"{"job": 1, "kill": true}"#,
            &["[job 1 exited with status 0 after ", " s; the processes that it left were killed]\n"]);
        shell(r#"{"command": "cp beat before; sleep 1; cmp beat before && echo dead"}"#, &["[stdout]\ndead\n"]);
    }
    "the_log_of_a_flood_before_the_release_says_how_much_is_left_out", OURS, &[] => {
        shell(r#"{"command": "seq 3000000; sleep 300", "timeout_seconds": 10}"#,
            &["goes on as job 1", "3000000\n"]);
        shell(r#"{"command": "head -n 1 .sortie/output/1-job.log; tail -n +3 .sortie/output/1-job.log | awk 'NR > 1 && $1 != last + 1 { print \"gap\" } { last = $1 } END { print \"last\", last }'"}"#,
            &["[stdout]\n[… 22,", " bytes left out …]\nlast 3000000\n"]);
        jobs(r#"{"job": 1, "kill": true}"#, &["was killed"]);
    }
    "a_followed_file_becomes_a_job", OURS, &[] => {
        shell(r#"{"command": "echo one > log; tail -f log", "timeout_seconds": 1}"#,
            &["goes on as job 1", "one\n"]);
        shell(r#"{"command": "echo two >> log; until grep -q two .sortie/output/1-job.log; do sleep 0.02; done"}"#,
            &["status 0"]);
        jobs(r#"{"job": 1}"#, &["[new output]\ntwo\n"]);
    }
    "a_server_in_the_background_answers_later_commands", OPENHANDS, &["python3", "network"] => {
        shell(r#"{"command": "echo here > index.html; python3 -u -m http.server 8081", "background": true}"#,
            &["goes on as job 1"]);
        shell(r#"{"command": "python3 -c \"\nimport time, urllib.request as u\nfor _ in range(100):\n    try:\n        print(u.urlopen('http://localhost:8081/').read().decode()); break\n    except OSError: time.sleep(0.1)\n\""}"#,
            &["[stdout]\nhere\n"]);
        jobs(r#"{"job": 1, "kill": true}"#, &["was killed", "GET / HTTP/1.1"]);
        shell(r#"{"command": "python3 -m http.server 8081 > server.log 2>&1 & sleep 0.5; jobs | wc -l"}"#,
            &["[stdout]\n1\n"]);
        shell(r#"{"command": "pgrep -fc 'http[.]server 8081' || grep -lz http.server /proc/[0-9]*/cmdline | wc -l"}"#,
            &["1\n"]);
    }
    "a_command_that_leaves_a_process_returns_at_once", OPENHANDS, &[] => {
        shell(r#"{"command": "sleep 300 & echo started"}"#, &["exited with status 0]\n[stdout]\nstarted\n"]);
        jobs("{}", &["[there are no jobs]"]);
    }
};
