//! What holds for every array and every text.

use super::*;
use proptest::prelude::*;

fn any_array() -> impl Strategy<Value = ArraySettings> {
    let uuid = prop::collection::vec("[0-9a-f]{8}", 4).prop_map(|words| words.join(":"));
    let attach = prop::sample::select(Attach::ALL.to_vec());
    let nbd = prop::collection::btree_set("(unix:/|tcp:)[a-z \"\\\\é]{1,9}", 0..3);
    let completion = prop_oneof![
        Just(CompletionMode::Interrupt),
        Just(CompletionMode::Polling),
        (0..=1_000_000u64).prop_map(|us| CompletionMode::Hybrid { poll_ns: us * 1000 })
    ];
    let spares = prop::collection::vec("/[^,]{0,9}", 0..3);
    let numbers = (1..=16u8, 1..=i64::MAX as u64, 1..=3600u64, 0..=3600u64);
    let rate = prop::option::of(0..=i64::MAX as u64);
    let scrub_every = prop::option::of(prop_oneof![
        Just(ScrubPeriod::Off),
        (1..=SCRUB_EVERY_MAX_S).prop_map(ScrubPeriod::Seconds)
    ]);
    let on_event = prop::option::of("[^\0]{0,9}x");
    let vhost_user = prop::option::of("/[a-z \"\\\\é]{0,9}");
    let nvmet = prop::option::of((
        any::<std::net::IpAddr>(),
        1..=u16::MAX,
        prop::collection::btree_set("nqn[.][a-z\"\\\\:]{0,9}", 0..3),
    ));
    let truths = any::<(bool, bool, bool)>();
    let texts = (uuid, attach, nbd, spares, completion);
    (
        texts,
        numbers,
        (rate, scrub_every, vhost_user, nvmet),
        on_event,
        truths,
    )
        .prop_map(
            |(
                (uuid, attach, nbd, spares, completion),
                numbers,
                (rate, scrub_every, vhost_user, nvmet),
                on_event,
                truths,
            )| {
                let has_tcp = nbd.iter().any(|text| text.starts_with("tcp:"));
                let nvmet = nvmet.filter(|_| !matches!(attach, Attach::Off | Attach::Nbd));
                let address = |(ip, port, _): &(std::net::IpAddr, u16, _)| NvmetAddress {
                    ip: *ip,
                    port: *port,
                };
                let hosts = nvmet.iter().flat_map(|(_, _, hosts)| hosts.iter().cloned());
                let tls = Some("/etc/tls".into()).filter(|_| has_tcp && truths.0);
                ArraySettings {
                    uuid,
                    attach,
                    nbd: nbd.iter().map(|text| text.parse().unwrap()).collect(),
                    insecure: tls.is_none() && (has_tcp || truths.0),
                    tls,
                    vhost_user: vhost_user.map(Into::into),
                    nvmet: nvmet.as_ref().map(address),
                    nvmet_insecure: nvmet.as_ref().is_some_and(|(_, _, hosts)| hosts.is_empty()),
                    nvmet_hosts: hosts.collect(),
                    spares,
                    shards: numbers.0,
                    memory_bytes: numbers.1,
                    completion,
                    rate_bytes_per_s: rate,
                    scrub_every,
                    deadline_s: numbers.2,
                    auto_rebuild: truths.1,
                    same_bay: SameBay::ALL[usize::from(truths.2)],
                    on_event,
                    degraded_after_s: numbers.3,
                }
            },
        )
}

proptest! {
    #[test]
    fn what_is_shown_reads_as_the_same_settings_but_for_commands(array in any_array()) {
        let settings = Settings { arrays: [("a.b".to_owned(), array)].into(), ..Settings::default() };
        let shown = as_toml(&settings);
        let mut settings = settings;
        settings.arrays.values_mut().for_each(|array| array.on_event = None);
        prop_assert_eq!(parse(&shown).map_err(|error| TestCaseError::fail(error.to_string()))?, settings);
    }

    #[test]
    fn arbitrary_text_gives_one_sentence(text in "\\PC*") {
        check_arbitrary(&text)?;
    }

    #[test]
    fn arbitrary_values_give_one_sentence(at in 0..KEYS.len(), text in "[\\PC\n]{0,20}") {
        check_arbitrary(&format!("{}{} = {text}", block(""), KEYS[at]))?;
        check_arbitrary(&block(&text))?;
        check_arbitrary(&format!("[array.{text}]"))?;
        check_arbitrary(&format!("[alerts]\n{} = {text}", ALERT_KEYS[at % ALERT_KEYS.len()]))?;
    }
}

fn check_arbitrary(text: &str) -> Result<(), TestCaseError> {
    match parse(text) {
        Err(error) => {
            let sentence = format!("{error:#}");
            prop_assert!(!sentence.contains('\n'), "{sentence}");
        }
        Ok(settings) => {
            for (name, array) in &settings.arrays {
                let may_lack = [
                    "tls",
                    "rate",
                    "scrub_every",
                    "on_event",
                    "vhost_user",
                    "nvmet",
                ];
                let mut certain = KEYS.iter().filter(|key| !may_lack.contains(key));
                prop_assert!(certain.all(|key| value(array, key).is_some()));
                if let Ok(less) = without_array(text, "file", name) {
                    prop_assert!(less.len() < text.len());
                }
            }
        }
    }
    Ok(())
}
