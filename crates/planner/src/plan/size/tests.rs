use super::*;
use lab::schema::configuration::read_configurations;

/// A case for each setup: name, level, number of drives.
fn cases(setups: &[(&str, &str, u32)], platform: &str) -> Vec<Case> {
    let mut text = "schema = 1\n".to_owned();
    let mut points = "[points]\n".to_owned();
    for (name, level, count) in setups {
        let stack = if *level == "\"none\"" {
            "none"
        } else {
            "fullstripe"
        };
        text += &format!(
            "[setup.{name}]\ndrive = \"p4510-2tb\"\ncount = {count}\nlevel = {level}\nplatform = \"{platform}\"\nhost = \
             \"linux-6.12\"\nstack = \"{stack}\"\n"
        );
        points += &format!(
            "{name} = {{ setup = \"{name}\", state = \"steady\", workload = {{ op = \"randread\", bs = \"4k\", threads = 1, \
             qd = 1 }} }}\n"
        );
    }
    let library = Library::default();
    let read = read_configurations("p.toml", &(text + &points), &library.catalogue());
    let read = read.unwrap_or_else(|error| panic!("{error}"));
    let case = |(name, configuration): (&String, &Configuration)| Case {
        setup: name.clone(),
        load: "randread 4k".to_owned(),
        is_other: false,
        varied: Vec::new(),
        configuration: configuration.clone(),
    };
    read.iter().map(case).collect()
}

fn refused(question: &SizeQuestion, cases: &[Case]) -> String {
    let refusal = Sizer::of(question, cases, &Library::default());
    format!("{:#}", refusal.expect_err("it is impossible"))
}

fn spares(spares: u32) -> SizeQuestion {
    SizeQuestion {
        spares,
        ..SizeQuestion::default()
    }
}

#[test]
fn spares_that_nobody_can_use_or_hold_are_refused() {
    let without = cases(&[("a", "0", 4), ("b", "\"none\"", 1)], "epyc-9554p-24");
    assert_eq!(
        refused(&spares(1), &without),
        "--spares goes with RAID 1, 5 and 10 only: no other level is rebuilt"
    );
    let full = cases(&[("a", "0", 4), ("b", "5", 4)], "s2600wft-6154-x16");
    assert_eq!(
        refused(&spares(1), &full),
        "--spares 1: RAID 5 of 4 drives and its spares need 5 bays, and s2600wft-6154-x16 has 4"
    );
    assert!(refused(&spares(93), &full).contains("have at most 96"));
    assert!(refused(&spares(u32::MAX), &full).contains("have at most 96"));
    // RAID 0 cannot use the spare that RAID 5 gets.
    let both = cases(&[("a", "0", 4), ("b", "5", 4)], "epyc-9554p-24");
    let sizer = Sizer::of(&spares(2), &both, &Library::default()).expect("there is room");
    let shapes = both
        .iter()
        .map(|case| sizer.shape(&case.configuration.setup).spares);
    assert_eq!(shapes.collect::<Vec<_>>(), [0, 2]);
}

#[test]
fn a_failure_rate_is_a_share_of_drives() {
    let cases = cases(&[("a", "5", 4)], "epyc-9554p-24");
    for percent in [-0.1, 100.0, f64::NAN, f64::INFINITY] {
        let question = SizeQuestion {
            annual_failure_percent: Some(percent),
            ..SizeQuestion::default()
        };
        let refusal = refused(&question, &cases);
        assert!(
            refusal.starts_with("--afr must be from 0 to below 100"),
            "{refusal}"
        );
    }
    let setup = &cases[0].configuration.setup;
    let share = |percent| {
        let question = SizeQuestion {
            annual_failure_percent: percent,
            ..SizeQuestion::default()
        };
        let library = Library::default();
        let sizer = Sizer::of(&question, &cases, &library).expect("a share");
        sizer
            .drive(setup, &library)
            .expect("a profile")
            .annual_failure_share
    };
    assert_eq!(
        [share(None), share(Some(2.0)), share(Some(0.0))],
        [0.0044, 0.02, 0.0]
    );
}

#[test]
fn prices_that_do_not_fit_are_one_sentence() {
    let cases = cases(&[("a", "5", 4)], "epyc-9554p-24");
    let library = Library::default();
    let read = |text: &str| PriceList::of_text("prices.toml", text, &cases, &library);
    let head = "schema = 1\ncurrency = \"EUR\"\n[drive]\n";
    for (text, sentence) in [
        (
            format!("{head}p4510-4tb = 300"),
            "prices.toml: drive has no price of \"p4510-2tb\", which is planned: add it",
        ),
        (
            format!("{head}p4510-2tb = 200\np4510-3tb = 300"),
            "prices.toml: drive.\"p4510-3tb\" is no drive that plans know; nearest: \"p4510-1tb\", \"p4510-2tb\" or \
             \"p4510-4tb\"",
        ),
        (
            format!("{head}p4510-2tb = 200\n[platform]\nepyc-9554p = 9000"),
            "prices.toml: platform.\"epyc-9554p\" is no platform that plans know; nearest: \"epyc-9554p-24\"",
        ),
        (
            format!("{head}p4510-2tb = -1"),
            "prices.toml: drive.\"p4510-2tb\" must be 0 or more, is -1",
        ),
        (
            format!("{head}p4510-2tb = nan"),
            "prices.toml: drive.\"p4510-2tb\" must be 0 or more, is NaN",
        ),
        (
            format!("{head}intel-p3700-1.6tb = 1"),
            "prices.toml: drive.intel-p3700-1 is not whole: a name with a dot needs quotes, as \"intel-p3700-1.6tb\" = 100",
        ),
        (
            format!("{head}p4510-2tb = \"cheap\""),
            "prices.toml: drive.p4510-2tb must be a number, is ",
        ),
        (
            "schema = 1\ncurrency = \"US Dollar\"\n[drive]\np4510-2tb = 1".to_owned(),
            "prices.toml: currency must be one word of at most 8 letters, like \"EUR\", is \"US Dollar\"",
        ),
        (
            "schema = 2\ncurrency = \"EUR\"\n[drive]\np4510-2tb = 1".to_owned(),
            "prices.toml: schema must be 1, is 2",
        ),
        (
            "schema = 1\ncurrency = \"EUR\"\n[drives]\np4510-2tb = 1".to_owned(),
            "prices.toml: drives is not a key here",
        ),
        (
            "schema = 1\n[drive]".to_owned(),
            "prices.toml: currency is missing",
        ),
    ] {
        let refusal = read(&text).expect_err(&text).to_string();
        assert!(refusal.starts_with(sentence), "{refusal}\n{sentence}");
    }
    let missing = SizeQuestion {
        prices: Some("none/here.toml".into()),
        ..SizeQuestion::default()
    };
    assert!(refused(&missing, &cases).starts_with("cannot read the prices none/here.toml: "));
}

#[test]
fn prices_are_those_of_the_file_and_are_listed_as_the_users() {
    let cases = cases(&[("a", "5", 4)], "epyc-9554p-24");
    let text = "schema = 1\ncurrency = \"EUR\"\n[drive]\np4510-2tb = 210\n[platform]\nepyc-9554p-24 = 9000\n";
    let list = PriceList::of_text("prices.toml", text, &cases, &Library::default());
    let list = list.expect("it has the drive");
    let setup = &cases[0].configuration.setup;
    let prices = UnitPrices {
        drive: 210.0,
        platform: Some(9000.0),
    };
    assert_eq!(list.of("p4510-2tb", setup), prices);
    let keys: Vec<String> = list.known().into_iter().map(|known| known.key).collect();
    assert_eq!(
        keys,
        [
            "price of drive p4510-2tb, EUR",
            "price of platform epyc-9554p-24, EUR"
        ]
    );
}

#[test]
fn the_sources_of_all_formulas_are_listed_and_the_users_rate_replaces_the_usual() {
    let cases = cases(&[("a", "5", 4)], "epyc-9554p-24");
    let library = Library::default();
    let mut all = library.provenance(&cases[0].configuration.setup);
    let usual = all
        .iter()
        .find(|known| known.key == ANNUAL_FAILURE)
        .expect("it is listed");
    assert_eq!((usual.value, usual.status.as_str()), (Some(0.44), "prior"));
    let question = SizeQuestion {
        annual_failure_percent: Some(2.0),
        ..SizeQuestion::default()
    };
    let sizer = Sizer::of(&question, &cases, &library).expect("a share");
    sizer.add_provenance(&mut all);
    let yours = all
        .iter()
        .find(|known| known.key == ANNUAL_FAILURE)
        .expect("it is listed");
    assert_eq!((yours.value, yours.source.as_str()), (Some(2.0), "--afr"));
    let formulas = all.iter().filter(|known| known.status == "formula");
    assert_eq!(formulas.count(), FORMULAS.len());
}
