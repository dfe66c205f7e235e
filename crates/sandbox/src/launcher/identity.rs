//! Identity of a sandbox's processes: the run's user, without groups or capabilities, and unable to gain any.

use rustix::{
    process::{DumpableBehavior, Gid, Uid, set_dumpable_behavior},
    thread::{
        CapabilitiesSecureBits, CapabilitySet, CapabilitySets, clear_ambient_capability_set,
        remove_capability_from_bounding_set, set_capabilities, set_capabilities_secure_bits,
        set_no_new_privs, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
    },
};

use super::{Failure, Step};

/// Becomes the run's user, if it has one; returns the user and group that the process then has.
pub(super) fn become_run_user(user: Option<u32>) -> Result<(u32, u32), Failure> {
    let Some(id) = user else {
        return Ok((
            rustix::process::geteuid().as_raw(),
            rustix::process::getegid().as_raw(),
        ));
    };
    let (uid, gid) = (Uid::from_raw(id), Gid::from_raw(id));
    set_thread_groups(&[]).step("setgroups")?;
    set_thread_res_gid(gid, gid, gid).step("setresgid")?;
    set_thread_res_uid(uid, uid, uid).step("setresuid")?;
    // The change of user revoked access to our own files in /proc, and the id maps are written there.
    set_dumpable_behavior(DumpableBehavior::Dumpable).step("dumpable")?;
    Ok((id, id))
}

/// Drops every capability permanently, and every means to gain one.
pub(super) fn drop_all_rights() -> Result<(), Failure> {
    for capability in (0..64).filter_map(|bit| CapabilitySet::from_bits(1 << bit)) {
        match remove_capability_from_bounding_set(capability) {
            // Beyond the last one that the kernel knows.
            Ok(()) | Err(rustix::io::Errno::INVAL) => {}
            Err(errno) => return Err(errno).step("bounding set"),
        }
    }
    clear_ambient_capability_set().step("ambient set")?;
    let bits = CapabilitiesSecureBits::NO_ROOT
        | CapabilitiesSecureBits::NO_ROOT_LOCKED
        | CapabilitiesSecureBits::NO_SETUID_FIXUP
        | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED
        | CapabilitiesSecureBits::KEEP_CAPS_LOCKED;
    set_capabilities_secure_bits(bits).step("securebits")?;
    clear_capabilities()?;
    set_no_new_privs(true).step("no_new_privs")
}

/// Drops the current capabilities. Together with `no_new_privs` this suffices for a process that may not change its bounding set.
pub(super) fn clear_capabilities() -> Result<(), Failure> {
    let none = CapabilitySet::empty();
    set_capabilities(
        None,
        CapabilitySets {
            effective: none,
            permitted: none,
            inheritable: none,
        },
    )
    .step("capset")
}
