//! `ioctl` requests that ordinary programs make on terminals, sockets and descriptors. Requests that are not listed are refused,
//! because every driver and file system adds more. They are compared on 32 bits: the kernel ignores the rest.

use rustix::io::Errno;

use super::{
    program::{Program, allow_ranges, deny, if_equal, load_low},
    ranges, sorted,
};

const ALLOWED: &[u32] = &[
    // Settings, flow and queues of a terminal, with the calls that C libraries made before and make since: TCGETS to
    // TCSETSF, TCGETA to TCSETAF, TCSBRK, TCXONC, TCFLSH, TCSBRKP, TCGETS2 to TCSETSF2.
    0x5401,
    0x5402,
    0x5403,
    0x5404,
    0x5405,
    0x5406,
    0x5407,
    0x5408,
    0x5409,
    0x540A,
    0x540B,
    0x5425,
    0x802C_542A,
    0x402C_542B,
    0x402C_542C,
    0x402C_542D,
    // The controlling terminal and its groups: TIOCSCTTY, TIOCGPGRP, TIOCSPGRP, TIOCNOTTY, TIOCGSID.
    0x540E,
    0x540F,
    0x5410,
    0x5422,
    0x5429,
    0x5413, // TIOCGWINSZ
    0x5414, // TIOCSWINSZ
    0x5424, // TIOCGETD
    // Both ends of a terminal that a program makes: TIOCPKT, TIOCGPTN, TIOCSPTLCK, TIOCGPKT, TIOCGPTLCK, TIOCGPTPEER.
    0x5420,
    0x8004_5430,
    0x4004_5431,
    0x8004_5438,
    0x8004_5439,
    0x5441,
    // Any descriptor: TIOCOUTQ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX, FIOASYNC, FIOQSIZE.
    0x5411,
    0x541B,
    0x5421,
    0x5450,
    0x5451,
    0x5452,
    0x5460,
    // Questions about sockets and network interfaces: SIOCATMARK, SIOCGIFNAME, SIOCGIFCONF, SIOCGIFFLAGS, SIOCGIFADDR,
    // SIOCGIFDSTADDR, SIOCGIFBRDADDR, SIOCGIFNETMASK, SIOCGIFMETRIC, SIOCGIFMTU, SIOCGIFHWADDR, SIOCGIFINDEX,
    // SIOCGIFTXQLEN.
    0x8905,
    0x8910,
    0x8912,
    0x8913,
    0x8915,
    0x8917,
    0x8919,
    0x891B,
    0x891D,
    0x8921,
    0x8927,
    0x8933,
    0x8942,
    // The sandbox's first process answers questions of the other filter, and has this filter too:
    // SECCOMP_IOCTL_NOTIF_RECV, SECCOMP_IOCTL_NOTIF_SEND, SECCOMP_IOCTL_NOTIF_ID_VALID.
    0xC050_2100,
    0xC018_2101,
    0x4008_2102,
];

/// Requests that programs try and do without if they are unsupported. The allocating ones take disk space at once, as `fallocate`
/// does; the last three of them exist only on XFS.
const UNSUPPORTED: [u32; 11] = [
    0x4004_9409, // FICLONE
    0x4020_940D, // FICLONERANGE
    0x8008_6601, // FS_IOC_GETFLAGS
    0x801C_581F, // FS_IOC_FSGETXATTR
    0xC020_660B, // FS_IOC_FIEMAP
    0x8946,      // SIOCETHTOOL
    0x4030_5828, // FS_IOC_RESVSP
    0x4030_582A, // FS_IOC_RESVSP64
    0x4030_5839, // FS_IOC_ZERO_RANGE
    0x4030_580A, // XFS_IOC_ALLOCSP
    0x4030_5824, // XFS_IOC_ALLOCSP64
];

pub(super) fn ioctl() -> Program {
    let mut program = load_low(1);
    program.extend(allow_ranges(&ranges(sorted(ALLOWED.to_vec()))));
    for request in UNSUPPORTED {
        program.extend(if_equal(request, &[deny(Errno::OPNOTSUPP)], &[]));
    }
    program.push(deny(Errno::PERM));
    program
}
