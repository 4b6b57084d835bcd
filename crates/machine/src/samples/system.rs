//! Processors, nodes, board and the firmware's tables of a sample.

use super::{Line, Out, Reader, line};

pub fn build(out: &Out, lines: &[Line]) {
    if let Some(board) = line(lines, "board") {
        for (key, file) in [("vendor", "sys_vendor"), ("product", "product_name")] {
            out.text(
                &format!("/sys/class/dmi/id/{file}"),
                board.said(key).expect("a board has names"),
            );
        }
    }
    let processor = line(lines, "processor").expect("a machine has processors");
    processors(out, processor, line(lines, "idle"));
    if let Some(nodes) = line(lines, "nodes") {
        numa(out, processor, nodes.number("count").expect("count="));
    }
    if let Some(memory) = line(lines, "memory") {
        channels(out, memory);
    }
    if out.reader == Reader::Root {
        tables(out, lines);
    }
}

/// Sockets, cores of each, and threads of each core.
fn counts(processor: &Line) -> [u64; 3] {
    ["sockets", "cores", "threads"]
        .map(|key| processor.number(key).expect("a processor has counts"))
}

/// The kernel numbers the first threads of all cores first, socket by socket.
fn processors(out: &Out, processor: &Line, idle: Option<&Line>) {
    let [sockets, cores, threads] = counts(processor);
    for cpu in 0..sockets * cores * threads {
        let core = cpu % (sockets * cores);
        let siblings: Vec<String> = (0..threads)
            .map(|thread| (core + thread * sockets * cores).to_string())
            .collect();
        let folder = format!("/sys/devices/system/cpu/cpu{cpu}/topology");
        out.text(&format!("{folder}/physical_package_id"), core / cores);
        out.text(
            &format!("{folder}/thread_siblings_list"),
            siblings.join(","),
        );
    }
    let is_virtual = idle.is_none() && processor.said("virtual").is_some();
    let flags = if is_virtual {
        "fpu sse2 hypervisor"
    } else {
        "fpu sse2"
    };
    let model = processor.said("model").expect("a processor has a model");
    out.text(
        "/proc/cpuinfo",
        format!("processor\t: 0\nmodel name\t: {model}\nflags\t\t: {flags}"),
    );
    // The first of two kinds of cores.
    if let Some(performance) = processor.number("performance") {
        out.text(
            "/sys/devices/cpu_core/cpus",
            format!("0-{}", performance - 1),
        );
    }
    let folder = "/sys/devices/system/cpu/cpu0";
    if let Some(mhz) = processor.number("max_mhz") {
        out.text(&format!("{folder}/cpufreq/cpuinfo_max_freq"), mhz * 1000);
    }
    // Only Intel's driver shows it.
    if let Some(mhz) = processor
        .number("base_mhz")
        .filter(|_| model.contains("Intel"))
    {
        out.text(&format!("{folder}/cpufreq/base_frequency"), mhz * 1000);
    }
    if let Some(idle) = idle {
        let states = [
            ("POLL", 0, 0),
            (
                idle.said("name").expect("name="),
                idle.number("residency_us").expect("residency_us="),
                idle.number("exit_us").expect("exit_us="),
            ),
        ];
        for (number, (name, residency, exit)) in states.into_iter().enumerate() {
            let folder = format!("{folder}/cpuidle/state{number}");
            out.text(&format!("{folder}/name"), name);
            out.text(&format!("{folder}/residency"), residency);
            out.text(&format!("{folder}/latency"), exit);
            out.text(&format!("{folder}/disable"), 0);
        }
    }
}

/// Nodes of equal sizes, socket by socket.
fn numa(out: &Out, processor: &Line, nodes: u64) {
    let [sockets, cores, threads] = counts(processor);
    let all = sockets * cores;
    for node in 0..nodes {
        let (first, last) = (node * all / nodes, (node + 1) * all / nodes - 1);
        let lists: Vec<String> = (0..threads)
            .map(|thread| format!("{}-{}", first + thread * all, last + thread * all))
            .collect();
        out.text(
            &format!("/sys/devices/system/node/node{node}/cpulist"),
            lists.join(","),
        );
    }
}

/// What the kernel's drivers for error correction show, if there are channels: modules in turn on each.
fn channels(out: &Out, memory: &Line) {
    let Some(channels) = memory.number("channels") else {
        return;
    };
    for number in 0..memory.number("dimms").expect("dimms=") {
        let folder = format!("/sys/devices/system/edac/mc/mc0/dimm{number}");
        let (channel, slot) = (number % channels, number / channels);
        out.text(
            &format!("{folder}/dimm_location"),
            format!("channel {channel} slot {slot}"),
        );
        out.text(&format!("{folder}/size"), 1024);
    }
}

/// Modules and slots as SMBIOS 3.1 writes them (DSP0134, structures 17 and 9).
fn tables(out: &Out, lines: &[Line]) {
    let mut tables = Vec::new();
    if let Some(memory) = line(lines, "memory") {
        for number in 0..memory.number("dimms").expect("dimms=") {
            module(&mut tables, memory, number as u16);
        }
    }
    for (number, line) in lines.iter().filter(|line| line.what == "slot").enumerate() {
        slot(&mut tables, line, number as u16);
    }
    if tables.is_empty() {
        return;
    }
    structure(&mut tables, 127, 0xff00, &[], &[]);
    out.bytes("/sys/firmware/dmi/tables/DMI", &tables);
}

/// Adds a structure: header, body, and strings, which the body names by their numbers.
fn structure(tables: &mut Vec<u8>, kind: u8, handle: u16, body: &[u8], strings: &[&str]) {
    tables.extend([kind, body.len() as u8 + 4]);
    tables.extend(handle.to_le_bytes());
    tables.extend(body);
    for string in strings {
        tables.extend(string.bytes());
        tables.push(0);
    }
    tables.extend(if strings.is_empty() {
        &[0, 0][..]
    } else {
        &[0]
    });
}

fn module(tables: &mut Vec<u8>, memory: &Line, number: u16) {
    let mib = memory.number("gb").expect("gb=") * 1024;
    let speed = (memory.number("mt_s").expect("mt_s=") as u16).to_le_bytes();
    let mut body = vec![0; 0x28 - 4];
    body[0x0a - 4] = 64;
    // 32 GiB and more are in the longer field.
    let short = if mib < 0x7fff { mib as u16 } else { 0x7fff };
    body[0x0c - 4..0x0e - 4].copy_from_slice(&short.to_le_bytes());
    body[0x10 - 4] = 1;
    body[0x12 - 4] = match memory.said("kind") {
        Some("DDR5") => 0x22,
        Some("DDR4") => 0x1a,
        other => panic!("no code for memory of the kind {other:?}"),
    };
    body[0x15 - 4..0x17 - 4].copy_from_slice(&speed);
    body[0x1c - 4..0x20 - 4].copy_from_slice(&(mib as u32).to_le_bytes());
    body[0x20 - 4..0x22 - 4].copy_from_slice(&speed);
    structure(
        tables,
        17,
        0x1100 + number,
        &body,
        &[&format!("DIMM {number}")],
    );
}

fn slot(tables: &mut Vec<u8>, line: &Line, number: u16) {
    let width = match line.number("lanes").expect("lanes=") {
        4 => 0x0a,
        8 => 0x0b,
        16 => 0x0d,
        other => panic!("no code for x{other}"),
    };
    let mut body = vec![0; 0x11 - 4];
    body[0] = 1;
    body[1] = 0xb1;
    body[2] = width;
    body[3] = 4;
    body[4] = 4;
    body[0x0d - 4..0x11 - 4].copy_from_slice(&place(line.said("bus").expect("bus=")));
    structure(
        tables,
        9,
        0x0900 + number,
        &body,
        &[line.said("name").expect("name=")],
    );
}

/// `0000:17:00.0` as segment, bus, and device with function.
fn place(address: &str) -> [u8; 4] {
    let parts: Vec<u16> = address
        .split([':', '.'])
        .map(|part| u16::from_str_radix(part, 16).expect("an address is hexadecimal"))
        .collect();
    let [low, high] = parts[0].to_le_bytes();
    [low, high, parts[1] as u8, (parts[2] << 3 | parts[3]) as u8]
}
