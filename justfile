# What a contributor runs. `just ci` is exactly what CI runs.

# Format, lints, all tests, doc tests, documentation. Installs what is missing.
ci:
    .ci/run

# All tests, as the README has it.
test:
    cargo test --workspace

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

# The speed table: every figure beside a floor or a peer measured in the same run.
bench:
    cargo build --release -p haft
    cargo run --release -p bench --bin speed
    cargo run --release -p bench --bin grep_speed

# The edit promise on 100,000 random cases.
promise cases="100000":
    cargo run --release -p bench --bin edit_promise -- {{cases}}

# Accept what the model now sees, and what tests now print. Look at the diff.
accept:
    UPDATE_EXPECT=1 cargo test --workspace
