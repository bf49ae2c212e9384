//! The tables in docs/seeds.md: every test that a row names is in the file that it names.

use std::{fs, path::Path};

use super::page::REPOSITORY;

#[test]
fn tables_of_promises_name_tests_that_exist() {
    let repository = Path::new(REPOSITORY);
    let page = fs::read_to_string(repository.join("docs/seeds.md")).unwrap();
    let mut count = 0;
    for row in page.lines().filter(|line| line.starts_with("| ")) {
        let cell = row.trim_end_matches([' ', '|']).rsplit(" | ").next().unwrap();
        let named: Vec<&str> = cell.split('`').skip(1).step_by(2).collect();
        let files = named.iter().enumerate().filter(|(_, it)| it.ends_with(".rs"));
        for (at, file) in files {
            let source = fs::read_to_string(repository.join(file))
                .unwrap_or_else(|error| panic!("{file}: {error}, in the row\n{row}"));
            // Names of tools stand there too.
            let is_test = |it: &&&str| it.matches('_').count() > 1 && !it.contains([' ', '.']);
            let tests = named.iter().skip(at + 1).take_while(|it| !it.ends_with(".rs")).filter(is_test);
            let tests: Vec<_> = tests.collect();
            assert!(!tests.is_empty(), "{file} is named without a test: {row}");
            for test in tests {
                assert!(source.contains(&format!("fn {test}(")), "{file} has no test `{test}`: {row}");
                count += 1;
            }
        }
    }
    assert!(count > 60, "{count} tests are named");
}
