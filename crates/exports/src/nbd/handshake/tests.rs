use super::*;
use crate::nbd::exercise::{Delivery, Transcript, run, run_every_way, sample_exports};
use crate::nbd::script::{GREETING, ack, client_flags, info_data, option, option_replies};
use crate::nbd::{Accept, Command, Phase, Refusal, Session, Sink};

/// Sends options after the usual client flags.
fn negotiate(options: &[Vec<u8>]) -> Transcript {
    run_every_way(
        &sample_exports(),
        &[client_flags(3), options.concat()].concat(),
    )
}

#[test]
fn greets_first() {
    let transcript = run_every_way(&sample_exports(), &[]);
    assert_eq!(transcript.output, GREETING);
    assert_eq!(transcript.phase, Phase::Handshake);
}

#[test]
fn unknown_client_flags_end_the_session() {
    let transcript = run_every_way(&sample_exports(), &client_flags(7));
    assert_eq!(
        transcript.error,
        Some(ProtocolError::ClientFlags { flags: 7 })
    );
    assert_eq!(transcript.phase, Phase::Ended);
}

#[test]
fn a_client_without_fixed_newstyle_may_only_name_an_export() {
    let input = [client_flags(0), option(OPT_LIST, &[])].concat();
    let transcript = run_every_way(&sample_exports(), &input);
    let expected = ProtocolError::OptionNeedsFixedNewstyle { option: OPT_LIST };
    assert_eq!(transcript.error, Some(expected));
}

#[test]
fn long_options_are_skipped_and_endless_ones_end_the_session() {
    let long = option(OPT_GO, &vec![0; MAX_OPTION_DATA_BYTES as usize + 1]);
    let input = [client_flags(3), long, option(OPT_ABORT, &[])].concat();
    for piece_bytes in [usize::MAX, 1000, 1] {
        let delivery = Delivery {
            piece_bytes,
            freezes: true,
            ..Delivery::AT_ONCE
        };
        let transcript = run(&sample_exports(), &input, delivery);
        let replies = option_replies(&transcript.output);
        assert_eq!((replies[0].0, replies[0].1), (OPT_GO, REP_ERR_TOO_BIG));
        assert_eq!(replies[1..], [ack(OPT_ABORT)]);
    }
    let mut endless = option(OPT_LIST, &[]);
    endless[12..].copy_from_slice(&(MAX_SKIPPED_OPTION_BYTES + 1).to_be_bytes());
    let error = negotiate(&[endless]).error.unwrap();
    assert!(matches!(
        error,
        ProtocolError::OptionTooLong {
            option: OPT_LIST,
            ..
        }
    ));
}

#[test]
fn negotiation_has_an_end() {
    let list = option(OPT_STARTTLS, &[]);
    let input = [client_flags(3), list.repeat(MAX_OPTIONS as usize + 1)].concat();
    let transcript = run(&sample_exports(), &input, Delivery::AT_ONCE);
    assert_eq!(
        transcript.error,
        Some(ProtocolError::TooManyOptions { limit: MAX_OPTIONS })
    );
    assert_eq!(
        option_replies(&transcript.output).len(),
        MAX_OPTIONS as usize
    );
}

#[test]
fn garbage_instead_of_an_option_ends_the_session() {
    let transcript = negotiate(&[b"GET / HTTP/1.1\r\n".to_vec()]);
    let found = u64::from_be_bytes(*b"GET / HT");
    assert_eq!(transcript.error, Some(ProtocolError::OptionMagic { found }));
    let text = transcript.error.unwrap().to_string();
    assert_eq!(
        text,
        "an option starts with 0x474554202f204854 instead of 0x49484156454f5054"
    );
}

/// A sink for sessions that never get beyond the handshake.
struct NoCommands;

impl Sink for NoCommands {
    fn command(&mut self, command: Command) -> Accept {
        panic!("{command:?} during the handshake");
    }
    fn refusal(&mut self, refusal: Refusal) -> Accept {
        panic!("{refusal:?} during the handshake");
    }
    fn payload(&mut self, bytes: &[u8], _remaining_bytes: u32) {
        panic!("{} bytes of payload during the handshake", bytes.len());
    }
}

fn session_after_flags(shutting_down: bool) -> Session {
    let mut session = Session::new(sample_exports());
    assert_eq!(
        session.feed(&client_flags(3), &mut NoCommands),
        Ok(0),
        "the greeting comes first"
    );
    assert_eq!(session.take_output().as_deref(), Some(GREETING));
    assert_eq!(session.feed(&client_flags(3), &mut NoCommands), Ok(4));
    if shutting_down {
        session.begin_shutdown();
    }
    session
}

#[test]
fn one_reply_at_a_time() {
    let mut session = session_after_flags(false);
    let list = option(OPT_LIST, &[]);
    let many = list.repeat(100);
    assert_eq!(session.feed(&many, &mut NoCommands), Ok(list.len()));
    assert_eq!(session.feed(&many, &mut NoCommands), Ok(0));
    assert!(session.take_output().is_some());
    assert_eq!(session.take_output(), None);
    assert_eq!(session.feed(&many, &mut NoCommands), Ok(list.len()));
}

#[test]
fn a_server_that_shuts_down_says_so() {
    let go = option(OPT_GO, &info_data("vol0", &[]));
    for refused in [go, option(OPT_LIST, &[]), option(OPT_STARTTLS, b"x")] {
        let mut session = session_after_flags(true);
        assert_eq!(session.feed(&refused, &mut NoCommands), Ok(refused.len()));
        let output = session.take_output().unwrap();
        assert_eq!(output[12..16], REP_ERR_SHUTDOWN.to_be_bytes());
        assert_eq!(session.phase(), Phase::Handshake);
    }
    let mut session = session_after_flags(true);
    assert!(
        session
            .feed(&option(OPT_ABORT, &[]), &mut NoCommands)
            .is_ok()
    );
    assert_eq!(
        session.take_output().unwrap()[12..16],
        REP_ACK.to_be_bytes()
    );
    assert_eq!(session.phase(), Phase::Ended);
    let mut session = session_after_flags(true);
    let result = session.feed(&option(OPT_EXPORT_NAME, b"vol0"), &mut NoCommands);
    assert_eq!(result, Err(ProtocolError::ShuttingDown));
    assert_eq!(session.phase(), Phase::Ended);
}
