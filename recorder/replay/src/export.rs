//! A bundle as a program of its own: cubin, memory, and a file in C or Python that runs it on any machine with that GPU
//! architecture.

mod python;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use stallmap_schema::capture::reader::CaptureReader;
use stallmap_sys::replayer::LaunchAttribute;

use crate::bundle::{self, PageContents, ReplayBundle};
use crate::error::ReplayError;

/// The language of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportLanguage {
    /// C, with the driver's headers.
    C,
    /// Python, with the driver alone.
    Python,
}

/// The program in C, the same for every bundle.
const PROGRAM: &str = include_str!("export/replay.c");

/// Writes a bundle into a new folder below `folder`, completely or not at all. Returns that folder.
pub fn export(
    capture: &CaptureReader,
    bundle: &ReplayBundle,
    folder: &Path,
    language: ExportLanguage,
) -> Result<PathBuf, ReplayError> {
    let path = folder.join(format!("launch-{}", bundle.kernel_id.0));
    let contents = bundle::contents(capture, [bundle])?;
    bundle.check_whole(&contents)?;
    let cubin = capture.cubin(&bundle.content_hash)?;
    fs::create_dir_all(folder).map_err(io("create folder", folder))?;
    fs::create_dir(&path).map_err(io("create folder", &path))?;
    let written = write_files(&path, bundle, &cubin, &contents, language);
    if written.is_err() {
        // The reason is reported already. A failure to clean up adds nothing.
        drop(fs::remove_dir_all(&path));
    }
    written.map(|()| path)
}

fn write_files(
    path: &Path,
    bundle: &ReplayBundle,
    cubin: &[u8],
    contents: &PageContents,
    language: ExportLanguage,
) -> Result<(), ReplayError> {
    let numbers: BTreeMap<u64, u64> = contents.keys().copied().zip(0..).collect();
    write(&path.join("kernel.cubin"), cubin)?;
    let files = match language {
        ExportLanguage::C => [("replay.c", PROGRAM.to_owned()), ("launch.h", header(bundle, &numbers))],
        ExportLanguage::Python => {
            [("replay.py", python::PROGRAM.to_owned()), ("launch.json", python::launch(bundle, &numbers))]
        }
    };
    for (name, text) in files {
        write(&path.join(name), text.as_bytes())?;
    }
    write(&path.join("pages.bin"), &pages(bundle, &numbers))?;
    write_contents(&path.join("contents.bin"), contents)
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), ReplayError> {
    fs::write(path, bytes).map_err(io("write", path))
}

fn write_contents(path: &Path, contents: &PageContents) -> Result<(), ReplayError> {
    let mut file = BufWriter::new(File::create(path).map_err(io("create", path))?);
    for content in contents.values() {
        file.write_all(content).map_err(io("write", path))?;
    }
    file.flush().map_err(io("write", path))
}

/// Four words per page: address, number of its content, written flag, hash afterwards.
fn pages(bundle: &ReplayBundle, numbers: &BTreeMap<u64, u64>) -> Vec<u8> {
    let words = bundle.pages.iter().flat_map(|page| {
        let number = numbers.get(&page.content_id).copied().unwrap_or(0);
        [page.address, number, u64::from(page.hash_after.is_some()), page.hash_after.unwrap_or(0)]
    });
    words.flat_map(u64::to_le_bytes).collect()
}

/// The launch as C constants.
fn header(bundle: &ReplayBundle, numbers: &BTreeMap<u64, u64>) -> String {
    let ReplayBundle { shape, parameters, .. } = bundle;
    let mut text = String::from("/* One launch, as it was recorded. */\n");
    let mut define = |name: &str, value: &dyn std::fmt::Display| {
        // Writing to a string cannot fail.
        writeln!(text, "#define {name} {value}").unwrap_or_default();
    };
    define("KERNEL", &format_args!("\"{}\"", escaped(&bundle.name)));
    for (axis, at) in ["X", "Y", "Z"].into_iter().zip(0..) {
        define(&format!("GRID_{axis}"), &shape.grid[at]);
        define(&format!("BLOCK_{axis}"), &shape.block[at]);
    }
    define("DYNAMIC_SHARED_BYTES", &shape.dynamic_shared_bytes);
    let allowed = bundle.max_dynamic_shared_bytes.unwrap_or(0);
    define("MAX_DYNAMIC_SHARED_BYTES", &i64::from(allowed).max(shape.dynamic_shared_bytes.into()));
    define("SHARED_CARVEOUT", &bundle.shared_carveout.unwrap_or(-1));
    define("PARAMETER_BYTES", &parameters.len());
    define("ATTRIBUTE_COUNT", &shape.attributes.len());
    define("SYMBOL_COUNT", &bundle.symbols.len());
    // C has no empty arrays: each has one element more.
    let attributes = shape.attributes.iter().flat_map(|LaunchAttribute(bytes)| bytes.iter().copied());
    writeln!(
        text,
        "static const _Alignas(64) unsigned char PARAMETERS[] = {{{}0}};",
        list(parameters.iter().copied())
    )
    .unwrap_or_default();
    writeln!(text, "static const _Alignas(8) unsigned char ATTRIBUTES[] = {{{}0}};", list(attributes))
        .unwrap_or_default();
    text.push_str(
        "static const struct { const char *name; size_t offset, bytes; uint64_t content, is_written, hash_after; } \
         SYMBOLS[] = {\n",
    );
    for symbol in &bundle.symbols {
        let number = numbers.get(&symbol.content_id).copied().unwrap_or(0);
        let (name, offset, bytes) = (escaped(&symbol.name), symbol.offset_bytes, symbol.size_bytes);
        let (is_written, hash) = (u8::from(symbol.hash_after.is_some()), symbol.hash_after.unwrap_or(0));
        writeln!(text, "    {{\"{name}\", {offset}, {bytes}, {number}, {is_written}, {hash}u}},")
            .unwrap_or_default();
    }
    text.push_str("    {0, 0, 0, 0, 0, 0}\n};\n");
    text
}

fn list(bytes: impl Iterator<Item = u8>) -> String {
    bytes.fold(String::new(), |mut text, byte| {
        write!(text, "{byte},").unwrap_or_default();
        text
    })
}

/// A name inside a C string. Names are untrusted, so everything but plain symbols is escaped.
fn escaped(name: &str) -> String {
    name.bytes().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || b"_$.".contains(&byte) {
            text.push(char::from(byte));
        } else {
            write!(text, "\\{byte:03o}").unwrap_or_default();
        }
        text
    })
}

fn io<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(std::io::Error) -> ReplayError + 'a {
    move |source| ReplayError::Io { action, path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use stallmap_schema::hash;
    use stallmap_schema::tables::replay::PAGE_BYTES;

    use super::*;
    use crate::gpu::LaunchShape;

    fn bundle() -> ReplayBundle {
        ReplayBundle {
            kernel_id: stallmap_schema::id::KernelId(7),
            name: "_Z1k\"\\n".into(),
            module_id: stallmap_schema::id::ModuleId(1),
            content_hash: String::new(),
            shape: LaunchShape {
                grid: [1, 2, 3],
                block: [4, 5, 6],
                dynamic_shared_bytes: 7,
                attributes: vec![LaunchAttribute([9; 72])],
            },
            max_dynamic_shared_bytes: None,
            shared_carveout: None,
            parameters: vec![1, 2],
            pages: vec![bundle::DevicePage {
                address: 0x1000,
                content_id: 5,
                hash_after: Some(8),
                content_after_id: None,
            }],
            symbols: vec![bundle::SymbolPart {
                name: "s".into(),
                offset_bytes: 0,
                size_bytes: 4,
                content_id: 5,
                hash_after: Some(u64::MAX),
            }],
        }
    }

    fn compile(folder: &Path, arguments: &[&str]) {
        let output = Command::new("cc").current_dir(folder).args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// The C program hashes pages as the recorder does.
    #[test]
    fn pages_are_hashed_alike() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("replay.c"), PROGRAM).unwrap();
        compile(folder.path(), &["-O1", "-DHASH_ONLY", "replay.c", "-o", "hash"]);
        let pages: Vec<Vec<u8>> = (0..5_usize)
            .map(|page| {
                (0..PAGE_BYTES).map(|at| u8::try_from((at * page * 31 + at / 7) % 256).unwrap()).collect()
            })
            .collect();
        let mut child = Command::new(folder.path().join("hash"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(&pages.concat()).unwrap();
        let output = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
        let expected: Vec<String> =
            pages.iter().map(|page| format!("{:016x}", hash::content_hash(page))).collect();
        assert_eq!(output.lines().collect::<Vec<_>>(), expected);
    }

    /// Runs lines of Python after `import replay`, in a folder with a launch.
    fn python(lines: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("replay.py"), python::PROGRAM).unwrap();
        let launch = python::launch(&bundle(), &BTreeMap::from([(5, 3)]));
        fs::write(folder.path().join("launch.json"), launch).unwrap();
        let python = std::env::var_os("STALLMAP_TEST_PYTHON").unwrap_or("python3".into());
        let program = format!("import json, replay\n{lines}");
        let output = Command::new(python)
            .current_dir(folder.path())
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .args(["-c", &program])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The Python program hashes pages as the recorder does, with and without numpy.
    #[test]
    fn python_hashes_pages_alike() {
        let shown = python(
            "pages = b''.join(bytes((at * page * 31 + at // 7) % 256 for at in range(4096)) for page in range(3))\n\
             fast = replay.hash_pages(pages)\n\
             replay.numpy = None\n\
             assert replay.hash_pages(pages) == fast\n\
             print(*[f'{x:016x}' for x in fast])",
        );
        let page = |page: usize| {
            let bytes = (0..PAGE_BYTES).map(|at| u8::try_from((at * page * 31 + at / 7) % 256).unwrap());
            format!("{:016x}", hash::content_hash(&bytes.collect::<Vec<u8>>()))
        };
        assert_eq!(shown.split_whitespace().collect::<Vec<_>>(), [0, 1, 2].map(page));
    }

    /// The program reads the launch, whatever the names in it are. Its structures are as large as the driver's.
    #[test]
    fn python_reads_the_launch() {
        let shown = python(
            "launch = json.loads((replay.HERE / 'launch.json').read_text())\n\
             print(bytes.fromhex(launch['kernel']), launch['grid'], launch['block'], launch['max_dynamic_shared_bytes'])\n\
             print(len(bytes.fromhex(launch['attributes'])), launch['attribute_count'], bytes.fromhex(launch['parameters']))\n\
             symbol = launch['symbols'][0]\n\
             print(symbol['content'], symbol['size_bytes'], int(symbol['hash_after'], 16) == 2**64 - 1)\n\
             kinds = replay.AllocationProp, replay.AccessDesc, replay.LaunchConfig\n\
             print(*[replay.ctypes.sizeof(kind) for kind in kinds])\n\
             buffer, address = replay.aligned(b'ab')\n\
             print(address % 64, replay.ctypes.string_at(address, 2))\n\
             print(replay.Launch.array(4096, (2, 3), '<f4').__cuda_array_interface__['data'])",
        );
        let expected = "b'_Z1k\"\\\\n' [1, 2, 3] [4, 5, 6] 7\n72 1 b'\\x01\\x02'\n3 4 True\n32 12 56\n0 b'ab'\n(4096, False)\n";
        assert_eq!(shown, expected);
    }

    /// The header is C, whatever the names in it are.
    #[test]
    fn the_header_compiles_and_holds_the_launch() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("launch.h"), header(&bundle(), &BTreeMap::from([(5, 0)]))).unwrap();
        let program = "#include <stdint.h>\n#include <stdio.h>\n#include \"launch.h\"\nint main(void) { printf(\"%d %d %d %s %zu %d %d\", \
            GRID_Z, BLOCK_X, MAX_DYNAMIC_SHARED_BYTES, KERNEL, sizeof PARAMETERS + sizeof ATTRIBUTES, (int)SYMBOLS[0].bytes, \
            SYMBOLS[0].hash_after == UINT64_MAX); }";
        fs::write(folder.path().join("main.c"), program).unwrap();
        compile(folder.path(), &["main.c", "-o", "main"]);
        let output = Command::new(folder.path().join("main")).output().unwrap().stdout;
        assert_eq!(String::from_utf8(output).unwrap(), "3 4 7 _Z1k\"\\n 76 4 1");
    }

    #[test]
    fn pages_are_four_words() {
        let bytes = pages(&bundle(), &BTreeMap::from([(5, 0)]));
        let words: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        assert_eq!(words, [0x1000, 0, 1, 8]);
    }
}
