use super::*;
use crate::export::Messages;
use crate::export::Surroundings;
use crate::nbd::server::tests::rig::Rig;
use crate::nbd::service::{NbdExport, TcpClients};
use drives::port::PortNumber;
use engine::units::VolumeId;
use rustix::net::SocketType;
use std::net::TcpStream;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What was said, and which names the service manager was told to forget.
#[derive(Clone, Default)]
struct Heard {
    said: Arc<Mutex<Vec<String>>>,
    forgotten: Arc<Mutex<Vec<String>>>,
}

impl Heard {
    fn say(&self) -> Say {
        let said = self.said.clone();
        Arc::new(move |sentence| said.lock().unwrap().push(sentence.to_string()))
    }

    fn read(&self, descriptors: Vec<Named>) -> Left {
        let forgotten = self.forgotten.clone();
        let forget: Forget = Arc::new(move |name| forgotten.lock().unwrap().push(name.to_owned()));
        let inherited = Inherited {
            descriptors,
            forget,
        };
        Left::read(inherited, &self.say())
    }

    fn said(&self) -> Vec<String> {
        self.said.lock().unwrap().clone()
    }

    fn forgotten(&self) -> Vec<String> {
        self.forgotten.lock().unwrap().clone()
    }
}

fn offer(name: &str, identity: u8) -> Offer {
    Offer {
        volume: VolumeId(0),
        name: name.to_owned(),
        identity: [identity; 16],
        description: String::new(),
        size_bytes: 1 << 30,
        block_bytes: 4096,
        chunk_bytes: 64 << 10,
        row_bytes: 128 << 10,
        read_only: false,
        discards: false,
    }
}

fn connection(volume: u8, is_kernels: bool) -> ConnectionNote {
    let rules = crate::nbd::command::Rules {
        size_bytes: 1 << 30,
        minimum_block_bytes: 4096,
        maximum_payload_bytes: 1 << 20,
        transmission_flags: 1,
        block_status: false,
    };
    let session = Frozen::Transmission(crate::nbd::frozen::FrozenTransmission {
        export: "vol0".to_owned(),
        structured_replies: false,
        rules,
        partial_header: Vec::new(),
        discarded_bytes: 0,
    });
    ConnectionNote {
        volume: [volume; 16],
        is_kernels,
        session,
    }
}

fn socket() -> (UnixStream, OwnedFd) {
    let (client, server) = UnixStream::pair().unwrap();
    (client, server.into())
}

fn is_closed(client: &UnixStream) -> bool {
    client.set_nonblocking(true).unwrap();
    matches!((&mut &*client).read(&mut [0]), Ok(0))
}

#[test]
fn each_client_goes_to_its_volume_under_its_present_name() {
    let heard = Heard::default();
    let note = Note {
        listeners: Vec::new(),
        connections: vec![
            connection(1, false),
            connection(1, true),
            connection(2, false),
        ],
    };
    let (clients, sockets): (Vec<_>, Vec<_>) = (0..3).map(|_| socket()).unzip();
    let mut descriptors: Vec<Named> = (0..)
        .zip(sockets)
        .map(|(at, socket)| (Kept::Connection(at).name(), socket))
        .collect();
    descriptors.push((Kept::Note.name(), written(&note).unwrap()));
    let (_other, others) = socket();
    descriptors.push(("another-service".to_owned(), others));
    let mut left = heard.read(descriptors);
    assert!(heard.forgotten().is_empty(), "another start may need them");
    left.begin();
    assert_eq!(heard.forgotten().len(), 4);
    let offers = [offer("renamed", 1)];
    let device = left.of_device(&offers[0]);
    let served = left.clients(&offers, &heard.say());
    assert_eq!((device.len(), served.len()), (1, 1));
    for one in device.iter().chain(&served) {
        let Frozen::Transmission(session) = &one.note.session else {
            panic!("it sends requests");
        };
        assert_eq!(session.export, "renamed");
    }
    assert_eq!(
        clients.iter().map(is_closed).collect::<Vec<_>>(),
        [false, false, true]
    );
    assert_eq!(
        heard.said(),
        [
            "an NBD client of the server before was disconnected: volume vol0 is not served any more; it has to connect again"
        ]
    );
}

#[test]
fn without_a_note_that_can_be_read_all_is_closed() {
    let beginning = "the sockets of the server before are closed, and its NBD clients have to connect again: the note about \
                     them cannot be used: ";
    let mut newer = Note::default().to_bytes();
    newer[9] = 9;
    let file = |bytes: &[u8]| {
        let file = tempfile::tempfile().unwrap();
        (&file).write_all(bytes).unwrap();
        OwnedFd::from(file)
    };
    for (note, what) in [
        (None, "it is missing"),
        (
            Some(file(&newer)),
            "it has version 9, and this program knows 1",
        ),
        (Some(file(b"FSNBDNOT")), "it is damaged: it ends too early"),
    ] {
        let heard = Heard::default();
        let (client, server) = socket();
        let mut descriptors = vec![(Kept::Connection(0).name(), server)];
        descriptors.extend(note.map(|note| (Kept::Note.name(), note)));
        let count = descriptors.len();
        let mut left = heard.read(descriptors);
        assert!(is_closed(&client));
        assert_eq!(heard.said(), [format!("{beginning}{what}")]);
        assert_eq!(heard.forgotten().len(), count);
        assert!(left.clients(&[], &heard.say()).is_empty());
    }
}

#[test]
fn a_listening_socket_is_adopted_if_it_is_still_that_of_its_address() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nbd");
    let address = format!("unix:{}", path.display());
    let (claimed, listener) = ClaimedSocket::claim(&path, "--nbd").unwrap();
    let file = claimed.file();
    claimed.leave();
    let left = |heard: &Heard, file, socket: OwnedFd| {
        let address = address.clone();
        let listeners = vec![ListenerNote { address, file }];
        let note = Note {
            listeners,
            connections: Vec::new(),
        };
        heard.read(vec![
            (Kept::Listener(0).name(), socket),
            (Kept::Note.name(), written(&note).unwrap()),
        ])
    };
    let heard = Heard::default();
    let copy = || OwnedFd::from(listener.try_clone().unwrap());
    assert!(
        left(&heard, file, copy())
            .unix(&address, &path)
            .is_some_and(|(claimed, _)| {
                claimed.leave();
                true
            })
    );
    assert!(heard.forgotten().is_empty());
    // Another file is there by now, another address is asked for, or the socket does not listen.
    let other = (file.0, file.1 + 1);
    assert!(left(&heard, other, copy()).unix(&address, &path).is_none());
    assert_eq!(heard.forgotten(), ["nbd-listener-0"]);
    let mut elsewhere = left(&heard, file, copy());
    assert!(
        elsewhere
            .unix("unix:/elsewhere", Path::new("/elsewhere"))
            .is_none()
    );
    elsewhere.close_listeners_except(std::slice::from_ref(&address));
    assert_eq!(heard.forgotten().len(), 1);
    let other = UnixListener::bind(folder.path().join("other")).unwrap();
    let mut other = left(&heard, file, other.into());
    other.close_listeners_except(&["unix:/elsewhere".to_owned()]);
    assert_eq!(heard.forgotten().len(), 2);
    let deaf = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
    assert!(left(&heard, file, deaf).unix(&address, &path).is_none());
}

/// Makes an export that listens at one address, with what was left at another address. Returns its URI.
fn listens(address: &str, left_at: &str, file: (u64, u64), socket: OwnedFd) -> String {
    let note = Note {
        listeners: vec![ListenerNote {
            address: left_at.to_owned(),
            file,
        }],
        connections: Vec::new(),
    };
    let inherited = Inherited {
        descriptors: vec![
            (Kept::Listener(0).name(), socket),
            (Kept::Note.name(), written(&note).unwrap()),
        ],
        forget: Arc::new(|_| {}),
    };
    let bind = NbdExport::bind(
        vec![address.parse().unwrap()],
        TcpClients::Everybody,
        Duration::from_secs(30),
        inherited,
    );
    let surroundings = Surroundings {
        socket_folder: "/nowhere".into(),
        say: Arc::new(|sentence| panic!("{sentence}")),
    };
    let export = (bind.make)(&surroundings).unwrap();
    export.addresses("vol0").remove(0)
}

/// The service manager has a copy of the listening socket, and closes it late.
#[test]
fn an_address_may_be_written_in_another_way_than_before() {
    let before = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = before.local_addr().unwrap().port();
    let copy = before.try_clone().unwrap();
    let uri = listens(
        &format!("tcp:127.0.0.1:{port}"),
        &format!("tcp:0.0.0.0:{port}"),
        (0, 0),
        before.into(),
    );
    assert_eq!(uri, format!("nbd://127.0.0.1:{port}/vol0"));
    drop(copy);
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().display();
    let path = format!("{folder}/nbd");
    let (claimed, before) = ClaimedSocket::claim(Path::new(&path), "--nbd").unwrap();
    let file = claimed.file();
    claimed.leave();
    let copy = before.try_clone().unwrap();
    let uri = listens(
        &format!("unix:{folder}/./nbd"),
        &format!("unix:{path}"),
        file,
        before.into(),
    );
    assert!(uri.starts_with("nbd+unix:///vol0?socket="), "{uri}");
    drop(copy);
}

#[test]
fn after_a_note_that_cannot_be_read_no_copy_of_a_socket_listens() {
    let heard = Heard::default();
    let before = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = before.local_addr().unwrap();
    let _copy = before.try_clone().unwrap();
    heard.read(vec![(Kept::Listener(0).name(), before.into())]);
    assert_eq!(heard.said().len(), 1);
    TcpListener::bind(address).unwrap();
}

/// A lost message to the service manager has left it a descriptor of an older note.
#[test]
fn a_name_that_occurs_twice_makes_the_note_useless() {
    let heard = Heard::default();
    let note = Note {
        listeners: Vec::new(),
        connections: vec![connection(1, false)],
    };
    let (clients, sockets): (Vec<_>, Vec<_>) = (0..2).map(|_| socket()).unzip();
    let descriptors = sockets
        .into_iter()
        .map(|socket| (Kept::Connection(0).name(), socket))
        .chain([(Kept::Note.name(), written(&note).unwrap())]);
    heard.read(descriptors.collect());
    assert!(clients.iter().all(is_closed));
    let [sentence] = &heard.said()[..] else {
        panic!("one sentence");
    };
    let reason =
        "cannot be used: the service manager has kept two descriptors named nbd-connection-0";
    assert!(sentence.ends_with(reason), "{sentence}");
}

/// What a client that has come over TCP gets from the server after one of this address, and what that server says.
fn goes_on(address: &str) -> (std::io::Result<[u8; 20]>, Vec<String>) {
    let before = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = TcpStream::connect(before.local_addr().unwrap()).unwrap();
    let (socket, _) = before.accept().unwrap();
    let note = Note {
        listeners: Vec::new(),
        connections: vec![ConnectionNote {
            volume: [0; 16],
            is_kernels: false,
            session: Frozen::Handshake { said: Vec::new() },
        }],
    };
    let inherited = Inherited {
        descriptors: vec![
            (Kept::Connection(0).name(), socket.into()),
            (Kept::Note.name(), written(&note).unwrap()),
        ],
        forget: Arc::new(|_| {}),
    };
    let address = address.parse().unwrap();
    let deadline = Duration::from_secs(30);
    let bind = NbdExport::bind(vec![address], TcpClients::Everybody, deadline, inherited);
    let heard = Heard::default();
    let surroundings = Surroundings {
        socket_folder: "/nowhere".into(),
        say: heard.say(),
    };
    let rig = Rig::with(|_| ());
    let messages = Messages::new(rig.peers.clone(), PortNumber::new(1));
    let mut export = (bind.make)(&surroundings).unwrap();
    export.open(&messages, &[]).unwrap();
    let mut answer = [0; 20];
    // The client's flags, and the option to list the volumes.
    let said = client
        .write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x03\0\0\0\0")
        .and_then(|()| client.read_exact(&mut answer));
    (said.map(|()| answer), heard.said())
}

#[test]
fn a_client_over_tcp_is_left_out_where_nobody_may_come_over_tcp() {
    let (answer, said) = goes_on("tcp:127.0.0.1:0");
    assert_eq!(answer.unwrap()[12..16], 2u32.to_be_bytes(), "a volume");
    assert!(said.is_empty(), "{said:?}");
    let folder = tempfile::tempdir().unwrap();
    let (answer, said) = goes_on(&format!("unix:{}/nbd", folder.path().display()));
    assert!(answer.is_err());
    assert_eq!(
        said,
        [
            "an NBD client of the server before was disconnected: this server lets nobody in over TCP without TLS"
        ]
    );
}
