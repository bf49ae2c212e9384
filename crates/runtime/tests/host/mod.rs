//! The Python host against its wire protocol.
//!
//! `driver.py` is the other end of its socket, and has a function for each of these tests.

use std::{path::Path, process::Command};

fn drive(case: &str) {
    // The system's own Python, if there is one: a version manager's shim takes as long as a whole case.
    let python = if Path::new("/usr/bin/python3").exists() { "/usr/bin/python3" } else { "python3" };
    let driver = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/host/driver.py");
    let ran = Command::new(python).args(["-B", driver, case]).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

macro_rules! cases {
    ($($test:ident: $case:literal,)*) => {
        $(#[test] fn $test() { kit::needs!(Python); drive($case); })*
    };
}

cases! {
    a_module_of_navi_runs_unchanged: "navi_module",
    classes_of_navi_run_unchanged: "navi_class",
    classes_of_navi_find_its_own_modules: "navi_internal",
    tools_of_hyperagents_and_dgm_run_unchanged: "hyperagents",
    classes_of_kohakuterrarium_run_unchanged: "terrarium",
    functions_of_kohakuterrarium_run_unchanged: "terrarium_functions",
    first_of_two_formats_in_a_file_is_taken: "first_format_wins",
    declared_properties_of_calls_are_reported: "declared",
    coroutines_run_at_the_same_time: "calls_side_by_side",
    functions_run_at_the_same_time: "threads_side_by_side",
    a_coroutine_can_be_cancelled: "cancelled",
    a_long_line_arrives_whole: "long_lines",
    what_runs_is_what_was_loaded: "what_runs_is_what_was_loaded",
    the_process_ends_with_its_socket: "ends_with_its_socket",
    printed_output_is_not_an_answer: "prints",
    junk_on_the_socket_is_not_an_answer: "junk_on_descriptors",
    closed_descriptors_keep_no_answer_waiting: "closed_descriptors",
    asking_to_exit_fails_and_exiting_ends: "exits",
    import_error_is_reported_exactly: "broken_at_import",
    a_crash_says_where: "crashes",
    a_long_traceback_is_cut: "recursion",
    a_forked_child_does_not_answer: "forks",
    threads_and_tasks_that_stay_do_no_harm: "threads_and_tasks_left",
    a_changed_process_answers_the_next_call: "changed_process",
    a_patched_library_does_not_reach_the_host: "patched_library",
    a_signal_handler_that_raises_does_not_reach_the_host: "late_signals",
    a_deleted_file_runs_on: "lost_file",
    result_other_than_text_is_reported: "odd_results",
    unusable_description_is_reported: "odd_descriptions",
    calls_within_libraries_are_left_out_of_a_traceback: "library_frames",
    a_result_as_mcp_has_it_is_read: "mcp_results",
    a_call_that_never_ends_ends_with_its_process: "sleeps_and_wakes",
    every_format_is_described: "describes_all",
    what_dies_when_described_is_told: "describes_hostile",
    what_hangs_when_described_is_told_with_its_place: "describes_what_hangs",
    a_description_can_be_stopped: "stops_describing",
    what_one_process_compiled_runs_in_the_next: "compiled_once",
    a_new_file_is_checked_for_all_at_once: "checks",
}
