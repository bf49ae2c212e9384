//! The tools of navi-1, under its names, as far as there are any here.

mod terminal;

use std::sync::Arc;

use kit::{AnyTool, erase};

use crate::code;

pub(super) fn tools() -> Vec<Arc<dyn AnyTool>> {
    vec![erase::<terminal::Terminal>(), erase::<code::CodeExec>()]
}
