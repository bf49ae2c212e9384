//! Manuals of the built-in tools: text beyond their descriptions, sent on request.

/// Returns the manual of one of haft's own tools.
pub fn manual(tool: &str) -> Option<&'static str> {
    MANUALS.iter().find(|(name, _)| *name == tool).map(|(_, manual)| *manual)
}

/// Every file of `manuals/`, by the name of its tool.
pub const MANUALS: &[(&str, &str)] = &[
    ("bash", include_str!("../manuals/bash.md")),
    ("edit", include_str!("../manuals/edit.md")),
    ("glob", include_str!("../manuals/glob.md")),
    ("grep", include_str!("../manuals/grep.md")),
    ("http_request", include_str!("../manuals/http_request.md")),
    ("image_view", include_str!("../manuals/image_view.md")),
    ("interact", include_str!("../manuals/interact.md")),
    ("model_3d", include_str!("../manuals/model_3d.md")),
    ("notebook_edit", include_str!("../manuals/notebook_edit.md")),
    ("python", include_str!("../manuals/python.md")),
    ("render_3d", include_str!("../manuals/render_3d.md")),
    ("scad_lint", include_str!("../manuals/scad_lint.md")),
    ("shell", include_str!("../manuals/shell.md")),
    ("shell_status", include_str!("../manuals/shell_status.md")),
    #[cfg(feature = "ssh")]
    ("ssh_exec", include_str!("../manuals/ssh_exec.md")),
    ("test_tool", include_str!("../manuals/test_tool.md")),
    ("tree", include_str!("../manuals/tree.md")),
    ("web_fetch", include_str!("../manuals/web_fetch.md")),
    ("web_search", include_str!("../manuals/web_search.md")),
    ("write_tool", include_str!("../manuals/write_tool.md")),
];
