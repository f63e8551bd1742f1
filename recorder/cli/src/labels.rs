//! Labels of a recording: those of the command line, and the commit and branch that a CI job states in its environment.

use stallmap_config::RecordingOption;
use stallmap_schema::capture::labels::{self, RECORDED};

/// Variables of CI services and the label that each gives: GitHub, GitLab, Buildkite, CircleCI, Jenkins, Bitbucket.
const VARIABLES: [(&str, &str); 12] = [
    ("GITHUB_SHA", "commit"),
    ("CI_COMMIT_SHA", "commit"),
    ("BUILDKITE_COMMIT", "commit"),
    ("CIRCLE_SHA1", "commit"),
    ("GIT_COMMIT", "commit"),
    ("BITBUCKET_COMMIT", "commit"),
    ("GITHUB_REF_NAME", "branch"),
    ("CI_COMMIT_REF_NAME", "branch"),
    ("BUILDKITE_BRANCH", "branch"),
    ("CIRCLE_BRANCH", "branch"),
    ("GIT_BRANCH", "branch"),
    ("BITBUCKET_BRANCH", "branch"),
];

/// Labels as options of the recording. A label that was given replaces one of the environment.
pub(crate) fn recorded(
    given: &[(String, String)],
    variable: impl Fn(&str) -> Option<String>,
) -> Vec<RecordingOption> {
    let mut labels = labels::CaptureLabels::new();
    for (name, key) in VARIABLES {
        if let Some(value) =
            variable(name).filter(|value| !value.is_empty() && labels::check_label(key, value).is_ok())
        {
            labels.entry(key.to_owned()).or_insert(value);
        }
    }
    labels.extend(given.iter().cloned());
    labels.retain(|_, value| !value.is_empty());
    labels
        .into_iter()
        .map(|(key, value)| RecordingOption { name: format!("{RECORDED}{key}"), value })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_that_are_given_replace_those_of_the_environment() {
        let environment = |name: &str| match name {
            "GITHUB_SHA" => Some("1f3a".to_owned()),
            "GIT_COMMIT" => Some("ffff".to_owned()),
            "GITHUB_REF_NAME" => Some("a,b".to_owned()),
            _ => None,
        };
        let labels = |given: &[(&str, &str)]| {
            let given: Vec<_> =
                given.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            let recorded = recorded(&given, environment).into_iter();
            recorded.map(|option| format!("{}={}", option.name, option.value)).collect::<Vec<_>>()
        };
        assert_eq!(labels(&[]), ["label.commit=1f3a"]);
        assert_eq!(labels(&[("commit", "2b"), ("model", "gpt2")]), ["label.commit=2b", "label.model=gpt2"]);
        assert_eq!(labels(&[("commit", "")]), [""; 0]);
    }
}
