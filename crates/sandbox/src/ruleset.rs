//! Landlock ruleset: the access of sandboxed processes to files and to other processes.

use std::path::PathBuf;

use landlock::{
    ABI, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};

/// The newest Landlock version that is requested; an older kernel enforces the rights it knows.
const NEWEST: ABI = ABI::V7;

/// The rules that the kernel enforces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Enforced {
    /// None: this kernel has no Landlock.
    Nothing,
    /// The rules on files; signals can reach processes outside.
    Files,
    /// All of them.
    All,
}

/// Confines this thread and all that it starts: writing is possible only below `writable`, and, if `readable`
/// is given, reading only below those.
pub(super) fn apply(writable: &[PathBuf], readable: Option<&[PathBuf]>) -> Result<Enforced, RulesetError> {
    let writing = AccessFs::from_write(NEWEST) & !AccessFs::IoctlDev;
    let reading = AccessFs::from_read(NEWEST);
    let handled = if readable.is_some() { reading | writing } else { writing };
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(handled)?
        .scope(Scope::AbstractUnixSocket | Scope::Signal)?
        .create()?;
    let mut allow = |places: &[PathBuf], rights: BitFlags<AccessFs>| -> Result<(), RulesetError> {
        for place in places {
            // A deleted path can't be written either.
            let Ok(open) = PathFd::new(place) else { continue };
            let rights = if place.is_dir() { rights } else { rights & AccessFs::from_file(NEWEST) };
            let rules = &mut rules;
            rules.add_rule(PathBeneath::new(open, rights).set_compatibility(CompatLevel::BestEffort))?;
        }
        Ok(())
    };
    allow(writable, handled)?;
    allow(readable.unwrap_or_default(), reading)?;
    let status = rules.restrict_self()?;
    Ok(match status.ruleset {
        RulesetStatus::NotEnforced => Enforced::Nothing,
        // Scopes exist since version 6.
        _ if landlock_version() < 6 => Enforced::Files,
        _ => Enforced::All,
    })
}

/// Returns the Landlock version of this kernel; 0 for none.
#[expect(unsafe_code, reason = "there is no call for it in a library")]
pub(super) fn landlock_version() -> i64 {
    // SAFETY: with this flag the call reads no memory, and gives a number.
    unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<libc::c_void>(), 0, 1) }.max(0)
}
