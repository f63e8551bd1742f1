//! Pages as a whole, and their units and sizes.

use std::io::Write as _;

use super::*;

/// Columns of the page of details.
const DETAILS: &str =
    "\"ID\",\"Kernel Name\",\"Section Name\",\"Metric Name\",\"Metric Unit\",\"Metric Value\"";

/// The result of a page.
fn result(page: &str) -> ReadResult<TraceModel> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(page.as_bytes()).unwrap();
    read(&ImportInput::from_path(file.path()).unwrap())
}

/// The trace of a page.
fn trace(page: &str) -> TraceModel {
    result(page).unwrap()
}

/// A line of details of the kernel 0.
fn detail(section: &str, label: &str, unit: &str, value: &str) -> String {
    format!("\"0\",\"k\",\"{section}\",\"{label}\",\"{unit}\",\"{value}\"")
}

#[test]
fn labels_of_details_are_those_of_their_section_and_describe_launches() {
    let lines = [
        detail("Light", "Memory Throughput", "%", "85.12"),
        detail("Memory", "Memory Throughput", "Tbyte/s", "3.21"),
        detail("Launch", "Registers Per Thread", "register/thread", "32"),
        detail("Launch", "Static Shared Memory Per Block", "byte/block", "16"),
        detail("Launch", "Dynamic Shared Memory Per Block", "Kbyte/block", "16.38"),
    ];
    let found = trace(&format!("{DETAILS}\n{}\n", lines.join("\n")));
    let metrics: Vec<_> = found.counters.iter().map(|counter| (&*counter.metric, counter.value)).collect();
    assert_eq!(metrics[0], ("Memory Throughput", Some(85.12)));
    assert_eq!(metrics[1], ("Memory: Memory Throughput", Some(3.21e12)));
    assert_eq!(metrics[2], ("launch__registers_per_thread", Some(32.0)));
    let kernel = &found.kernels[0];
    assert_eq!((kernel.registers, kernel.shared_bytes), (Some(32), Some((16, 16_380))));
}

#[test]
fn a_record_in_which_the_file_ends_is_damage() {
    let page = "==PROF==\n\"ID\",\"Kernel Name\",\"a\",\"b\"\n\"\",\"\",\"\",\"\"\n\
        \"0\",\"k\",\"1.25\",\"2.34\"\n\"1\",\"k\",\"1,250.5\",\"2.34\"\n";
    let whole = trace(page);
    assert_eq!((whole.kernels.len(), whole.counters.len(), whole.losses.rows().count()), (2, 4, 4));
    // A cut number would show another separator of decimals.
    for cut in 2..page.len() - page.find("\"1\"").unwrap() {
        let found = trace(&page[..page.len() - cut]);
        let lost = found.losses.rows().find(|(_, reason, ..)| reason.contains("the file ends"));
        assert_eq!((found.kernels.len(), found.counters.len()), (1, 2), "{cut}");
        assert!(lost.is_some_and(|(.., first)| first == Some("byte 70")), "{cut}");
    }
}

#[test]
fn tables_of_other_tools_are_named() {
    for (page, tool) in [
        ("\"Kind\",\"Agent_Id\",\"Kernel_Name\",\"Start_Timestamp\"\n", "rocprofv3"),
        ("\"Index\",\"KernelName\",\"gpu-id\"\n0,\"k\",0\n", "rocprof 1 or 2"),
        ("Time (%),Total Time (ns),Name\n50.0,1000,k\n", "nsys stats"),
        ("==1== NVPROF is profiling\n\"Type\",\"Time(%)\"\n", "nvprof"),
        ("a,b\n", "no header with `Kernel Name`"),
    ] {
        let error = result(page).unwrap_err().to_string();
        assert!(error.contains(tool), "{error}");
    }
}

#[test]
fn units_lose_their_scale() {
    assert_eq!(base("Kbyte/block"), Some(("byte/block".to_owned(), 1e3)));
    assert_eq!(base("Mbyte"), Some(("byte".to_owned(), 1e6)));
    assert_eq!(base("byte"), Some(("byte".to_owned(), 1.0)));
    assert_eq!(base("usecond"), Some(("nanosecond".to_owned(), 1e3)));
    assert_eq!(base("Mwatt"), None);
    assert_eq!(base(""), Some((String::new(), 1.0)));
}

#[test]
fn sizes_are_read() {
    assert_eq!(extent("(256, 1, 1)"), Some([256, 1, 1]));
    assert_eq!((extent("(0, 1, 1)"), extent("256")), (None, None));
}
