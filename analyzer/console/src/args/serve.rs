//! `stallmap serve`

use std::path::PathBuf;

use clap::{ArgGroup, Args};

use super::examples;
use super::named::NamedCapture;

/// `stallmap serve`
#[derive(Args, Debug)]
#[command(after_help = examples(&[
    ("stallmap serve train.stallmap --http 127.0.0.1:8080", "the page of the capture with a box for SQL, in a browser"),
    ("stallmap serve train.stallmap --postgres 127.0.0.1:5433", "for psql, drivers of PostgreSQL and BI tools"),
    ("stallmap serve runs/ --postgres 127.0.0.1:5433", "every capture of a folder, as SCHEMA.TABLE"),
    ("stallmap serve train.stallmap --flight 127.0.0.1:32010", "for ADBC, pyarrow and other clients of Arrow Flight SQL"),
    ("stallmap serve --stdio train.stallmap", "the process that the Python package starts"),
]), group = ArgGroup::new("clients").args(["http", "postgres", "flight", "stdio"]).required(true))]
pub struct ServeArgs {
    /// Captures, each as NAME=CAPTURE if there are several. With an address also folders of captures
    #[arg(value_name = "[NAME=]NAME.stallmap", required = true)]
    pub captures: Vec<NamedCapture>,
    /// Read requests from standard input, write results to standard output, and exit at the end of the input
    #[arg(long)]
    pub stdio: bool,
    /// Listen on this address for browsers, which get the page of each capture with a box for SQL. Port 0 is a free one.
    /// Addresses beyond loopback need --tls-cert
    #[arg(long, value_name = "HOST:PORT", group = "network")]
    pub http: Option<String>,
    /// Listen on this address with PostgreSQL's protocol. Port 0 is a free one. Addresses beyond loopback need
    /// --tls-cert
    #[arg(long, value_name = "HOST:PORT", group = "network")]
    pub postgres: Option<String>,
    /// Listen on this address with Arrow Flight SQL. Port 0 is a free one. Addresses beyond loopback need --tls-cert
    #[arg(long, value_name = "HOST:PORT", group = "network")]
    pub flight: Option<String>,
    /// File whose first line is the password or token [default: STALLMAP_PASSWORD, else a random one, which is printed]
    #[arg(long, value_name = "FILE", requires = "network")]
    pub password_file: Option<PathBuf>,
    /// Certificate for TLS, with its chain (PEM)
    #[arg(long, value_name = "FILE", requires_all = ["network", "tls_key"])]
    pub tls_cert: Option<PathBuf>,
    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Folder of source files for pages, if not where the compiler found them
    #[arg(long = "source-root", value_name = "DIR", conflicts_with_all = ["postgres", "flight", "stdio"])]
    pub root: Option<PathBuf>,
    /// Longest time of a query
    #[arg(long, value_name = "SECONDS", default_value_t = 60, requires = "network", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub timeout: u64,
    /// Most connections at a time
    #[arg(long, value_name = "N", default_value_t = 16, requires = "network", value_parser = connections)]
    pub connections: usize,
}

fn connections(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=1_000).contains(number));
    number.ok_or_else(|| "use a number from 1 to 1000".to_owned())
}
