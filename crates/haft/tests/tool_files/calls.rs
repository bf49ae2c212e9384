//! Does a call of a Python tool do what was asked?

use crate::support::{House, navi};

#[tokio::test]
async fn a_module_keeps_its_state_from_call_to_call() {
    let (name, code) = navi("count", "global calls\ncalls += 1\nreturn f'call {calls}'");
    let house = House::new(&[(name, format!("calls = 0\n{code}"))]);
    assert_eq!(house.says("count").await, "call 1");
    assert_eq!(house.says("count").await, "call 2");
}
