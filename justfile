# Recipes for contributors. `just ci` is exactly what CI runs.

# Format, lints, features, documentation, all tests, a real agent, MCP conformance. Installs missing programs.
ci:
    .ci/run

# All tests, strict: installs missing programs (Debian).
test *arguments:
    ./test {{arguments}}

# All tests whose programs are there; the others are listed as skipped.
try *arguments:
    cargo test --workspace {{arguments}}

# Formatting and lints only.
lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings

# The official MCP conformance suite, server and client, both sets of requirements.
conformance *scenarios:
    crates/conformance/run {{scenarios}}

# Licences, advisories, duplicate crates (needs cargo-deny).
deny:
    cargo deny check

# The speed table: each figure beside a floor or a peer measured in the same run.
bench:
    cargo build --release -p haft
    cargo run --release -p bench --bin speed
    cargo run --release -p bench --bin grep_speed

# The edit promise on 100,000 random cases.
promise cases="100000":
    cargo run --release -p bench --bin edit_promise -- {{cases}}

# Update all snapshots. Review the diff.
accept:
    UPDATE_EXPECT=1 cargo test --workspace
