//! A family as the text of a file, in the form that [`crate::in_file`] reads.

use crate::prior::Range;
use crate::sheet::{Drive, Family, Figure, Source};
use models::document::quoted;
use std::fmt::Write as _;
use words::exact_number;

/// The text of a file with this family.
#[must_use]
pub fn text(family: &Family) -> String {
    let Family {
        schema,
        name,
        maker,
        class,
        purpose,
        generation,
        lanes,
        sources,
        drives,
        priors,
    } = family;
    let mut text = format!(
        "schema = {schema}\nname = {}\nmaker = {}\nclass = \"{class}\"\npurpose = \"{purpose}\"\ngeneration = {}\nlanes = {}\n",
        quoted(name),
        quoted(maker),
        figure(generation),
        figure(lanes),
    );
    for source in sources {
        text += &source_text(source);
    }
    for drive in drives {
        text += &drive_text(drive);
    }
    if !priors.is_empty() {
        text += "\n# What the sheet does not say: what is usual of such drives. A plan draws from these ranges; half of the draws\n\
                 # lie below `usual`. Narrow those that you know better.\n[priors]\n";
        for (prior, range) in priors {
            let _ = writeln!(text, "{prior} = {}", range_text(range));
        }
    }
    text
}

fn source_text(source: &Source) -> String {
    let Source {
        id,
        kind,
        title,
        address,
        date,
    } = source;
    format!(
        "\n[[source]]\nid = {}\nkind = \"{kind}\"\ntitle = {}\naddress = {}\ndate = {}\n",
        quoted(id),
        quoted(title),
        quoted(address),
        quoted(date)
    )
}

fn drive_text(drive: &Drive) -> String {
    let mut text = format!("\n[[drive]]\nid = {}\n", quoted(&drive.id));
    for (key, names) in [("aliases", &drive.aliases), ("models", &drive.models)] {
        if !names.is_empty() {
            let names: Vec<String> = names.iter().map(|name| quoted(name)).collect();
            let _ = writeln!(text, "{key} = [{}]", names.join(", "));
        }
    }
    text += "\n[drive.ratings]\n";
    for (rating, said) in &drive.ratings {
        let _ = writeln!(text, "{rating} = {}", figure(said));
    }
    text
}

fn figure(figure: &Figure) -> String {
    let said: Vec<(String, String)> = figure
        .said()
        .map(|(value, source)| (value.to_string(), quoted(source)))
        .collect();
    let burst = if figure.is_burst {
        ", burst = true"
    } else {
        ""
    };
    let (values, sources): (Vec<String>, Vec<String>) = said.into_iter().unzip();
    match (values.as_slice(), sources.as_slice()) {
        ([value], [source]) => format!("{{ value = {value}, source = {source}{burst} }}"),
        _ => format!(
            "{{ value = [{}], source = [{}]{burst} }}",
            values.join(", "),
            sources.join(", ")
        ),
    }
}

fn range_text(range: &Range) -> String {
    let Range {
        low,
        usual,
        high,
        source,
    } = range;
    let [low, usual, high] = [low, usual, high].map(|value| exact_number(*value));
    format!(
        "{{ low = {low}, usual = {usual}, high = {high}, source = {} }}",
        quoted(source)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Catalogue, in_file};

    #[test]
    fn what_is_written_is_read_as_the_same_family() {
        let mut family = Catalogue::built_in()
            .with_id("wd-sn850x-1tb")
            .expect("it is there")
            .family
            .clone();
        family.name = "a \"quoted\" \\ name\twith a tab".to_owned();
        let name = format!("my.toml#{}", family.drives[0].id);
        let (read, place) = in_file(&name, &text(&family)).expect("it is read");
        assert_eq!((read, place), (family, 0));
    }
}
