//! Limits in real time. Virtual-time tests check the arithmetic; these check only that the limits are applied.

use super::*;

/// A closed loop for half a second. Returns I/Os per second.
fn rate(text: &str, depth: u64, completion: CompletionMode) -> f64 {
    let mut world = world([drive(text)]);
    world.completion = completion;
    let begin = Instant::now();
    (0..depth).for_each(|n| start(&mut world, n, (0, StepKind::Read, 0), &[(0, 4096)]));
    let mut done = 0;
    while begin.elapsed() < Duration::from_millis(500) {
        let answered = inputs(&mut world, 1);
        done += answered.len();
        for input in answered {
            let Input::Done {
                token,
                result: Ok(()),
            } = input
            else {
                panic!("{input:?}")
            };
            start(&mut world, token.0, (0, StepKind::Read, 0), &[(0, 4096)]);
        }
    }
    done as f64 / begin.elapsed().as_secs_f64()
}

#[test]
fn the_rate_is_about_what_was_asked() {
    // The rate is only bounded above: how far it falls short depends on how busy the machine is.
    for completion in [
        CompletionMode::Interrupt,
        CompletionMode::Polling,
        CompletionMode::Hybrid { poll_ns: 30_000 },
    ] {
        let got = rate("null:1g,read-iops=20k", 32, completion);
        println!("{completion:?}: {got:.0} of 20000 reads per second");
        assert!(got > 0.0 && got < 20_500.0, "{completion:?}: {got}");
    }
}

#[test]
fn latency_is_kept() {
    let mut world = world([drive("ram:1m,latency=5ms")]);
    let begin = Instant::now();
    start(&mut world, 1, (0, StepKind::Read, 0), &[(0, 4096)]);
    succeed(&mut world, 1);
    assert!(begin.elapsed() >= Duration::from_millis(5));
    start_bare(&mut world, 2, 0, StepKind::Flush, (0, 0));
    succeed(&mut world, 2);
    assert!(begin.elapsed() >= Duration::from_millis(10));
}

#[test]
fn no_answer_comes_before_the_model_says() {
    let profile = models::library::with_id("p4510-2tb").unwrap();
    let latency = Duration::from_nanos(profile.read_latency_ns);
    for member in ["ram:1m", "null:1m"] {
        let mut world = world([drive(format!("{member},model=p4510-2tb"))]);
        for token in 0..20 {
            // Longer than the last answer can have been late.
            std::thread::sleep(Duration::from_millis(30));
            let begin = Instant::now();
            start(&mut world, token, (0, StepKind::Read, 0), &[(0, 4096)]);
            succeed(&mut world, token);
            assert!(begin.elapsed() >= latency, "{:?}", begin.elapsed());
        }
    }
}

#[test]
fn held_answers_can_be_cancelled_and_errors_are_not_held() {
    let mut world = world([drive("ram:1m,latency=60s")]);
    start(&mut world, 1, (0, StepKind::Read, 0), &[(0, 4096)]);
    start(&mut world, 2, (0, StepKind::Read, 1 << 20), &[(0, 4096)]);
    assert_eq!(fail(&mut world, 2).class, ErrorClass::Misuse);
    world.detach(MemberId(0));
    world.cancel(Token(1));
    let error = fail(&mut world, 1);
    assert_eq!((error.class, error.errno), (ErrorClass::Path, ECANCELED));
}
