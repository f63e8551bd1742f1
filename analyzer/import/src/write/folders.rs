//! Files of Python stacks as a recording shows them: relative to the folder that they are imported from.
//!
//! Some tools write complete paths, and none writes the folders of imports. A script's folder is that of the frame
//! `<module>` that called all others.

use std::collections::{BTreeMap, BTreeSet};

use stallmap_readers::trace::model::TraceModel;

/// Ends of folders of libraries. Python's own is followed by its version.
const LIBRARIES: [&str; 2] = ["/site-packages/", "/dist-packages/"];
const PYTHON: [&str; 2] = ["/lib/python", "/lib64/python"];

/// Folders of the programs of a trace.
pub(super) struct ScriptFolders {
    folders: BTreeSet<String>,
    /// Files of several programs that differ in their folders only.
    alike: BTreeSet<String>,
}

impl ScriptFolders {
    /// From the scripts, or the folder of all files without one.
    pub(super) fn from_trace(trace: &TraceModel) -> Self {
        let mut found = Self { folders: Self::folders(trace), alike: BTreeSet::new() };
        let files: BTreeSet<&str> = trace.frames.iter().map(|frame| frame.file.as_str()).collect();
        let mut known = BTreeMap::new();
        for file in files.into_iter().filter(|file| in_library(file).is_none()) {
            if let Some(other) = known.insert(found.shown(file), file) {
                found.alike.extend([other.to_owned(), file.to_owned()]);
            }
        }
        found
    }

    fn folders(trace: &TraceModel) -> BTreeSet<String> {
        let own = |file: &str| file.starts_with('/') && in_library(file).is_none();
        let outermost = trace.stacks.iter().filter_map(|stack| trace.frames.get(*stack.last()?));
        let scripts = outermost.filter(|frame| frame.function == "<module>" && own(&frame.file));
        let scripts: BTreeSet<String> = scripts.filter_map(|frame| folder(&frame.file)).collect();
        if !scripts.is_empty() {
            return scripts;
        }
        let folders =
            trace.frames.iter().filter(|frame| own(&frame.file)).filter_map(|frame| folder(&frame.file));
        folders.reduce(|a, b| common(&a, &b)).filter(|folder| !folder.is_empty()).into_iter().collect()
    }

    /// The file without the folders in front of it. One of elsewhere stays, and so do those that would be alike.
    pub(super) fn shown<'a>(&self, file: &'a str) -> &'a str {
        if !file.starts_with('/') || self.alike.contains(file) {
            return file;
        }
        in_library(file).unwrap_or_else(|| {
            let mut ends = file.rmatch_indices('/').map(|(at, _)| file.split_at(at));
            let inside = ends.find(|(folder, _)| self.folders.contains(*folder));
            inside.map_or(file, |(_, rest)| rest.trim_start_matches('/'))
        })
    }
}

/// The file within the innermost folder of libraries.
fn in_library(file: &str) -> Option<&str> {
    let packages = LIBRARIES.iter().filter_map(|folder| Some(file.rsplit_once(folder)?.1));
    let python = PYTHON.iter().filter_map(|folder| {
        let (version, rest) = file.rsplit_once(folder)?.1.split_once('/')?;
        version.starts_with(|letter: char| letter.is_ascii_digit()).then_some(rest)
    });
    packages.chain(python).min_by_key(|rest| rest.len())
}

/// The folder of a file.
fn folder(file: &str) -> Option<String> {
    Some(file.rsplit_once('/')?.0.to_owned())
}

/// The folder that both are in.
fn common(a: &str, b: &str) -> String {
    let parts = a.split('/').zip(b.split('/')).take_while(|(a, b)| a == b);
    parts.map(|(part, _)| part).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use stallmap_readers::trace::model::TraceFrame;

    use super::*;

    fn shown(frames: &[(&str, &str)], file: &str) -> String {
        let frame = |(file, function): &(&str, &str)| TraceFrame {
            file: (*file).into(),
            function: (*function).into(),
            line: 1,
        };
        let frames: Vec<TraceFrame> = frames.iter().map(frame).collect();
        let stacks = vec![(0..frames.len()).collect()];
        let trace = TraceModel { frames, stacks, ..TraceModel::default() };
        ScriptFolders::from_trace(&trace).shown(file).to_owned()
    }

    #[test]
    fn files_are_relative_to_script_and_libraries() {
        let frames = [
            ("/venv/lib/python3.12/site-packages/torch/nn/modules/module.py", "_call_impl"),
            ("/srv/job/models/net.py", "forward"),
            ("/srv/job/train.py", "<module>"),
        ];
        for (file, found) in [
            (frames[0].0, "torch/nn/modules/module.py"),
            ("/usr/lib/python3.12/threading.py", "threading.py"),
            (frames[1].0, "models/net.py"),
            (frames[2].0, "train.py"),
            ("/srv/jobs/other.py", "/srv/jobs/other.py"),
            ("models/net.py", "models/net.py"),
        ] {
            assert_eq!(shown(&frames, file), found);
        }
    }

    #[test]
    fn scripts_of_one_name_keep_their_folders() {
        let frame = |file: &str| TraceFrame { file: file.into(), function: "<module>".into(), line: 1 };
        let frames = vec![frame("/a/train.py"), frame("/b/train.py"), frame("/b/net.py")];
        let trace = TraceModel { frames, stacks: vec![vec![0], vec![2, 1]], ..TraceModel::default() };
        let folders = ScriptFolders::from_trace(&trace);
        let shown = trace.frames.iter().map(|frame| folders.shown(&frame.file));
        assert_eq!(shown.collect::<Vec<_>>(), ["/a/train.py", "/b/train.py", "net.py"]);
    }

    #[test]
    fn without_a_script_files_share_a_folder() {
        let frames = [("/srv/job/models/net.py", "forward"), ("/srv/job/train.py", "step")];
        assert_eq!(shown(&frames, frames[0].0), "models/net.py");
        let apart = [("/a/net.py", "forward"), ("/b/train.py", "step")];
        assert_eq!(shown(&apart, apart[0].0), "/a/net.py");
        assert_eq!(shown(&[("/usr/lib/python3.12/x.py", "<module>")], "/srv/train.py"), "/srv/train.py");
    }
}
