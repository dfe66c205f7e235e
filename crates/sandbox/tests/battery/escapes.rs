//! Rows 1 to 42, 70, 72 and 73: everything that must not work, tried by the helper from inside, against a host that has all of
//! it.

use std::{
    fs,
    net::{Ipv4Addr, TcpListener, UdpSocket},
    os::{
        linux::net::SocketAddrExt,
        unix::{
            fs::PermissionsExt,
            net::{SocketAddr, UnixDatagram, UnixListener},
        },
    },
    path::Path,
};

use sortie_sandbox::{ExitKind, Finished, Limits, Workdir};

use crate::{
    egress::{Proxy, refuses_a_way_out, way_out},
    harness::{Bed, Section, folder, out, tell},
};

/// Attempts of the helper: fewer mean that it did not reach its end.
const ATTEMPTS: usize = 185;
const EGRESS_ATTEMPTS: usize = 19;

pub(crate) fn nothing_that_must_not_work_works(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let outside = Outside::make(bed);
        let mut run = bed.open("run_1", Limits::default()).await;
        let words = std::iter::once("escape".to_owned()).chain(outside.facts.clone());
        let finished = run.probe(words).await;
        nothing_worked(bed, &finished, attempts(bed));
        outside.heard_nothing();
        run.end().await;
    })
}

pub(crate) fn attempts(bed: &Bed) -> usize {
    if bed.has_namespaces() {
        ATTEMPTS
    } else {
        ATTEMPTS - 10
    }
}

/// Checks what the helper reports.
pub(crate) fn nothing_worked(bed: &Bed, finished: &Finished, attempts: usize) {
    let report = out(finished);
    assert_eq!(
        finished.exit,
        ExitKind::Code(0),
        "{report}{}",
        String::from_utf8_lossy(&finished.stderr.head)
    );
    assert!(report.ends_with("end\n"), "it did not come to its end:\n{report}");
    let (mut held, mut open) = (0, Vec::new());
    for line in report.lines() {
        match line.split('\t').next().unwrap() {
            "held" => held += 1,
            "NOT CHECKED" => bed.not_checked(line),
            "OPEN" => open.push(line),
            _ => {}
        }
    }
    assert!(
        open.is_empty(),
        "{} attempts worked:\n{}",
        open.len(),
        open.join("\n")
    );
    tell(&format!("{}: {held} attempts held\n", bed.test));
    assert!(held >= attempts, "only {held} attempts were made:\n{report}");
}

pub(crate) fn with_a_way_out_nothing_else_works_either(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        if !bed.has_namespaces() {
            return refuses_a_way_out(bed).await;
        }
        let outside = Outside::make(bed);
        let mut run = bed.open_with("run_1", way_out()).await;
        let mut proxy = Proxy::of(&mut run).await;
        let facts = ["escape".to_owned(), "proxy=the proxy of run_1".to_owned()];
        let words = facts.into_iter().chain(outside.facts.clone());
        let finished = tokio::select! {
            finished = run.probe(words) => finished,
            () = proxy.answer("the proxy of run_1") => unreachable!(),
        };
        nothing_worked(bed, &finished, ATTEMPTS + EGRESS_ATTEMPTS);
        outside.heard_nothing();
        run.end().await;
    })
}

/// A host with everything that an escape would find.
pub(crate) struct Outside {
    pub(crate) facts: Vec<String>,
    tcp: Vec<TcpListener>,
    udp: UdpSocket,
    datagram: UnixDatagram,
    unix: Vec<UnixListener>,
    _other: Workdir,
    _folder: tempfile::TempDir,
    queue: String,
    key: i32,
}

impl Outside {
    #[expect(unsafe_code, reason = "System V memory has no safe wrapper")]
    pub(crate) fn make(bed: &Bed) -> Self {
        let place = folder();
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let secret = place.path().join("secret");
        fs::write(&secret, "secret").unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
        let other = Workdir::create(&bed.runs(), "run_2").unwrap();
        other
            .write(&sortie_sandbox::RelPath::new("file").unwrap(), b"theirs")
            .unwrap();
        let tcp4 = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        let port = tcp4.local_addr().unwrap().port();
        let tcp6 = TcpListener::bind(("::1", port)).ok();
        let udp = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        udp.set_nonblocking(true).unwrap();
        let name = format!("sortie-battery-{}", std::process::id());
        let abstract_socket =
            UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let path = place.path().join("socket");
        let socket = UnixListener::bind(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        let datagram = UnixDatagram::bind(place.path().join("datagram")).unwrap();
        fs::set_permissions(place.path().join("datagram"), fs::Permissions::from_mode(0o777)).unwrap();
        datagram.set_nonblocking(true).unwrap();
        let key = i32::try_from(std::process::id()).unwrap() | 0x5000_0000;
        // SAFETY: makes a segment, which is removed again by its key.
        let segment = unsafe { libc::shmget(key, 4_096, libc::IPC_CREAT | 0o666) };
        let queue = format!("/{name}");
        fs::write(format!("/dev/shm{queue}"), "theirs").unwrap();
        let queue_name = std::ffi::CString::new(queue.clone()).unwrap();
        // SAFETY: the name lives through the call; the queue is removed again by it.
        let made = unsafe {
            libc::mq_open(
                queue_name.as_ptr(),
                libc::O_CREAT | libc::O_RDWR,
                0o666,
                std::ptr::null::<libc::mq_attr>(),
            )
        };
        if segment < 0 || made < 0 {
            bed.not_checked("shared memory and message queues of the host: none could be made");
        }
        let mut facts = vec![
            format!("level={}", bed.pass.level.as_str()),
            format!("pid={}", std::process::id()),
            format!("secret={}", secret.display()),
            format!("other={}", bed.runs().join("run_2").display()),
            format!("outside-file={}", place.path().join("linked").display()),
            format!("tcp={port}"),
            format!("udp={}", udp.local_addr().unwrap().port()),
            format!("abstract={name}"),
            format!("socket={}", path.display()),
            format!("queue={queue}"),
            format!("datagram={}", place.path().join("datagram").display()),
            format!("memory={}", bed.backend.capabilities().memory.as_str()),
        ];
        if segment >= 0 {
            facts.push(format!("shm-key={key}"));
        }
        match own_address() {
            Some(address) => facts.push(format!("address={address}")),
            None => bed.not_checked("the host's own address: it has none"),
        }
        let mut tcp = vec![tcp4];
        tcp.extend(tcp6);
        let unix = vec![abstract_socket, socket];
        Self {
            facts,
            tcp,
            udp,
            datagram,
            unix,
            _other: other,
            _folder: place,
            queue,
            key,
        }
    }

    /// No listener on the host was reached.
    pub(crate) fn heard_nothing(&self) {
        for listener in &self.tcp {
            listener.set_nonblocking(true).unwrap();
            assert!(listener.accept().is_err(), "a TCP connection came out");
        }
        for listener in &self.unix {
            listener.set_nonblocking(true).unwrap();
            assert!(listener.accept().is_err(), "a unix connection came out");
        }
        assert!(self.udp.recv(&mut [0; 16]).is_err(), "a datagram came out");
        assert!(
            self.datagram.recv(&mut [0; 16]).is_err(),
            "a unix datagram came out"
        );
    }
}

impl Drop for Outside {
    #[expect(unsafe_code, reason = "System V memory has no safe wrapper")]
    fn drop(&mut self) {
        let _gone = fs::remove_file(Path::new("/dev/shm").join(self.queue.trim_start_matches('/')));
        let queue = std::ffi::CString::new(self.queue.clone()).unwrap();
        // SAFETY: removes what `make` made, by name and key; touches no memory of ours.
        unsafe {
            libc::mq_unlink(queue.as_ptr());
            let segment = libc::shmget(self.key, 0, 0);
            libc::shmctl(segment, libc::IPC_RMID, std::ptr::null_mut());
        }
    }
}

/// The source address of this machine; nothing is sent.
fn own_address() -> Option<std::net::IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_unspecified()).then_some(address)
}
